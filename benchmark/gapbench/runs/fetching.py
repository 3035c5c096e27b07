"""A file from elsewhere, by http(s) or fsspec: what has arrived is kept, and what broke off goes on from there."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gapbench_base.durations import duration
from gapbench_base.errors import GapbenchError
from gapbench_base.files import write_atomically

Say = Callable[[str], None]
TRIES = 6
"""Attempts that may follow each other without a single byte."""
PAUSE = 1.0
"""Seconds before the second attempt; before each further one twice as many, up to a minute."""
TIMEOUT = 60.0
"""Seconds in which a server must say something."""
BLOCK = 1 << 20
SILENCE = 10.0
PARTIAL, ORIGIN = "partial", "origin.json"


@dataclass
class ByteStream:
    """Bytes of a file from `start` on; `size` of the whole and a `tag` of its version, where they are known."""

    start: int
    size: int | None
    tag: str
    blocks: Iterator[bytes]


class Broken(Exception):
    """A connection that may be tried again."""


class RemoteFile(Protocol):
    """Where a file is to be had."""

    def open(self, start: int, tag: str) -> ByteStream:
        """The file from `start` on, if it has this tag and that is possible; else from its beginning."""


class HttpSource:
    """A file at an http(s) address."""

    def __init__(self, address: str):
        self.address = address

    def open(self, start: int, tag: str) -> ByteStream:
        """See `RemoteFile`."""
        headers = {"Accept-Encoding": "identity", "User-Agent": "gapbench"}
        if start and tag:
            headers |= {"Range": f"bytes={start}-", "If-Range": tag}
        try:
            answer = urllib.request.urlopen(
                urllib.request.Request(self.address, headers=headers), timeout=TIMEOUT
            )
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and start:
                return self.open(0, "")
            if error.code in (408, 425, 429) or error.code >= 500:
                raise Broken(f"it answers {error.code} {error.reason}") from None
            hint = " It asks for an account." if error.code in (401, 403) else ""
            raise GapbenchError(f"{self.address} answers {error.code} {error.reason}.{hint}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Broken(str(getattr(error, "reason", error)) or type(error).__name__) from None
        found = answer.headers.get("ETag") or answer.headers.get("Last-Modified") or ""
        if found.startswith("W/"):
            found = ""  # the same content, perhaps in other bytes
        begins, size = 0, answer.headers.get("Content-Length")
        if answer.status == 206:
            place, _, whole = (
                (answer.headers.get("Content-Range") or "").removeprefix("bytes ").partition("/")
            )
            begins, size = int(place.partition("-")[0]), whole
        total = int(size) if size is not None and size.isdecimal() else None
        return ByteStream(begins, total, found, _blocks(answer))


class FsspecSource:
    """A file at any address that fsspec knows."""

    def __init__(self, address: str):
        self.address = address
        self.system, self.path = _file_system(address)

    def open(self, start: int, tag: str) -> ByteStream:
        """See `RemoteFile`."""
        try:
            info: dict[str, Any] = self.system.info(self.path)
            found = json.dumps(
                [info.get("size"), *(str(info.get(name)) for name in ("ETag", "etag", "mtime", "created"))]
            )
            stream = self.system.open(self.path, "rb")
            start = start if tag == found else 0
            stream.seek(start)
        except FileNotFoundError:
            raise GapbenchError(f"There is no {self.address}.") from None
        except GapbenchError:
            raise
        except Exception as error:  # every file system has its own
            raise Broken(f"{type(error).__name__}: {error}") from None
        return ByteStream(start, info.get("size"), found, _blocks(stream))


def _file_system(address: str) -> tuple[Any, str]:
    """A file system of fsspec and the path of a file in it; of a folder with one zip file, of that."""
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise GapbenchError(f"{address} cannot be read: {error}") from None
    listed = None
    with contextlib.suppress(Exception):  # said when it is opened
        listed = system.ls(path, detail=False) if system.isdir(path) else None
    if listed is None:
        return system, path
    packs = [name for name in listed if name.endswith(".zip")]
    if len(packs) != 1:
        raise GapbenchError(f"{address} is a folder of {len(packs)} packs (*.zip): name one file.")
    return system, packs[0]


def _blocks(stream: Any) -> Iterator[bytes]:
    with contextlib.closing(stream):
        while True:
            try:
                block = stream.read(BLOCK)
            except GapbenchError:
                raise
            except Exception as error:  # broken connections have many names
                raise Broken(str(error) or type(error).__name__) from None
            if not block:
                return
            yield block


def download(source: RemoteFile, address: str, place: Path, say: Say) -> Path:
    """Bring a file here whole, from where an earlier call ended if it is still the same there.

    Args:
        source: where it is to be had.
        address: what it is called in messages.
        place: a folder for it and what is known of it.
        say: hears how far it is.

    Returns:
        The file.

    Raises:
        GapbenchError: if it is not to be had; what has arrived is kept.
    """
    partial, origin = place / PARTIAL, place / ORIGIN
    failures, told, why = 0, time.monotonic(), ""
    began = told
    while failures < TRIES:
        before = _arrived(partial)
        try:
            stream, have = _begun(source, partial, before, _tag(origin, address) if before else "")
            write_atomically(origin, json.dumps({"address": address, "tag": stream.tag}) + "\n")
            with partial.open("ab") as to:
                for block in stream.blocks:
                    to.write(block)
                    have += len(block)
                    if time.monotonic() - told >= SILENCE:
                        told = time.monotonic()
                        say(_progress(have, stream.size, told - began))
                to.flush()
                os.fsync(to.fileno())
            if stream.size is None or have == stream.size:
                return partial
            why = f"it broke off after {have:,} of {stream.size:,} bytes"
        except Broken as error:
            why = str(error)
        failures = 0 if _size(partial) > before else failures + 1
        say(f"{address}: {why}; trying again.")
        time.sleep(min(60.0, PAUSE * 2 ** max(0, failures - 1)))
    raise GapbenchError(
        f"{address} could not be fetched: {why}. What has arrived is kept: the same command goes on from there."
    )


def _begun(source: RemoteFile, partial: Path, have: int, tag: str) -> tuple[ByteStream, int]:
    """The rest of a file and how much of it is here; what is here of another version is thrown away."""
    stream = source.open(have, tag)
    if stream.start != have or (have and stream.tag != tag):
        have = 0
        partial.unlink(missing_ok=True)  # before what it is said to be a part of changes
    if stream.start != have:
        raise Broken("it sent another part than it was asked for")
    return stream, have


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _arrived(partial: Path) -> int:
    """Bytes of a file that has arrived in part; the last is asked for again, as no server sends less than one."""
    if not partial.is_file():
        return 0
    have = max(0, _size(partial) - 1)
    os.truncate(partial, have)
    return have


def _tag(origin: Path, address: str) -> str:
    """The version of the file that a part is of; empty where that is not known."""
    try:
        content = json.loads(origin.read_text(encoding="utf-8"))
        return str(content["tag"]) if content["address"] == address else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _progress(have: int, size: int | None, passed: float) -> str:
    whole = "" if size is None else f" of {size:,}"
    left = "" if not size or not have else f", about {duration(passed * (size - have) / have)} left"
    return f"{have:,}{whole} bytes{left}"
