"""Tasks that other installed packages bring, by the entry-point group `gapbench.tasks`."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points

GROUP = "gapbench.tasks"


def found() -> list[EntryPoint]:
    """All entry points of the group, in a fixed order."""
    return sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))


def source_of(point: EntryPoint) -> str:
    """The package that brings it and where in it, in words."""
    package = point.dist.name if point.dist is not None else "an unknown package"
    return f"{point.value} of {package}"


@functools.cache
def load() -> tuple[tuple[object, ...], tuple[tuple[str, str], ...]]:
    """Objects that the entry points name, and (name, reason) of those that cannot be loaded."""
    objects, broken = [], []
    for point in found():
        try:
            objects.append(point.load())
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            text = " ".join(f"{type(error).__name__}: {error}".split())
            broken.append((point.name, f"{source_of(point)}: {text[:300]}"))
    return tuple(objects), tuple(broken)
