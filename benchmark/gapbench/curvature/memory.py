"""Values that are computed once, and how long they took, so that whoever uses one again can be charged."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

Found = TypeVar("Found")


class Memory:
    """What was computed of one object, by name."""

    def __init__(self) -> None:
        self._remembered: dict[str, tuple[Any, float]] = {}
        self.reused = 0.0

    def remembered(self, key: str, compute: Callable[[], Found], seconds: float | None = None) -> Found:
        """What `compute` gave the first time; it must depend on this object alone.

        `reused` counts the seconds that it took, or `seconds`, each time that it is known already.

        Returns:
            That value.
        """
        if key in self._remembered:
            self.reused += self._remembered[key][1]
        else:
            started = time.perf_counter()
            value = compute()
            self._remembered[key] = (value, time.perf_counter() - started if seconds is None else seconds)
        found: Found = self._remembered[key][0]
        return found

    def remembers(self, key: str) -> bool:
        """Whether that is known already."""
        return key in self._remembered
