"""A run as one archive: a zip file of all that others need of it, with the checksum of every member.

Members: the list `gapbench.json` first, then `run.sqlite`, entries, the audit, weights. Nothing is
compressed, as weights hardly can be; times and owners are left out, so that equal runs give equal bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from gapbench.runs.audits import FILE as AUDIT
from gapbench.runs.entries import entries_folder
from gapbench.runs.environment import environment_text
from gapbench.runs.identity import identity_in
from gapbench.runs.intact import file_damage, restoring_command
from gapbench.runs.lock import sole_driver
from gapbench.runs.run import open_run
from gapbench.runs.store import SCHEMA, Store, disk_errors
from gapbench.runs.weight_files import WeightFile, checksum, opened, size_of, told, weight_file
from gapbench.runs.weight_location import weights_place
from gapbench_base.errors import GapbenchError
from gapbench_base.files import flush_folder

LIST = "gapbench.json"
DATABASE = "run.sqlite"
MEMBER = re.compile(
    r"run\.sqlite|invariances\.json|weights/[0-9a-f]{16}\.safetensors|entries/(withdrawn/)?[0-9a-f]{16}\.json"
)
"""What a pack may hold beside its list."""
BLOCK = 1 << 20
SQLITE_VERSION = 96
"""Where a database's file says which version of SQLite wrote it last, which is nobody's business."""
WHEN = (1980, 1, 1, 0, 0, 0)
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z", description="64 hexadecimal digits")]


@dataclass(frozen=True, kw_only=True)
class PackMember:
    """A file of a pack: its sha256 and size."""

    sha256: Sha256
    bytes: Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The list of a pack.

    Attributes:
        format: of the pack.
        suite: name of the suite; `version` of it.
        version: see `suite`.
        fingerprint: of the population, which has `networks` of those `planned`.
        networks: see `fingerprint`.
        planned: see `fingerprint`.
        made_with: software and devices, in words.
        members: by name.
    """

    format: Literal[1] = 1
    suite: str
    version: int
    fingerprint: str
    networks: int
    planned: int
    made_with: tuple[str, ...] = ()
    members: Mapping[str, PackMember] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all members."""
        return sum(member.bytes for member in self.members.values())


@dataclass(frozen=True)
class Packed:
    """What came of packing: the file, its checksum and size, its list, and whether it was there already."""

    path: Path
    sha256: str
    size: int
    contents: Contents
    there: bool = False


def pack(run: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Packed:
    """Write a run's archive: it appears whole or not at all, and never in the place of another.

    Weights are checked while they are read. Boards, figures and networks of verifications are left out:
    what they say is in the tables and entries.

    Args:
        run: its folder, on which no other process may work meanwhile.
        out: the file (default: `<folder's name>-<fingerprint>.zip`, here).

    Returns:
        The file and what it holds.

    Raises:
        GapbenchError: for a damaged weight file, and where the file exists with another content.
    """
    folder = Path(run)
    open_run(folder)  # what is damaged is said now
    with sole_driver(folder), packed_files(folder) as (contents, files):
        default = f"{folder.absolute().name}-{contents.fingerprint}.zip"
        path = Path(out) if out is not None else Path(default)
        if path.is_dir():
            raise GapbenchError(f"--out {path} is a folder: give a file, such as {path / default}.")
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{path.name}.packing-"
        for left_over in path.absolute().parent.glob(f"{prefix}*"):
            left_over.unlink(missing_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=prefix)
        try:
            with os.fdopen(descriptor, "w+b") as stream:
                _write(stream, contents, files, folder)
                stream.flush()
                os.fsync(stream.fileno())
            sha256, size = digest(Path(name)), os.stat(name).st_size
            there = path.exists()
            if there and digest(path) != sha256:
                raise GapbenchError(
                    f"{path} exists already, with another content: give another file with --out."
                )
            if not there:
                os.chmod(name, 0o644)
                os.link(name, path)  # unlike a renaming this never replaces a file
                flush_folder(path.absolute().parent)
        finally:
            Path(name).unlink(missing_ok=True)
    return Packed(path, sha256, size, contents, there)


def digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def packed_files(folder: Path) -> Iterator[tuple[Contents, dict[str, WeightFile]]]:
    """What a pack of a run would hold, and where the files lie, as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="gapbench-pack-") as place:
        database = Path(place) / DATABASE
        snapshot(folder, database)
        with Store(Path(place), readonly=True) as store:
            suite, identity = store.meta("suite"), identity_in(store)
            made_with = tuple(dict.fromkeys(map(environment_text, store.environments())))
            rows = [] if suite.get("imported") else [row for row in store.cells() if row.weights_sha256]
        files: dict[str, WeightFile] = {DATABASE: database}
        if (folder / AUDIT).is_file():
            files[AUDIT] = folder / AUDIT
        for path in sorted(entries_folder(folder).rglob("*.json")):
            name = path.relative_to(folder).as_posix()
            if MEMBER.fullmatch(name):
                files[name] = path
        members = {}
        for name, file in sorted(files.items()):
            sha256, size = checksum(file)
            members[name] = PackMember(sha256=sha256, bytes=size)
        kept_at = weights_place(folder)
        for row in sorted(rows, key=lambda row: row.cell):
            own = weight_file(kept_at, row.cell)
            found = _size(own)
            if found is None or row.weights_sha256 is None:
                raise GapbenchError(_damaged(folder, own, row.weights_sha256))
            files[name := f"weights/{row.cell}.safetensors"] = own
            members[name] = PackMember(sha256=row.weights_sha256, bytes=found)
        contents = Contents(
            suite=suite["name"],
            version=suite["version"],
            fingerprint=identity.fingerprint,
            networks=identity.networks,
            planned=identity.planned,
            made_with=made_with,
            members=members,
        )
        yield contents, files


