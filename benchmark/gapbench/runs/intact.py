"""Whether a run's weight files are those that were recorded: their checksums, and how to get them back."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gapbench.runs.records import TrainedCell
from gapbench.runs.weight_files import FileElsewhere, WeightFile, checksum, told, weight_file
from gapbench.runs.weight_location import weights_place
from gapbench_base.errors import GapbenchError

SHOWN = 5


@dataclass(frozen=True)
class Damage:
    """A weight file that is not as recorded; `what` is wrong with it, in words ("is missing")."""

    cell: str
    path: WeightFile
    what: str

    @property
    def text(self) -> str:
        """One sentence without its point."""
        return f"The weight file {self.path} {self.what}"


def file_damage(path: WeightFile, sha256: str | None) -> str:
    """What is wrong with a weight file, in words; empty where it has the recorded checksum."""
    try:
        found, size = checksum(path)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({told(error)})"
    if sha256 is None or found == sha256:
        return ""
    if size == 0:
        return "is empty"
    return f"is damaged ({size} bytes, sha256 {found[:12]}..., recorded {sha256[:12]}...)"


def damages(run: Path, rows: Iterable[TrainedCell]) -> list[Damage]:
    """The damaged weight files of rows of the table `cells`.

    Reads every file of this machine once. Of files elsewhere only the sizes are asked for: their checksums are
    compared whenever they are read.

    Returns:
        What is wrong, file by file.
    """
    found = []
    place = weights_place(run)
    for row in rows:
        if row.weights_sha256 is None:
            continue
        path = weight_file(place, row.cell)
        if isinstance(path, Path):
            what = file_damage(path, row.weights_sha256)
        else:
            what = _size_damage(path, row.weights_bytes)
        if what:
            found.append(Damage(row.cell, path, what))
    return found


def _size_damage(file: FileElsewhere, size: int | None) -> str:
    """What is wrong with a file by its size. Raises `GapbenchError` where that cannot be found out."""
    try:
        found = file.size()
    except OSError as error:
        raise GapbenchError(f"The weight file {file} cannot be looked at: {told(error)}.") from None
    if found is None:
        return "is missing"
    return "" if size in (None, found) else f"is damaged ({found} bytes, recorded {size})"


def require_intact(
    run: Path, rows: Iterable[TrainedCell], data_dir: str | os.PathLike[str] | None = None
) -> None:
    """Check the weight files of these networks.

    Raises:
        GapbenchError: naming the damaged ones and the command that restores them.
    """
    found = damages(run, rows)
    if not found:
        return
    shown = "; ".join(damage.text for damage in found[:SHOWN])
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    raise GapbenchError(f"{shown}{more}. Restore them with: {restoring_command(run, data_dir)}")


def restoring_command(run: Path, data_dir: str | os.PathLike[str] | None = None) -> str:
    """The command that trains a run's damaged networks again and adds no network to it."""
    from gapbench.runs.store import Store
    from gapbench.suites.suite import list_suites

    with Store(run, readonly=True) as store:
        suite, plan, rows = store.meta("suite") or {}, store.meta("plan") or (), store.cells()
    if suite.get("imported"):
        return "gapbench import-population, after the original file is put back"
    trained = len({row.cell for row in rows} & set(plan))
    devices = {row.device for row in rows if row.weights_sha256}
    words = ["gapbench", "run", f"./{run}" if str(run) in list_suites() else str(run)]
    words += ["--limit", str(trained)] if trained < len(plan) else []
    words += ["--data", str(data_dir)] if data_dir is not None else []
    words += ["--device", str(next(iter(devices)))] if len(devices) == 1 else []
    return shlex.join(words)
