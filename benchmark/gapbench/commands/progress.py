"""Progress for people: bars on a terminal, plain lines elsewhere and in a log, nothing if asked to be quiet."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

import click

from gapbench.commands.showing import LOADING, begin, begun, ended, progress_bars
from gapbench_base.durations import duration
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from gapbench.population.progress import Progress
    from gapbench.runs.countdown import Showing
    from gapbench.runs.records import StoredMeasurement, TrainedCell

SILENCE = 10.0  # seconds after which a line says that work goes on


def line_of(record: TrainedCell, axes: Sequence[str] = ()) -> str:
    """One finished network in one line, with the values of the axes that tell it from others."""
    from gapbench.runs.tables import axis_values

    head = f"{record.task}  {record.family}  width {record.width:g}"
    try:
        values = axis_values(json.loads(record.description), [axis for axis in axes if axis != "width"])
    except (ValueError, KeyError, TypeError, AttributeError):
        values = {}
    told = [f"{axis} {_short(value)}" for axis, value in values.items() if value is not None]
    head = "  ".join([head, *told, f"seed {record.seed}"])
    if record.status == "failed":
        return f"{head}  failed: {record.reason}"
    seconds = f"{record.seconds:.1f} s"
    if record.gap is None:
        return f"{head}  {record.status}  {seconds}"
    return (
        f"{head}  {record.status} after {record.epochs} epochs  train error {record.train_error:.3f}  "
        f"test error {record.test_error:.3f}  {seconds}"
    )


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


class Plain:
    """One line for each finished network, and one at least every `SILENCE` seconds, to a stream."""

    def __init__(self, stream: TextIO | None = None, verbose: bool = False) -> None:
        """`verbose`: one line for each measurement, too."""
        self.stream, self.verbose = stream, verbose
        self.cells = self.done = self.measurements = self.measured_count = 0
        self.axes: Sequence[str] = ()
        self.seconds: float | None = None
        self.last = time.monotonic()

    def __enter__(self) -> Self:
        if self.stream is None:
            self._say(LOADING)
        return self

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            self.stream.close()

    def _say(self, text: str, err: bool = False) -> None:
        self.last = time.monotonic()
        click.echo(text, file=self.stream, err=err and self.stream is None)
        if self.stream is not None:
            self.stream.flush()

    def about(self, axes: Sequence[str]) -> None:
        """By what networks are told apart."""
        self.axes = axes

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """What there is to do, and what was done before."""
        self.cells, self.done = cells, done
        self.measurements, self.measured_count = measurements, measured
        self._say(
            f"{cells} networks, {done} trained before; {measurements} measurements, {measured} made before."
        )

    def trained(self, record: TrainedCell) -> None:
        """Count a network, and say what is worth saying of it."""
        self.done += 1
        self._say(f"[{self.done}/{self.cells}] {line_of(record, self.axes)}")

    def measured(self, record: StoredMeasurement) -> None:
        """Count a measurement, and name one that failed."""
        self.measured_count += 1
        if record.status == "failed":
            self._say(f"{record.label} failed on {record.cell}: {record.reason}")
        elif self.verbose:
            value = record.status.replace("_", " ") if record.value is None else f"{record.value:.6g}"
            seconds = "" if record.seconds is None else f"  {record.seconds:.2f} s"
            count = f"{self.measured_count}/{self.measurements}"
            self._say(f"    {count}  {record.label} on {record.cell}: {value}{seconds}")

    def left(self, seconds: float | None) -> None:
        """Say how far it is, if nothing was said for a while."""
        self.seconds = seconds
        if time.monotonic() - self.last >= SILENCE:
            rest = f"about {duration(seconds)} left" if seconds is not None else "how long is not known yet"
            values = f"{self.measured_count}/{self.measurements} measurements"
            self._say(f"... {self.done}/{self.cells} networks, {values}; {rest}")

    def message(self, text: str) -> None:
        """Say it."""
        self._say(text, err=True)


class Bars:
    """Two bars on a terminal: networks trained, measurements made; and the time left."""

    def __init__(self) -> None:
        self.bars = progress_bars()
        self.axes: Sequence[str] = ()

    def __enter__(self) -> Self:
        self.bars.start()
        begin(self.bars, LOADING)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended(self.bars)

    def about(self, axes: Sequence[str]) -> None:
        """By what networks are told apart."""
        self.axes = axes

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """What there is to do, and what was done before."""
        begun(self.bars)
        self.networks = self.bars.add_task("networks", total=cells, completed=done, last="")
        self.values = self.bars.add_task("values", total=measurements, completed=measured, last="")

    def trained(self, record: TrainedCell) -> None:
        """Count a network, and say what is worth saying of it."""
        last = f"{record.task} {record.family} width {record.width:g}: {record.status}"
        self.bars.update(self.values, last=last)
        self.bars.update(self.networks, advance=1)
        if record.status in ("failed", "diverged"):
            self.message(line_of(record, self.axes))

    def measured(self, record: StoredMeasurement) -> None:
        """Count a measurement, and name one that failed."""
        self.bars.update(self.values, advance=1)
        if record.status == "failed":
            self.message(f"{record.label} failed on {record.cell}: {record.reason}")

    def left(self, seconds: float | None) -> None:
        """Show it."""
        self.bars.update(self.networks, last=f"{duration(seconds)} left" if seconds is not None else "")

    def message(self, text: str) -> None:
        """Say it."""
        self.bars.console.print(text, highlight=False, markup=False)


class Networks:
    """How many networks are trained, shown by what shows one thing at a time."""

    def __init__(self, say: Showing) -> None:
        self.say = say
        self.cells = self.done = 0
        self.seconds: float | None = None

    def _show(self) -> None:
        self.say.progress("networks", self.done, self.cells, self.seconds)

    def about(self, axes: Sequence[str]) -> None:
        """Nothing."""

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """What there is to do, and what was done before."""
        self.cells, self.done = cells, done
        self._show()

    def trained(self, record: TrainedCell) -> None:
        """Count a network, and say it of one that failed."""
        self.done += 1
        self._show()
        if record.status in ("failed", "diverged"):
            self.message(line_of(record))

    def measured(self, record: StoredMeasurement) -> None:
        """Say it of one that failed."""
        if record.status == "failed":
            self.message(f"{record.label} failed on {record.cell}: {record.reason}")

    def left(self, seconds: float | None) -> None:
        """Show it."""
        self.seconds = seconds
        self._show()

    def message(self, text: str) -> None:
        """Say it."""
        self.say(text)


class Quiet:
    """Says what a person should know, and nothing of progress."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def about(self, axes: Sequence[str]) -> None:
        """Nothing."""

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """Nothing."""

    def trained(self, record: TrainedCell) -> None:
        """Say it of one that failed."""
        if record.status == "failed":
            self.message(line_of(record))

    def measured(self, record: StoredMeasurement) -> None:
        """Say it of one that failed."""
        if record.status == "failed":
            self.message(f"{record.label} failed on {record.cell}: {record.reason}")

    def left(self, seconds: float | None) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Say it."""
        click.echo(text, err=True)


class Both:
    """What is shown, and a log of the same in plain lines."""

    def __init__(self, shown: Plain | Bars | Quiet, log: Plain):
        self.both: tuple[Plain | Bars | Quiet, Plain] = (shown, log)

    def __enter__(self) -> Self:
        self.both[0].__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.both[0].__exit__(kind, error, trace)
        self.both[1].__exit__(kind, error, trace)

    def about(self, axes: Sequence[str]) -> None:
        """Pass it on."""
        for one in self.both:
            one.about(axes)

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """Pass it on."""
        for one in self.both:
            one.begin(cells, done, measurements, measured)

    def trained(self, record: TrainedCell) -> None:
        """Pass it on."""
        for one in self.both:
            one.trained(record)

    def measured(self, record: StoredMeasurement) -> None:
        """Pass it on."""
        for one in self.both:
            one.measured(record)

    def left(self, seconds: float | None) -> None:
        """Pass it on."""
        for one in self.both:
            one.left(seconds)

    def message(self, text: str) -> None:
        """Pass it on."""
        for one in self.both:
            one.message(text)


def progress(
    quiet: bool = False, log: Path | None = None, verbose: bool = False
) -> Plain | Bars | Quiet | Both:
    """Bars on a terminal, else plain lines, or neither if `quiet`; the lines also at the end of the file `log`.

    `verbose`: plain lines in any case, one for each measurement, too.

    Raises:
        GapbenchError: the file cannot be written, or both `quiet` and `verbose`.
    """
    if quiet and verbose:
        raise GapbenchError("--quiet and --verbose are opposites: give one.")
    shown: Plain | Bars | Quiet = (
        Quiet() if quiet else Bars() if sys.stdout.isatty() and not verbose else Plain(verbose=verbose)
    )
    if log is None:
        return shown
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        stream = log.open("a", encoding="utf-8")
    except OSError as error:
        raise GapbenchError(f"--log {log}: {error.strerror or error}.") from None
    return Both(shown, Plain(stream, verbose))


def networks_of(say: Callable[[str], None]) -> Plain | Networks:
    """What tells of the networks that a command trains beside its other work."""
    from gapbench.runs.countdown import Showing

    return Networks(say) if isinstance(say, Showing) else Plain()


if TYPE_CHECKING:
    _conforming: tuple[type[Progress], ...] = (Plain, Bars, Networks, Quiet, Both)
