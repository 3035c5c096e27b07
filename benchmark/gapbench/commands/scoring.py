"""Scores with how far they are: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING

import click

from gapbench_base.durations import duration

if TYPE_CHECKING:
    import pandas as pd

    from gapbench.runs.run import Run


EARLY = 0.15
"""Share of the scoring before which nothing is said: the first proxies take what all share."""


def shown_columns() -> int:
    """How wide tables may be: as the terminal, or 100 columns where there is none."""
    return shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100


def scored_with_progress(result: Run) -> pd.DataFrame:
    """The scores of a run."""
    from gapbench.runs.scoring_time import rest, scored

    if not sys.stdout.isatty():
        return scored(result, click.echo)
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    from gapbench.commands.one_line import OneLine

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=8),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
        OneLine("last", table_column=Column(no_wrap=True, ratio=1)),
        expand=True,
    )
    began = time.monotonic()
    with bars:
        task = bars.add_task("scoring", total=1.0, last="")

        def said(share: float) -> None:
            told = f"{duration(rest(time.monotonic() - began, share))} left" if share >= EARLY else ""
            bars.update(task, completed=share, last=told)

        scores = result.scores(progress=said)
        bars.update(task, last="")
        return scores
