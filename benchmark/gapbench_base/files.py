"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Write under a temporary name, flush to the disk, and rename over `path`; text in UTF-8, line ends as given.

    A file that another program reads is there whole or not at all, also after a power cut.

    Returns:
        `path`.
    """
    data = content.encode() if isinstance(content, str) else content
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
        flush_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def flush_folder(folder: Path) -> None:
    """Bring the renaming itself to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """The process's mask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
