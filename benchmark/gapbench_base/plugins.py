"""Objects that other installed packages bring, by entry-point group."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points

OWN = ("gapbench", "gapbench_base", "gapbench_tasks", "gapbench_models", "gapbench_leaderboard")
"""Packages that no other one brings."""


def found(group: str) -> list[EntryPoint]:
    """All entry points of a group, in a fixed order."""
    return sorted(entry_points(group=group), key=lambda point: (point.name, point.value))


def source_of(point: EntryPoint) -> str:
    """The package that brings it and where in it, in words."""
    package = point.dist.name if point.dist is not None else "an unknown package"
    return f"{point.value} of {package}"


def distribution_of(point: EntryPoint) -> str:
    """Name and version of the package that brings it."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"


def package_of(group: str, place: str) -> str:
    """The installed package that brings what is defined at `module` or `module:name`; empty if none does."""
    top = place.partition(":")[0].partition(".")[0]
    if top in OWN:  # without looking through all that is installed
        return ""
    of_it = (point for point in found(group) if point.module.partition(".")[0] == top)
    return next((distribution_of(point) for point in of_it), "")


@functools.cache
def load(group: str) -> tuple[tuple[object, ...], tuple[tuple[str, str], ...]]:
    """Load every entry point of a group, once a process.

    Returns:
        The objects (modules, where an entry point names one), and (name, reason) of what cannot be loaded.
    """
    objects, broken = [], []
    for point in found(group):
        try:
            objects.append(point.load())
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            text = " ".join(f"{type(error).__name__}: {error}".split())
            broken.append((point.name, f"{source_of(point)}: {text[:300]}"))
    return tuple(objects), tuple(broken)
