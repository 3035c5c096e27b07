"""From a pack to a run: every member is checked before the run appears. Packs come from anybody."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from gapbench.runs.entries import load_entries
from gapbench.runs.identity import Identity
from gapbench.runs.packing import BLOCK, DATABASE, LIST, MEMBER, Contents, packed_files
from gapbench.runs.run import open_run
from gapbench.runs.staging import appear, staged
from gapbench.runs.store import Store, disk_errors
from gapbench.runs.weight_files import WeightFile
from gapbench_base.errors import GapbenchError
from gapbench_base.validation import validated


class DamagedPack(GapbenchError):
    """A pack that is none, or not as it says."""


MOST = 64 << 20
"""Bytes of a list; one of 100,000 networks has 15 MB."""


def contents_of(path: Path, source: str) -> Contents:
    """The list of a pack, which says nothing yet of its members.

    Args:
        path: the file.
        source: what it is called in messages.

    Returns:
        The list.

    Raises:
        GapbenchError: for what is no pack.
    """
    with _opened(path, source) as archive:
        return _contents(archive, source)


def unpack(path: Path, out: Path, source: str) -> tuple[Contents, bool]:
    """Make the run of a pack, all of whose members are checked first.

    Args:
        path: the pack.
        out: the folder of the run, which must not exist, or be empty, or hold the same run.
        source: what the pack is called in messages.

    Returns:
        The list, and whether the same run was there already.

    Raises:
        DamagedPack: naming the member that is damaged, missing or has no place in a pack.
        GapbenchError: where another run or something else is at `out`.
    """
    with _opened(path, source) as archive:
        contents = _contents(archive, source)
        _members(archive, contents, source)
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            _require_same(out, contents, source)
            return contents, True
        with staged(out, "pulling") as stage:
            run = stage / "run"
            (run / "weights").mkdir(parents=True)
            for name, member in contents.members.items():
                _extract(archive, name, run / name, member.sha256, member.bytes, source)
            try:
                _check_database(run / DATABASE, source)
                _check_run(run, contents, source)
            except DamagedPack:
                raise
            except GapbenchError as error:  # of all that reads a run
                told = str(error).replace(f"{run}/", "").replace(str(run), "the run")
                raise DamagedPack(f"{source} holds no sound run: {told}") from None
            appear(run, out)
    return contents, False


def _opened(path: Path, source: str) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise DamagedPack(
            f"{source} is no pack of a run, or is damaged: it is no zip file ({error})."
        ) from None
    except OSError as error:
        raise GapbenchError(f"{source} cannot be read: {error.strerror or error}.") from None


def _contents(archive: zipfile.ZipFile, source: str) -> Contents:
    listed = archive.infolist()
    if not listed or listed[0].filename != LIST or not 0 < listed[0].file_size <= MOST:
        raise DamagedPack(f"{source} is no pack of a run: its first member is not {LIST}.")
    try:
        content = json.loads(_read(archive, listed[0]))
    except (ValueError, RecursionError) as error:
        raise DamagedPack(f"{source}: its member {LIST} is damaged ({error}).") from None
    except _BROKEN as error:
        raise DamagedPack(f"{source}: its member {LIST} is damaged ({error}).") from None
    if isinstance(content, dict) and content.get("format", 1) != 1:
        raise DamagedPack(f"{source} is a pack of format {content['format']}, this gapbench reads format 1.")
    try:
        return validated(content, Contents, f"{source}, {LIST}")
    except GapbenchError as error:
        raise DamagedPack(str(error)) from None


_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)
"""What reading a damaged or encrypted member raises."""


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as stream:
        return stream.read(MOST)


def _members(archive: zipfile.ZipFile, contents: Contents, source: str) -> None:
    """The archive holds what its list says, once each, and nothing that would leave the folder."""
    found: set[str] = set()
    for info in archive.infolist()[1:]:
        name = info.filename
        kind = stat.S_IFMT(info.external_attr >> 16)
        if not MEMBER.fullmatch(name) or kind not in (0, stat.S_IFREG):
            raise DamagedPack(
                f"{source}: its member {name!r} has no place in a pack; nothing was taken of it."
            )
        if name in found:
            raise DamagedPack(f"{source}: its member {name!r} stands there twice; nothing was taken of it.")
        listed = contents.members.get(name)
        stored = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & 1
        if listed is None or not stored or info.file_size != listed.bytes:
            raise DamagedPack(f"{source}: its member {name!r} is not as listed in {LIST}.")
        found.add(name)
    for name in contents.members:
        if name not in found:
            raise DamagedPack(f"{source}: its member {name!r} is missing.")
    if DATABASE not in found:
        raise DamagedPack(f"{source} is no pack of a run: it has no {DATABASE}.")


def _extract(archive: zipfile.ZipFile, name: str, path: Path, sha256: str, size: int, source: str) -> None:
    """Write a member whose content is as listed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, length = hashlib.sha256(), 0
    with path.open("xb") as to:
        try:
            with archive.open(name) as stream:
                while block := stream.read(BLOCK):
                    digest.update(block)
                    length += len(block)
                    if length > size:
                        break
                    to.write(block)
        except _BROKEN as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise DamagedPack(f"{source}: its member {name!r} is damaged ({error}).") from None
        to.flush()
        os.fsync(to.fileno())
    if (digest.hexdigest(), length) != (sha256, size):
        raise DamagedPack(
            f"{source}: its member {name!r} is damaged (sha256 {digest.hexdigest()[:12]}... and not "
            f"{sha256[:12]}...)."
        )


