"""Python's search for cycles of objects, where a great many objects are made that have none."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles meanwhile: it would look again and again at all rows that are read of a large run."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
