"""Kill a call at any of its steps, as SIGKILL does: without handlers, in a process of its own."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any


def _traced(call: Callable[[], object], modules: tuple[str, ...], stop: int | None) -> int:
    """Make the call; how many lines of these modules it went through. At line `stop` the process ends."""
    steps = 0

    def step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        if frame.f_globals.get("__name__") not in modules:
            return None
        if event == "line":
            if steps == stop:
                os._exit(9)
            steps += 1
        return step

    sys.settrace(step)
    try:
        call()
    finally:
        sys.settrace(None)
    return steps


def steps_of(call: Callable[[], object], modules: tuple[str, ...]) -> int:
    """How many steps there are, of which the call is not killed at any."""
    return _traced(call, modules, None)


def killed(call: Callable[[], object], modules: tuple[str, ...], step: int) -> bool:
    """Make the call in a process of its own that dies at a step; whether it came so far."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # threads of libraries, which the child does not use
        child = os.fork()
    if child == 0:
        code = 1
        try:
            _traced(call, modules, step)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 9), f"the call failed with {code}"
    return code == 9


def chosen(steps: int, count: int, seed: int = 0) -> list[int]:
    """So many of the steps, spread at random, the last among them."""
    picked = random.Random(seed).sample(range(steps), min(count, steps))
    return sorted({*picked, steps - 1})
