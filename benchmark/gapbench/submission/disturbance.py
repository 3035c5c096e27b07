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


def _later(function: Any, shift: float) -> Any:
    return lambda: function() + shift


def _at_later_time(function: Any) -> Any:
    return lambda seconds=None: function(time.time() if seconds is None else seconds)


def disturb_random_state() -> None:
    """Seed Python's, numpy's and torch's global generators from the operating system."""
    import numpy as np
    import torch

    random.seed(int.from_bytes(os.urandom(8), "little"))
    np.random.seed(int.from_bytes(os.urandom(4), "little"))  # noqa: NPY002
    torch.manual_seed(int.from_bytes(os.urandom(7), "little"))
