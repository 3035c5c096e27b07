"""How memory that is freed is kept for what comes next."""

from __future__ import annotations

import contextlib
import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE = 32 << 20
"""The largest size up to which glibc takes memory from its heap if told so; by itself it starts at 128 KiB."""


def keep_freed_memory() -> None:
    """Let this process keep memory that it frees, where its C library can be told so (glibc).

    Tensors of some megabytes come and go with every operation. Given back to the system and asked for again they
    are cleared page by page each time, which takes a tenth of the time of a gradient. The process ends up holding
    the most that it ever needed.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, LARGE)
        library.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
