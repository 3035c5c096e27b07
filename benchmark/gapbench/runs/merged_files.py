"""The files of several runs as those of one: weights, entries, audits, verifications."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gapbench.runs.audits import FILE as AUDIT
from gapbench.runs.audits import read_invariances
from gapbench.runs.collecting import TEMPORARY
from gapbench.runs.entries import entries_folder
from gapbench.runs.intact import file_damage, restoring_command
from gapbench.runs.merged_entries import WITHDRAWN, Submissions
from gapbench.runs.records import TrainedCell
from gapbench.runs.weight_files import WeightFile, size_of, told, weight_file
from gapbench.runs.weight_location import weights_of, weights_place
from gapbench_base.errors import GapbenchError
from gapbench_base.files import write_atomically

VERIFICATION = "verification"
"""The folder of networks that were trained to verify entries."""
BLOCK = 1 << 20


@dataclass(frozen=True)
class Weights:
    """A weight file that is to be copied from one of several runs to `path`."""

    path: WeightFile
    sha256: str
    candidates: tuple[tuple[Path, WeightFile], ...]
    """Folder of the run, and the file."""

    def copy(self) -> None:
        """Copy the first that has the recorded checksum; raises `GapbenchError` naming the first if none has."""
        for _, candidate in self.candidates:
            if copied(candidate, self.path, self.sha256):
                return
        run, first = self.candidates[0]
        what = file_damage(first, self.sha256) or "changed while it was read"
        raise GapbenchError(
            f"The weight file {first} {what}: the run cannot be merged. Restore it with: {restoring_command(run)}"
        )


@dataclass(frozen=True)
class Further:
    """Another file or folder that is to appear at `path`: with this content, or as a copy of a folder."""

    path: Path
    content: str | bytes | None = None
    folder: Path | None = None

    def write(self) -> None:
        """Write it; it is there whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.content is not None:
            write_atomically(self.path, self.content)
        elif self.folder is not None:
            stage = Path(tempfile.mkdtemp(dir=self.path.parent, prefix=f".{self.path.name}-"))
            shutil.copytree(self.folder, stage / "copy")
            os.rename(stage / "copy", self.path)
            stage.rmdir()


@dataclass(frozen=True)
class Needed:
    """What the target does not have yet."""

    weights: tuple[Weights, ...]
    others: tuple[Further, ...]

    def __bool__(self) -> bool:
        return bool(self.weights or self.others)


@dataclass(frozen=True)
class Files:
    """The files of the sources."""

    folders: tuple[Path, ...]
    submissions: Submissions

    def needed(self, target: Path, cells: Sequence[TrainedCell], imported: bool) -> Needed:
        """What is to be written so that the target has everything; imported networks have no weights in a run."""
        weights = []
        place = weights_place(target)
        for row in cells:
            path = weight_file(place, row.cell)
            if row.weights_sha256 is None or imported or _of_size(path, row.weights_bytes):
                continue
            files = [(folder, weights_of(folder, row.cell)) for folder in self.folders if folder != target]
            present = [pair for pair in files if pair[1].is_file()] or files
            weights.append(Weights(path, row.weights_sha256, tuple(present)))
        others = (*self._entries(target), *self._audit(target), *self._trees(target))
        return Needed(tuple(weights), others)

    def _entries(self, target: Path) -> list[Further]:
        found = []
        places = ((self.submissions.live, ""), (self.submissions.withdrawn, WITHDRAWN))
        for files, place in places:
            for source in files.values():
                path = entries_folder(target) / place / source.name
                content = source.read_bytes()
                if not path.is_file() or path.read_bytes() != content:
                    found.append(Further(path, content))
        return found

    def _audit(self, target: Path) -> list[Further]:
        """The audits of all, for each proxy that of the first that has one."""
        audits = [audit for folder in self.folders if (audit := read_invariances(folder)) is not None]
        if not audits:
            return []
        proxies = {label: rows for audit in reversed(audits) for label, rows in audit["proxies"].items()}
        merged = {**audits[0], "proxies": proxies}
        if (target / AUDIT).is_file() and read_invariances(target) == merged:
            return []
        return [Further(target / AUDIT, json.dumps(merged, indent=1, allow_nan=False) + "\n")]

    def _trees(self, target: Path) -> list[Further]:
        """Networks of verifications; their folders have random names."""
        found: dict[str, Further] = {}
        for folder in self.folders:
            for source in sorted((folder / VERIFICATION).glob("[!.]*")):
                path = target / VERIFICATION / source.name
                if source.is_dir() and not path.exists():
                    found.setdefault(source.name, Further(path, folder=source))
        return list(found.values())


def files_of(folders: Sequence[Path], submissions: Submissions) -> Files:
    """The files of runs, the target first where it is one of them."""
    return Files(tuple(folders), submissions)


def _of_size(path: WeightFile, size: int | None) -> bool:
    """Whether a file of this size is there; what is damaged is found when the run is brought up to date."""
    with contextlib.suppress(OSError):
        found = size_of(path)
        return found is not None and size in (None, found)
    return False


def half_copied(run: Path) -> list[Path]:
    """What copies of weights left that were not finished; the run's lock is held, so nobody is at them."""
    place = weights_place(run)
    if not isinstance(place, Path):
        return []
    return [path for path in place.glob(".*") if TEMPORARY.fullmatch(path.name)]


def copied(source: WeightFile, path: WeightFile, sha256: str) -> bool:
    """Copy a file that has this checksum: it appears whole.

    Args:
        source: the file.
        path: where it is to be.
        sha256: what its content must have.

    Returns:
        Whether it was copied; not if it is missing or another.
    """
    if not (isinstance(source, Path) and isinstance(path, Path)):
        return _sent(source, path, sha256)
    digest = hashlib.sha256()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    try:
        with os.fdopen(descriptor, "wb") as to, source.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
                to.write(block)
            to.flush()
            os.fsync(to.fileno())
        if digest.hexdigest() != sha256:
            return False
        os.chmod(name, 0o644)
        os.replace(name, path)
    except FileNotFoundError:
        return False
    finally:
        Path(name).unlink(missing_ok=True)
    return True


def _sent(source: WeightFile, path: WeightFile, sha256: str) -> bool:
    """The same, from or to somewhere else."""
    try:
        content = source.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise GapbenchError(f"The weight file {source} cannot be read: {told(error)}.") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        return False
    if isinstance(path, Path):
        write_atomically(path, content)
    else:
        path.write_bytes(content)
    return True
