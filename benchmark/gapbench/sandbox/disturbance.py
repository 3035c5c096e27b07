"""Other surroundings for a second measurement: what a proxy must not depend on is made different."""

from __future__ import annotations

import datetime
import os
import random
import time
from typing import Any

SHIFT_SECONDS = 40_000_000.0  # more than a year


def disturb_clock() -> None:
    """Let every clock that Python code commonly reads run more than a year ahead, in this process, for good."""
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, name, _later(getattr(time, name), SHIFT_SECONDS))
        whole = getattr(time, f"{name}_ns")
        setattr(time, f"{name}_ns", _later(whole, int(SHIFT_SECONDS) * 10**9))
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _at_later_time(getattr(time, name)))
    for name, shift in (("clock_gettime", SHIFT_SECONDS), ("clock_gettime_ns", int(SHIFT_SECONDS) * 10**9)):
        if hasattr(time, name):
            setattr(time, name, _clock_later(getattr(time, name), shift))
    strftime, asctime, localtime = time.strftime, time.asctime, time.localtime
    time.strftime = lambda form, moment=None: strftime(form, localtime() if moment is None else moment)
    time.asctime = lambda moment=None: asctime(localtime() if moment is None else moment)

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(time.time())

        @classmethod
        def utcnow(cls) -> Any:
            return cls.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)

    class LaterDate(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(time.time())

    datetime.datetime, datetime.date = Later, LaterDate  # type: ignore[misc]
    _disturb_numpy()


def _disturb_numpy() -> None:
    import numpy as np

    real = np.datetime64

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, real)

    class LaterInstant(real, metaclass=Kind):  # type: ignore[misc, valid-type]
        def __new__(cls, *arguments: Any) -> Any:
            if arguments and arguments[0] in ("now", "today"):
                return real(*arguments) + np.timedelta64(int(SHIFT_SECONDS), "s")
            return real(*arguments)

    np.datetime64 = LaterInstant  # type: ignore[misc]


def _later(function: Any, shift: float) -> object:
    return lambda: function() + shift


def _clock_later(function: Any, shift: float) -> object:
    return lambda clock: function(clock) + shift


def _at_later_time(function: Any) -> object:
    return lambda seconds=None: function(time.time() if seconds is None else seconds)


def disturb_random_state() -> None:
    """Seed Python's, numpy's and torch's global generators from the operating system."""
    import numpy as np
    import torch

    random.seed(int.from_bytes(os.urandom(8), "little"))
    np.random.seed(int.from_bytes(os.urandom(4), "little"))  # noqa: NPY002
    torch.manual_seed(int.from_bytes(os.urandom(7), "little"))
