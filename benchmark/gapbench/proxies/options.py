"""Checks of options that several proxies share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


def radius_of(context: Context, radius: float, relative_radius: float | None) -> float:
    """The absolute radius; `relative_radius` is a fraction of the balanced parameter norm and takes precedence."""
    if relative_radius is not None:
        if not relative_radius > 0:
            raise ValueError(f"relative_radius = {relative_radius!r} must be positive")
        return float(relative_radius) * context.balanced_norm
    if not radius > 0:
        raise ValueError(f"radius = {radius!r} must be positive")
    return float(radius)


def count(name: str, value: int, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise ValueError(f"{name} = {value!r} must be a whole number of at least {least}")
    return int(value)


def norm_of(norm: str) -> str:
    """ "l2" or "linf"."""
    if norm not in ("l2", "linf"):
        raise ValueError(f"norm = {norm!r} must be 'l2' or 'linf'")
    return norm


def orbit_details(context: Context) -> dict[str, Any]:
    """What every quotient value reports about the group that it divides by."""
    symmetry = context.symmetry
    d = len(symmetry.bound.theta)
    return {
        "k": symmetry.dimension,
        "k_over_d": symmetry.dimension / d,
        "certificate": None if symmetry.certificate is None else symmetry.certificate.error,
        "families": symmetry.kinds(),
        "uncovered": dict(symmetry.uncovered),
    }
