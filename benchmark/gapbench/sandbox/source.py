"""A proxy's file: read once, never imported on the trusted side."""

from __future__ import annotations

import ast
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from gapbench_base.errors import GapbenchError

LARGEST = 256 * 1024


@dataclass(frozen=True)
class ProxyFile:
    """The text of one file, as it was when it was read."""

    file_name: str
    content: bytes

    @property
    def sha256(self) -> str:
        """Of the content."""
        return hashlib.sha256(self.content).hexdigest()


def read_source(path: str | os.PathLike[str]) -> ProxyFile:
    """Read a proxy's file. Raises `GapbenchError` where there is none, or it is too large or no Python."""
    file = Path(path)
    try:
        if not file.is_file():
            raise GapbenchError(f"There is no file {file}. `gapbench new NAME` writes a template.")
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise GapbenchError(f"The file {file} cannot be read: {error.strerror}.") from None
    if len(content) > LARGEST:
        raise GapbenchError(
            f"{file} is larger than {LARGEST // 1024} KiB. A proxy is code; it may bring no data of its own."
        )
    return source_of(content, file.stem)


def source_of(content: bytes, stem: str) -> ProxyFile:
    """A source of text that is at hand. Raises `GapbenchError` for what is no Python."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", stem)[:60] or "proxy"
    try:
        ast.parse(content.decode("utf-8"), name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise GapbenchError(f"{stem}.py is no Python{line}: {error}") from None
    return ProxyFile(f"{name}.py", content)
