"""Proxies that other installed packages bring, by the entry-point group `gapbench.proxies`.

An entry point names a module; importing it registers its proxies.
"""

from __future__ import annotations

from importlib.metadata import entry_points

GROUP = "gapbench.proxies"


def load() -> list[tuple[str, str]]:
    """Import every module of the group; returns (name, reason) of those that cannot be imported."""
    broken = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        try:
            point.load()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            package = point.dist.name if point.dist is not None else "an unknown package"
            text = " ".join(f"{type(error).__name__}: {error}".split())
            broken.append((point.name, f"{point.value} of {package}: {text[:300]}"))
    return broken
