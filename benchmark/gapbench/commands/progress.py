"""Progress for people: a bar on a terminal, one plain line for every finished network elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

if TYPE_CHECKING:
    from gapbench.runs.records import StoredMeasurement, TrainedCell


def line_of(record: TrainedCell) -> str:
    """One finished network in one line."""
    head = f"{record.task}  {record.family}  width {record.width:g}  seed {record.seed}"
    if record.status == "failed":
        return f"{head}  failed: {record.reason}"
    seconds = f"{record.seconds:.1f} s"
    if record.gap is None:
        return f"{head}  {record.status}  {seconds}"
    return (
        f"{head}  {record.status} after {record.epochs} epochs  train error {record.train_error:.3f}  "
        f"test error {record.test_error:.3f}  {seconds}"
    )


class Plain:
    """One line for each finished network, to a stream that is not a terminal."""

    def __init__(self) -> None:
        self.cells = self.done = self.measurements = self.measured_count = 0
        self.last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """What there is to do, and what was done before."""
        self.cells, self.done = cells, done
        self.measurements, self.measured_count = measurements, measured
        click.echo(
            f"{cells} networks, {done} trained before; {measurements} measurements, {measured} made before."
        )

    def trained(self, record: TrainedCell) -> None:
        """Count a network, and say what is worth saying of it."""
        self.done += 1
        click.echo(f"[{self.done}/{self.cells}] {line_of(record)}")

    def measured(self, record: StoredMeasurement) -> None:
        """Count a measurement, and name one that failed."""
        self.measured_count += 1
        if record.status == "failed":
            click.echo(f"{record.label} failed on {record.cell}: {record.reason}")
        elif self.done >= self.cells and time.monotonic() - self.last > 10:
            self.last = time.monotonic()
            click.echo(f"{self.measured_count}/{self.measurements} measurements")

    def message(self, text: str) -> None:
        """Say it."""
        click.echo(text, err=True)


class Bars:
    """Two bars on a terminal: networks trained, measurements made."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.bars = Progress(
            TextColumn("{task.description:13}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[last]}"),
        )

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """What there is to do, and what was done before."""
        self.networks = self.bars.add_task("networks", total=cells, completed=done, last="")
        self.values = self.bars.add_task("measurements", total=measurements, completed=measured, last="")

    def trained(self, record: TrainedCell) -> None:
        """Count a network, and say what is worth saying of it."""
        last = f"{record.task} {record.family} width {record.width:g}: {record.status}"
        self.bars.update(self.networks, advance=1, last=last)
        if record.status in ("failed", "diverged"):
            self.bars.console.print(line_of(record), highlight=False, markup=False)

    def measured(self, record: StoredMeasurement) -> None:
        """Count a measurement, and name one that failed."""
        self.bars.update(self.values, advance=1, last=record.label)
        if record.status == "failed":
            text = f"{record.label} failed on {record.cell}: {record.reason}"
            self.bars.console.print(text, highlight=False, markup=False)

    def message(self, text: str) -> None:
        """Say it."""
        self.bars.console.print(text, highlight=False, markup=False)


def progress() -> Plain | Bars:
    """Bars on a terminal, else plain lines."""
    return Bars() if sys.stdout.isatty() else Plain()
