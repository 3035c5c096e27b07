"""How far a series of measurements is, and how long the rest will take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gapbench_base.durations import duration

SILENCE = 10.0  # seconds between two lines, at least
FEW = 3  # from so many on, the time between them counts


class Countdown:
    """Tells, every few seconds, how many of `total` networks are measured and about how long the others take.

    They come in random order, so that those behind tell of those ahead. What comes after them (`afterwards`, in
    seconds) counts as left, too.
    """

    def __init__(
        self,
        total: int,
        say: Callable[[str], None],
        afterwards: Callable[[], float] = lambda: 0.0,
        what: str = "networks measured",
    ):
        self.total, self.say, self.afterwards, self.what = total, say, afterwards, what
        self._count, self._lock = 0, threading.Lock()
        self.began = self.first = self.last = time.monotonic()

    def more(self) -> None:
        """One more is, whichever thread says so."""
        with self._lock:
            self._count += 1
            self.done(self._count)

    def done(self, count: int) -> None:
        """So many are."""
        now, after = time.monotonic(), self.afterwards()
        if count == 1:
            self.first = now
        if now - self.last < SILENCE or count >= self.total:
            return
        self.last = now
        # What came before the first (starting processes) tells nothing of those to come.
        each = (now - self.first) / (count - 1) if count >= FEW else (now - self.began) / count
        left = each * (self.total - count) + after
        self.say(f"{count}/{self.total} {self.what}, about {duration(left)} left")
