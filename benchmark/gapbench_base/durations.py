"""Times as people say them."""

from __future__ import annotations

import math
import re

from gapbench_base.errors import GapbenchError

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def duration(seconds: float) -> str:
    """A time in words: `50 s`, `14 min`, `2.3 h`."""
    if not math.isfinite(seconds):
        return "unknown time"
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 300 else f"{seconds:.0f} s"


def seconds_of(text: str) -> float:
    """The seconds of a time such as `30m`, `2h`, `90s` or `1h30m`. Raises `GapbenchError` for another text."""
    part = r"(\d+(?:\.\d+)?)\s*([dhms])(?:ins?)?\s*"
    if not re.fullmatch(rf"\s*(?:{part})+", text.lower()):
        raise GapbenchError(f"{text!r} is no time: give 30m, 2h, 90s or 1h30m.")
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(part, text.lower()))
