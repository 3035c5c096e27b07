"""Several things that are wrong with one input, told at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gapbench_base.errors import GapbenchError


class Complaints:
    """Collects what is wrong with parts that can be looked at one by one."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Take note of what is raised within, and go on after it."""
        try:
            yield
        except GapbenchError as error:
            self.found[str(error)] = None

    def refuse(self) -> None:
        """Raise `GapbenchError` with all that was found, one in a line, if anything was."""
        if self.found:
            raise GapbenchError("\n".join(self.found))
