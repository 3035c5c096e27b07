"""Output that nobody reads any more, as of `gapbench list proxies | head`."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any


class Unread(io.FileIO):
    """A stream that goes on into nothing once its reader has closed it."""

    def write(self, data: Any, /) -> int:
        """Write, or count as written what has no reader."""
        try:
            return super().write(data)
        except BrokenPipeError:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())  # for processes that inherit it, too
            os.close(nothing)
            return len(data)


@contextlib.contextmanager
def readers_may_leave() -> Iterator[None]:
    """Meanwhile the work goes on when whoever reads stdout or stderr ends: the exit code stays that of the work."""
    own = {name: getattr(sys, name) for name in ("stdout", "stderr") if _has_a_reader(name)}
    for name, stream in own.items():
        stream.flush()
        raw = io.BufferedWriter(Unread(stream.fileno(), "w", closefd=False))
        text = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=stream.line_buffering)
        setattr(sys, name, text)
    try:
        yield
    finally:
        for name, stream in own.items():
            getattr(sys, name).flush()
            setattr(sys, name, stream)


def _has_a_reader(name: str) -> bool:
    """Whether it is the process's own stream, and a pipe or socket."""
    stream = getattr(sys, name)
    if stream is None or stream is not getattr(sys, f"__{name}__"):
        return False
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
