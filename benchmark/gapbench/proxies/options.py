"""Checks of options that several proxies share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapbench.proxies.results import NotApplicable

if TYPE_CHECKING:
    from gapbench.proxies.context import Context
    from gapbench.symmetry import Symmetry


def radius_of(context: Context, radius: float, relative_radius: float | None) -> float:
    """The absolute radius; `relative_radius` is a fraction of the balanced parameter norm and takes precedence."""
    for name, value in (("radius", radius), ("relative_radius", relative_radius)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise ValueError(f"{name} = {value!r} must be a positive number")
    if relative_radius is not None:
        if not relative_radius > 0:
            raise ValueError(f"relative_radius = {relative_radius!r} must be positive")
        return float(relative_radius) * context.balanced_norm
    if not radius > 0:
        raise ValueError(f"radius = {radius!r} must be positive")
    return float(radius)


def positive(name: str, value: float) -> float:
    """A number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{name} = {value!r} must be a positive number")
    return float(value)


def count(name: str, value: int, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise ValueError(f"{name} = {value!r} must be a whole number of at least {least}")
    return int(value)


def norm_of(norm: str) -> str:
    """The norm, "l2" or "linf"."""
    if norm not in ("l2", "linf"):
        raise ValueError(f"norm = {norm!r} must be 'l2' or 'linf'")
    return norm


def group_of(context: Context) -> Symmetry:
    """The group that a quotient proxy divides by.

    Returns:
        The network's symmetries.

    Raises:
        NotApplicable: nothing was found because operations were not understood, or what was found did not keep the
            function: the value would be that of the full space under another name.
    """
    symmetry = context.symmetry
    if not symmetry.dimension and (symmetry.uncovered or symmetry.dropped):
        raise NotApplicable(f"no symmetry was found: {_missing(symmetry)}")
    return symmetry


def _missing(symmetry: Symmetry) -> str:
    parts = []
    if symmetry.uncovered:
        parts.append("not understood are " + ", ".join(sorted(symmetry.uncovered)))
    if symmetry.dropped:
        parts.append("not confirmed was " + ", ".join(symmetry.dropped))
    return "; ".join(parts)


def coverage(symmetry: Symmetry) -> str:
    """In words: "whole group", "no symmetry found", or "partly covered: " and what was not."""
    if symmetry.uncovered or symmetry.dropped:
        return f"partly covered: {_missing(symmetry)}"
    return "whole group" if symmetry.dimension else "no symmetry found"


def orbit_details(context: Context) -> dict[str, Any]:
    """What every quotient value reports about the group that it divides by."""
    symmetry = context.symmetry
    d = len(symmetry.bound.theta)
    return {
        "k": symmetry.dimension,
        "k_over_d": symmetry.dimension / d,
        "certificate": None if symmetry.certificate is None else symmetry.certificate.error,
        "families": symmetry.kinds(),
        "coverage": coverage(symmetry),
        "uncovered": dict(symmetry.uncovered),
        "dropped": list(symmetry.dropped),
    }
