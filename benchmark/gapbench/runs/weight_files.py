"""Files with weights, of this machine or at an address that fsspec knows, and the places that hold them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from gapbench_base.files import write_atomically

PAUSES = (1.0, 5.0)
"""Seconds after which an address is tried again: a trained network is not given up for one answer."""
Answer = TypeVar("Answer")


class _NoSystem(OSError):
    """The file system of an address is not known, or not installed."""


@dataclass(frozen=True)
class FileElsewhere:
    """A file at an address of a file system of fsspec, with those methods of a `Path` that weight files need.

    Whatever goes wrong there is an `OSError`.
    """

    address: str

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.address.rpartition("/")[2]

    def read_bytes(self) -> bytes:
        """The content; what is not there is not waited for."""

        def read(system: Any, path: str) -> bytes:
            content: bytes = system.cat_file(path)
            return content

        return self._tried(read)

    def write_bytes(self, content: bytes) -> None:
        """Write it. Whoever reads it compares its checksum."""
        self._tried(lambda system, path: system.pipe_file(path, content))

    def _tried(self, act: Callable[[Any, str], Answer]) -> Answer:
        """Do something there, several times if need be."""
        for pause in PAUSES:
            try:
                with _as_os_errors(self.address):
                    return act(*_system(self.address))
            except (FileNotFoundError, _NoSystem):
                raise
            except OSError:
                time.sleep(pause)
        with _as_os_errors(self.address):
            return act(*_system(self.address))

    def is_file(self) -> bool:
        """Whether it is there; False where that cannot be found out, too."""
        with contextlib.suppress(OSError):
            return self.size() is not None
        return False

    def size(self) -> int | None:
        """Bytes of it, None if it is not there."""
        try:
            with _as_os_errors(self.address):
                system, path = _system(self.address)
                system.invalidate_cache()
                found = system.info(path)
                return int(found["size"]) if found["type"] == "file" else None
        except FileNotFoundError:
            return None

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove it."""
        try:
            with _as_os_errors(self.address):
                system, path = _system(self.address)
                system.rm_file(path)
        except FileNotFoundError:
            if not missing_ok:
                raise


WeightFile = Path | FileElsewhere
WeightPlace = Path | str
"""A folder, or an address of one."""


def weight_file(place: WeightPlace, cell: str) -> WeightFile:
    """The file with a cell's weights in a place of weights."""
    return _in(place, f"{cell}.safetensors")


def place_at(address: str) -> WeightPlace:
    """What an address means: a folder of this machine (`/shared/weights`, `file:///...`), or itself."""
    if "://" not in address:
        return Path(address)
    parts = urllib.parse.urlsplit(address)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(urllib.request.url2pathname(parts.path))
    return address


def there(place: WeightPlace, name: str) -> str | None:
    """The text of a small file in a place of weights.

    Returns:
        The text, None if the file is not there.

    Raises:
        OSError: where the place cannot be reached.
    """
    try:
        return _in(place, name).read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None


def put(place: WeightPlace, name: str, text: str) -> None:
    """Write a small file into a place of weights. Raises `OSError` where that is not possible."""
    file = _in(place, name)
    if isinstance(file, Path):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text)
        return
    try:
        file.write_bytes(text.encode())
    except FileNotFoundError:  # file systems with folders
        with _as_os_errors(file.address):
            _make_parent(*_system(file.address))
        file.write_bytes(text.encode())


def _make_parent(system: Any, path: str) -> None:
    """Make the folder of a file, and those above it but the first, which may be a bucket of somebody else."""
    missing = []
    while not system.exists(folder := system._parent(path)):
        missing.append(folder)
        path = folder
        if system._parent(folder).strip("/") == "":
            raise FileNotFoundError(errno.ENOENT, f"there is no {folder}")
    for folder in reversed(missing):
        system.mkdir(folder, create_parents=False)


def remove(place: WeightPlace, name: str) -> None:
    """Remove a small file of a place of weights, if it is there and can be."""
    with contextlib.suppress(OSError):
        _in(place, name).unlink(missing_ok=True)


def listed(place: WeightPlace) -> list[WeightFile]:
    """The files in a place of weights, by name. Raises `OSError` where it cannot be reached."""
    if isinstance(place, Path):
        return [path for path in sorted(place.glob("*")) if path.is_file() and not path.is_symlink()]
    with _as_os_errors(place):
        system, path = _system(place)
        system.invalidate_cache()
        found = [own["name"] for own in system.ls(path, detail=True) if own["type"] == "file"]
    return [_in(place, name.rpartition("/")[2]) for name in sorted(found)]


def size_of(file: WeightFile) -> int | None:
    """Bytes of a file, None where it is not there. Raises `OSError` where that cannot be found out."""
    if not isinstance(file, Path):
        return file.size()
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return None


def checksum(file: WeightFile) -> tuple[str, int]:
    """The sha256 and the size of a file. Raises `OSError`."""
    if not isinstance(file, Path):
        content = file.read_bytes()
        return hashlib.sha256(content).hexdigest(), len(content)
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest(), os.fstat(stream.fileno()).st_size


def opened(file: WeightFile) -> BinaryIO:
    """A stream of the content of a file. Raises `OSError`."""
    return file.open("rb") if isinstance(file, Path) else io.BytesIO(file.read_bytes())


def _in(place: WeightPlace, name: str) -> WeightFile:
    return place / name if isinstance(place, Path) else FileElsewhere(f"{place}/{name}")


def told(error: OSError) -> str:
    """What an error says, without its point."""
    return str(error.strerror or error).rstrip(".") or type(error).__name__


def _system(address: str) -> tuple[Any, str]:
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:  # a protocol that is not known or not installed
        raise _NoSystem(str(error)) from None
    return system, path


@contextlib.contextmanager
def _as_os_errors(address: str) -> Iterator[None]:
    """Errors of whatever library speaks to an address, as such of the operating system."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__} at {address}: {error}") from None