def _size(file: WeightFile) -> int | None:
    try:
        return size_of(file)
    except OSError as error:
        raise GapbenchError(f"The weight file {file} cannot be looked at: {told(error)}.") from None


def _damaged(run: Path, path: WeightFile, sha256: str | None) -> str:
    what = file_damage(path, sha256) or "changed while it was read"
    return f"The weight file {path} {what}. Restore it with: {restoring_command(run)}"


def snapshot(folder: Path, database: Path) -> None:
    """A copy of the run's database that depends on its rows alone."""
    with disk_errors(folder / DATABASE):
        copy = sqlite3.connect(f"{database.absolute().as_uri()}?mode=rwc", uri=True, isolation_level=None)
        try:
            copy.execute("PRAGMA page_size = 4096")
            copy.executescript(SCHEMA)
            copy.execute("ATTACH ? AS other", (f"{(folder / DATABASE).absolute().as_uri()}?mode=ro",))
            copy.execute("BEGIN")
            for table in ("meta", "cells", "measurements", "attempts"):
                order = "name" if table == "meta" else "rowid"
                here, there = (
                    [row[1] for row in copy.execute(f"PRAGMA {place}.table_info({table})")]
                    for place in ("main", "other")
                )
                listed = ", ".join(name for name in here if name in there)
                copy.execute(
                    f"INSERT INTO main.{table} ({listed}) SELECT {listed} FROM other.{table} ORDER BY {order}"
                )
            copy.execute("COMMIT")
        finally:
            copy.close()
        with database.open("r+b") as stream:
            stream.seek(SQLITE_VERSION)
            stream.write(bytes(4))


def _write(stream: object, contents: Contents, files: Mapping[str, WeightFile], folder: Path) -> None:
    """The archive's bytes."""
    text = json.dumps(asdict(contents), indent=1, ensure_ascii=True) + "\n"
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        archive.writestr(_info(LIST, len(text)), text)
        for name, member in contents.members.items():
            found, length = hashlib.sha256(), 0
            with opened(files[name]) as source, archive.open(_info(name, member.bytes), "w") as to:
                while block := source.read(BLOCK):
                    found.update(block)
                    length += len(block)
                    to.write(block)
            if (found.hexdigest(), length) != (member.sha256, member.bytes):
                if name.startswith("weights/"):
                    raise GapbenchError(_damaged(folder, files[name], member.sha256))
                raise GapbenchError(f"{files[name]} changed while it was read: pack again.")


def _info(name: str, size: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, WHEN)
    info.compress_type = zipfile.ZIP_STORED
    info.create_system = 3
    info.external_attr = 0o100644 << 16
    info.file_size = size
    return info
