"""A limit on the time that one measurement may take."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from gapbench_base.errors import GapbenchError, NotDefined


class OverBudget(NotDefined):
    """A proxy took more than its share of time."""


@contextlib.contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Raise `OverBudget` in the block once `seconds` of wall time have passed; None: never.

    The block ends where the interpreter next takes over from native code. What it was computing is left half done:
    neither the network nor a context should be used again.

    Raises:
        GapbenchError: outside the main thread, which alone hears of a timer.
    """
    if seconds is None:
        yield
        return
    if threading.current_thread() is not threading.main_thread():
        raise GapbenchError("A budget for measurements can be kept in the main thread only.")

    def late(number: int, frame: FrameType | None) -> None:
        raise OverBudget(f"it took more than {seconds:g} s, the budget of the suite")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
