"""Times as people say them."""

from __future__ import annotations

import math


def duration(seconds: float) -> str:
    """A time in words: `50 s`, `14 min`, `2.3 h`."""
    if not math.isfinite(seconds):
        return "unknown time"
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 300 else f"{seconds:.0f} s"
