"""A limit on the processor time that one measurement may take."""

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
    """Raise `OverBudget` in the block once it has taken `seconds` of this process's time; None: never.

    Processor time, so that other work on the machine does not decide what is measured. The block ends where the
    interpreter next takes over from native code. What it was computing is left half done: neither the network nor a
    context should be used again.

    Raises:
        GapbenchError: outside the main thread, which alone hears of a timer.
    """
    if seconds is None:
        yield
        return
    if threading.current_thread() is not threading.main_thread():
        raise GapbenchError("A budget for measurements can be kept in the main thread only.")

    def late(number: int, frame: FrameType | None) -> None:
        raise OverBudget(f"it took more than {seconds:g} s of processor time, the budget of the suite")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
