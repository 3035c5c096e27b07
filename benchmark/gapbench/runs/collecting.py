"""Files of a run that nothing needs: weights that no row names, and what killed processes left half written."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gapbench.runs.lock import sole_driver
from gapbench.runs.store import Store
from gapbench.runs.weight_files import WeightFile, listed, size_of, told
from gapbench.runs.weight_location import weights_place
from gapbench_base.errors import GapbenchError

WEIGHTS = re.compile(r"([0-9a-f]{16})\.safetensors")
TEMPORARY = re.compile(r"\.[0-9a-f]{16}-.+|\..+\.partial")
"""Names that `save_weights`, copies of weights and `write_atomically` give to what is not finished."""
PLACES = ("", "weights", "entries", "entries/withdrawn", "board", "verification")


@dataclass(frozen=True)
class Unneeded:
    """A file or folder that nothing needs, its size in bytes, and what it is in words."""

    path: WeightFile
    size: int
    what: str


def collect(run: str | os.PathLike[str], dry_run: bool = False) -> list[Unneeded]:
    """Remove what nothing needs. What a row names stays, and so does whatever gapbench did not write.

    Args:
        run: its folder, on which no other process may work meanwhile.
        dry_run: only say it.

    Returns:
        What was removed, or would be.

    Raises:
        GapbenchError: if there is no run, or another process works on it.
    """
    folder = Path(run)
    with Store(folder, readonly=True):  # no lock is made in a folder of other things
        pass
    with sole_driver(folder):
        with Store(folder, readonly=True) as store:
            named = {row.cell for row in store.cells() if row.weights_sha256 is not None}
        found = list(_unneeded(folder, named))
        for own in found if not dry_run else ():
            if isinstance(own.path, Path) and own.path.is_dir():
                shutil.rmtree(own.path)
            else:
                own.path.unlink(missing_ok=True)
    return found


def _unneeded(folder: Path, named: set[str]) -> Iterator[Unneeded]:
    yield from _elsewhere(folder, named)
    for place in PLACES:
        for path in sorted((folder / place).glob("*")):
            if path.is_symlink():
                continue
            match = WEIGHTS.fullmatch(path.name) if place == "weights" else None
            if match and match[1] not in named and path.is_file():
                yield Unneeded(path, path.stat().st_size, "weights that no row names")
            elif TEMPORARY.fullmatch(path.name) and path.is_file():
                yield Unneeded(path, path.stat().st_size, "half written")
            elif place == "verification" and re.fullmatch(r"\.[0-9a-f]+-.+", path.name) and path.is_dir():
                size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
                yield Unneeded(path, size, "half copied")


def _elsewhere(folder: Path, named: set[str]) -> Iterator[Unneeded]:
    """What is not needed where the run keeps its weights, if that is another place."""
    place = weights_place(folder)
    if place == folder / "weights":
        return
    try:
        files = [(file, size_of(file) or 0) for file in listed(place)]
    except OSError as error:
        raise GapbenchError(
            f"The weights of {folder} are at {place}, which cannot be read: {told(error)}."
        ) from None
    for file, size in files:
        match = WEIGHTS.fullmatch(file.name)
        if match and match[1] not in named:
            yield Unneeded(file, size, "weights that no row names")
        elif TEMPORARY.fullmatch(file.name):
            yield Unneeded(file, size, "half written")
