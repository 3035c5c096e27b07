"""How far a series of measurements is, and how long the rest will take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from gapbench_base.durations import duration

SILENCE = 10.0  # seconds between two lines, at least
FEW = 3  # from so many on, the time between them counts
PRIOR = 8.0  # measurements that what one typically takes counts for
SANDBOX = 4.5
"""Seconds that the processes for proxies typically take to start."""


@runtime_checkable
class Showing(Protocol):
    """Hears lines, and shows how far work is."""

    def __call__(self, text: str) -> None:
        """Say a line."""

    def progress(self, what: str, done: int, total: int, left: float | None) -> None:
        """Show that `done` of `total` are done, and about how many seconds are left where that is known."""


class Countdown:
    """Tells, every few seconds, how many of `total` networks are measured and about how long the others take.

    They come in random order, so that those behind tell of those ahead. What comes before the first (`before`,
    in seconds) and after the last (`afterwards`) counts as left, too. Until a few are measured, one is taken to
    take `typical` seconds; nothing is guessed where that is 0. `expected` tells the seconds of all that are left in
    the place of that.
    """

    def __init__(
        self,
        total: int,
        say: Callable[[str], None],
        afterwards: Callable[[], float] = lambda: 0.0,
        what: str = "networks measured",
        *,
        typical: float = 0.0,
        before: float = 0.0,
        expected: Callable[[], float] | None = None,
    ):
        self.total, self.say, self.afterwards, self.what = total, say, afterwards, what
        self._typical, self._before, self._expected = typical, before, expected
        self._count, self._lock = 0, threading.Lock()
        self._longest = 0.0
        self.began = self.first = self.last = self._latest = time.monotonic()
        if typical or expected is not None:
            self._tell(0)

    def soon(self, seconds: float) -> None:
        """It is known by now that the first begins in so many seconds."""
        with self._lock:
            self._before = time.monotonic() - self.began + seconds
            self._tell(self._count)

    def more(self) -> None:
        """One more is, whichever thread says so."""
        with self._lock:
            self._count += 1
            now = time.monotonic()
            if self._count == 1:
                self.first = now
            else:
                self._longest = max(self._longest, now - self._latest)
            self._latest = now
            self._tell(self._count)

    def _tell(self, count: int) -> None:
        now = time.monotonic()
        if isinstance(self.say, Showing):
            self.say.progress(self.what, count, self.total, self.left(count, now))
        elif now - self.last >= SILENCE and count < self.total:
            self.last = now
            left = self.left(count, now)
            self.say(f"{count}/{self.total} {self.what}, about {duration(left or 0.0)} left")

    def left(self, count: int, now: float) -> float | None:
        """Seconds, None where there is nothing to tell it by."""
        ahead, after = self.total - count, self.afterwards()
        start = max(0.0, self._before - (now - self.began)) if count == 0 else 0.0
        if self._expected is not None:
            return start + self._expected() + after
        if count == 0:
            return start + ahead * self._typical + after if self._typical else None
        # What came before the first (starting processes) tells nothing of those to come, and the longest pause is
        # where a process first met another library.
        if self._typical:
            paused, among = (self._longest, count - 2) if count >= FEW else (0.0, count - 1)
            each = (PRIOR * self._typical + now - self.first - paused) / (PRIOR + among)
        else:
            each = (now - self.first) / (count - 1) if count >= FEW else (now - self.began) / count
        return ahead * each + after
