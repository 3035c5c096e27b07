"""What a command says while it works: a bar below its lines on a terminal, lines alone elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from gapbench_base.durations import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from gapbench.runs.countdown import Showing


STARTING = "starting"
LOADING = "Loading the libraries."
"""What commands say before they import torch, which takes ten seconds and more on a slow machine."""
NARROW = 60
"""Columns below which a bar gives up room, so that the time left is read whole."""


@dataclass(frozen=True)
class _Left:
    """What is at work, and the time until `ends` as it is when it is shown; nothing where that is not known."""

    ends: float | None
    now: str = ""

    def __str__(self) -> str:
        left = "" if self.ends is None else f"{duration(max(0.0, self.ends - time.monotonic()))} left"
        return "  ".join(part for part in (self.now, left) if part)


def progress_bars(console: Console | None = None) -> Progress:
    """Bars with counts, the time passed, and what stands in the field `last`."""
    from rich import get_console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    from gapbench.commands.one_line import OneLine

    console = console or get_console()
    return Progress(
        TextColumn("{task.description}", table_column=Column(no_wrap=True, min_width=8)),
        BarColumn(bar_width=8 if console.width >= NARROW else 4),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        OneLine("last", table_column=Column(no_wrap=True, ratio=1)),
        expand=True,
        refresh_per_second=4,
        console=console,
    )


def begin(bars: Progress, first: str) -> None:
    """Show what is done before anything can be counted."""
    if first:
        bars.add_task(STARTING, total=None, last=first)
        bars.refresh()  # what follows may leave no room for the thread that does it


def begun(bars: Progress) -> None:
    """Take that away."""
    for task in [task for task in bars.tasks if task.description == STARTING]:
        bars.remove_task(task.id)


def ended(bars: Progress) -> None:
    """Stop bars, without what was said last."""
    begun(bars)
    for task in bars.task_ids:
        bars.update(task, last="")
    bars.stop()


class Bar:
    """Lines, and below them how far work is and about how long the rest takes; before that what is done `first`."""

    def __init__(self, console: Console, first: str = "") -> None:
        self.bars = progress_bars(console)
        self.what, self.first = "", first

    def __enter__(self) -> Self:
        self.bars.start()
        begin(self.bars, self.first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended(self.bars)

    def __call__(self, text: str) -> None:
        """Say it."""
        self.bars.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def progress(self, what: str, done: int, total: int, left: float | None, now: str = "") -> None:
        """Show it, and what is at work `now`; what was shown before of something else stays above."""
        if what != self.what:
            begun(self.bars)
            for task in self.bars.task_ids:
                self.bars.update(task, last="")
                self.bars.stop_task(task)
            self.what = what
            self.task = self.bars.add_task(what, total=total, completed=done, last="")
        ends = None if left is None else time.monotonic() + left
        self.bars.update(self.task, total=total, completed=done, last=_Left(ends, now))


def showing(err: bool = False, first: str = "") -> AbstractContextManager[Callable[[str], None]]:
    """What hears lines and progress: a bar on a terminal, else lines; on standard error if `err`.

    `first` is shown at once, on standard error where there is no terminal: it is no result.
    """
    if (sys.stderr if err else sys.stdout).isatty():
        from rich.console import Console

        return Bar(Console(stderr=err), first)
    if first:
        click.echo(first, err=True)
    return nullcontext(lambda text: click.echo(text, err=err))


if TYPE_CHECKING:
    _conforming: type[Showing] = Bar