def _check_database(path: Path, source: str) -> None:
    """It has the tables and triggers of a run and no others: a database may carry code."""
    import tempfile

    with tempfile.TemporaryDirectory() as place, Store(Path(place)):
        expected = _schema(Path(place) / DATABASE)
    found = _schema(path)
    for key, text in found.items():
        if key not in expected or (key[0] == "trigger" and text != expected[key]):
            raise DamagedPack(f"{source}: its member {DATABASE!r} has a {key[0]} {key[1]!r} that no run has.")
    missing = sorted(name for kind, name in expected.keys() - found.keys() if kind == "table")
    if missing:
        raise DamagedPack(f"{source}: its member {DATABASE!r} has no table {missing[0]!r}.")


def _schema(path: Path) -> dict[tuple[str, str], str]:
    with disk_errors(path):
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            rows = database.execute(
                "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_autoindex%'"
            ).fetchall()
        finally:
            database.close()
    return {(kind, name): " ".join(str(text).split()) for kind, name, text in rows}


def _check_run(run: Path, contents: Contents, source: str) -> None:
    """The run is the one that the list speaks of, with the weights that its rows name."""
    opened = open_run(run)
    if opened.identity.fingerprint != contents.fingerprint:
        raise DamagedPack(
            f"{source} says that it holds the population {contents.fingerprint}, but holds "
            f"{opened.identity.fingerprint}."
        )
    load_entries(run)
    with Store(run, readonly=True) as store:
        imported = bool((store.meta("suite") or {}).get("imported"))
        rows = {
            f"weights/{row.cell}.safetensors": row.weights_sha256
            for row in store.cells()
            if row.weights_sha256
        }
    listed = {name: own.sha256 for name, own in contents.members.items() if name.startswith("weights/")}
    if imported:
        rows = {}
    for name in sorted(rows.keys() | listed.keys()):
        if rows.get(name) != listed.get(name):
            raise DamagedPack(f"{source}: its member {name!r} is not the weights that its {DATABASE} names.")


def _require_same(out: Path, contents: Contents, source: str) -> Identity | None:
    """Raise `GapbenchError` unless the run that is there is that of the pack."""
    if not (out / DATABASE).is_file():
        raise GapbenchError(f"{out} exists already: give another folder with --out. Nothing was changed.")
    own = open_run(out).identity
    with packed_files(out) as (there, files):
        same = there.members == contents.members and _intact(there, files)
    if not same:
        what = "another population"
        if own.fingerprint == contents.fingerprint:
            what = "the same population with other measurements, entries or weights"
        raise GapbenchError(
            f"{out} exists already and does not hold what {source} does, but {what}: give another folder with "
            "--out. Nothing was changed."
        )
    return own


def _intact(contents: Contents, files: Mapping[str, WeightFile]) -> bool:
    from gapbench.runs.intact import file_damage

    return not any(file_damage(files[name], member.sha256) for name, member in contents.members.items())
