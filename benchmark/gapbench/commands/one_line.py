"""Text that keeps both ends where a terminal is narrow."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import ProgressColumn, Task
from rich.table import Column
from rich.text import Text

from gapbench_leaderboard.board.shortening import middle_cut


@dataclass(frozen=True)
class Cut:
    """A text on one line, its middle left out where it does not fit."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(middle_cut(self.text, max(1, options.max_width)), no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, options.max_width)


class OneLine(ProgressColumn):
    """A field of the task on one line."""

    def __init__(self, field: str, table_column: Column | None = None):
        super().__init__(table_column)
        self.field = field

    def render(self, task: Task) -> Cut:
        """What the field holds now."""
        return Cut(str(task.fields.get(self.field, "")))
