"""One driver per run directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from gapbench_base.errors import GapbenchError


@contextlib.contextmanager
def sole_driver(run: Path) -> Iterator[None]:
    """Hold the run's lock.

    The lock is the operating system's and goes with the process, however that ends.

    Raises:
        GapbenchError: if another driver holds it.
    """
    path = run / "driver.lock"
    with path.open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            raise GapbenchError(
                f"Another gapbench process (pid {holder}) is working on {run}. Wait for it to end."
            ) from None
        stream.seek(0)
        stream.truncate()
        stream.write(str(os.getpid()))
        stream.flush()
        yield
