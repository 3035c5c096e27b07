"""Folders of runs that appear whole or not at all, whatever ends the process that makes them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gapbench.runs.lock import sole_driver
from gapbench_base.errors import GapbenchError
from gapbench_base.files import flush_folder


@contextlib.contextmanager
def staged(out: Path, verb: str) -> Iterator[Path]:
    """A folder beside `out` to make a run in, removed at the end, and by the next call where that was not to be.

    Args:
        out: where the run is to appear (`appear`).
        verb: what is done, for the name of the folder.

    Yields:
        The folder.
    """
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    _remove_left_over(out, verb)
    place = Path(tempfile.mkdtemp(dir=out.absolute().parent, prefix=_prefix(out, verb)))
    try:
        with sole_driver(place):
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def appear(folder: Path, out: Path) -> None:
    """Rename a finished folder to `out`, which does not exist or is empty. Raises `GapbenchError` otherwise."""
    for place, _, _ in os.walk(folder):
        flush_folder(Path(place))
    try:
        os.rename(folder, out)
    except OSError:
        if out.exists():
            raise GapbenchError(f"{out} appeared in the meantime; it stays as it is.") from None
        raise
    flush_folder(out.absolute().parent)


def _prefix(out: Path, verb: str) -> str:
    return f".{out.name}.{verb}-"


def _remove_left_over(out: Path, verb: str) -> None:
    """Remove what calls that were killed have left; a folder that somebody works in is locked."""
    for place in out.absolute().parent.glob(f"{_prefix(out, verb)}*"):
        with contextlib.suppress(GapbenchError, OSError), sole_driver(place):
            shutil.rmtree(place, ignore_errors=True)
