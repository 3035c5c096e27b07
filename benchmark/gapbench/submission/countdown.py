"""How far a series of measurements is, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable

from gapbench_base.durations import duration

SILENCE = 10.0  # seconds between two lines, at least


class Countdown:
    """Tells, every few seconds, how many of `total` networks are measured and about how long the others take.

    They come in random order, so that those behind tell of those ahead. What comes after them (`afterwards`, in
    seconds) counts as left, too.
    """

    def __init__(self, total: int, say: Callable[[str], None], afterwards: Callable[[], float] = lambda: 0.0):
        self.total, self.say, self.afterwards = total, say, afterwards
        self.began = self.last = time.monotonic()

    def done(self, count: int) -> None:
        """So many are."""
        now, after = time.monotonic(), self.afterwards()
        if now - self.last < SILENCE or count >= self.total:
            return
        self.last = now
        left = (now - self.began) / count * (self.total - count) + after
        self.say(f"{count}/{self.total} networks measured, about {duration(left)} left")
