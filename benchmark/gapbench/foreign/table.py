"""The table of networks trained elsewhere: every row checked before anything is measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapbench.runs.records import CellStatus
from gapbench.suites.columns import taken
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

REQUIRED = ("weights", "train_error", "test_error")
STATUSES: tuple[CellStatus, ...] = ("converged", "not_converged", "diverged")
ERRORS = ("train_error", "test_error")
FILLED: Mapping[str, Any] = {"task": "imported", "width": 1.0, "seed": 0, "status": "converged"}
OPTIONAL = ("initial", "test_data", "train_loss", "test_loss", "test_size")


@dataclass(frozen=True)
class ForeignNetwork:
    """One network of the table, with its files found.

    `position` counts from 1; errors are fractions, losses nats; None where the table does not say. A `train_error`
    may be up to 100 here: whether it is a fraction is judged beside the network's own (`train_errors`).
    """

    position: int
    name: str
    weights: Path
    factory: str
    data: Path
    test_data: Path | None
    initial: Path | None
    task: str
    family: str
    width: float
    seed: int
    status: CellStatus
    train_error: float
    test_error: float
    train_loss: float | None
    test_loss: float | None
    test_size: int | None
    axes: Mapping[str, object]


def read_rows(
    table: str | os.PathLike[str],
    weights: str | os.PathLike[str],
    axes: Sequence[str],
    given: Mapping[str, object],
) -> tuple[ForeignNetwork, ...]:
    """The rows of a table, every one checked.

    `given`: `factory`, `data`, `test_data`, `test_size` for all rows, None where the table's columns say so.

    Returns:
        The rows in the table's order.

    Raises:
        GapbenchError: naming the row for whatever does not fit.
        TableError: for a file that is no table.
    """
    from gapbench_leaderboard.intake.reading import read_table

    texts = ("weights", "factory", "data", "test_data", "initial", "task", "family", "status")
    frame = _complete(read_table(Path(table), texts=texts), axes, given)
    rows = []
    for position, record in enumerate(frame.to_dict("records"), start=1):
        try:
            rows.append(_row(position, record, Path(weights), axes))
        except GapbenchError as error:
            raise GapbenchError(f"{table}, row {position}: {error}") from None
    alike: dict[str, ForeignNetwork] = {}
    seen: dict[tuple[Path, str], ForeignNetwork] = {}
    for row in rows:
        other = seen.setdefault((row.weights.resolve(), row.factory), row)
        if other is not row:
            raise GapbenchError(
                f"{table} lists the same network twice: rows {other.position} and {row.position} name the "
                f"weight file {row.name}."
            )
        place = repr([row.task, row.family, row.width, sorted(row.axes.items()), row.seed])
        other = alike.setdefault(place, row)
        if other is not row:
            raise GapbenchError(
                f"{table}, rows {other.position} and {row.position} ({other.name}, {row.name}) have the same "
                "task, family, width, axes and seed. Name the axis that tells them apart with --axes, or give them "
                "seeds of their own."
            )
    return tuple(rows)


def half_unit(values: Sequence[float]) -> float:
    """Half a unit of the last digit to which a column of fractions was rounded: 0.005 for two digits.

    The digits are those of the value that has most, since tables drop zeros at the end; beyond the seventh they are
    those of float32 or of a subtraction (1 - 0.93). 0 where all are whole numbers: an error of exactly 0 or 1 tells
    nothing about rounding.

    Returns:
        The half unit, a fraction.
    """
    if all(float(value).is_integer() for value in values):
        return 0.0
    exponents = [Decimal(repr(round(float(value), 7))).as_tuple().exponent for value in values]
    return 0.5 * 10.0 ** min(int(exponent) for exponent in exponents)


def _complete(frame: pd.DataFrame, axes: Sequence[str], given: Mapping[str, object]) -> pd.DataFrame:
    """The table with every optional column."""
    for axis in taken(axis for axis in axes if axis != "width"):
        own = "tells networks apart in any case" if axis in ("task", "family", "seed") else "is no axis"
        raise GapbenchError(
            f"--axes: {axis!r} is a column of population.csv that {own}; leave it out, or rename your column."
        )
    frame = frame.copy()
    for name, value in given.items():
        if value is not None:
            frame[name] = value if isinstance(value, int) else str(value)
    for column in (*REQUIRED, "factory", "data", *axes):
        if column not in frame.columns:
            hint = did_you_mean(column, frame.columns) or f" Columns: {', '.join(map(str, frame.columns))}."
            raise GapbenchError(f"The table has no column {column!r}.{hint}")
    for name, default in FILLED.items():
        if name not in frame.columns:
            frame[name] = default
    if "family" not in frame.columns:
        frame["family"] = frame["factory"]
    for name in OPTIONAL:
        if name not in frame.columns:
            frame[name] = None
    return frame


def _row(position: int, record: Mapping[object, object], folder: Path, axes: Sequence[str]) -> ForeignNetwork:
    name = _text(record, "weights")
    errors = {column: _fraction(record, column, name) for column in ERRORS}
    seed, width = _number(record, "seed"), _number(record, "width")
    if seed is None or not seed.is_integer() or seed < 0:
        raise GapbenchError(f"seed = {record['seed']!r} is no whole number of at least 0.")
    if width is None or width < 0:
        raise GapbenchError(f"width = {record['width']!r} is no number of at least 0.")
    size = _number(record, "test_size")
    if size is not None and (not size.is_integer() or size < 1):
        raise GapbenchError(f"test_size = {record['test_size']!r} is no whole number of at least 1.")
    for axis in axes:
        if _empty(record[axis]):
            raise GapbenchError(f"the axis {axis} has no value.")
    test_data, initial = record["test_data"], record["initial"]
    return ForeignNetwork(
        position=position,
        name=name,
        weights=_file(folder / name),
        factory=_text(record, "factory"),
        data=_data(_text(record, "data"), folder),
        test_data=None if _missing(test_data) else _data(str(test_data), folder),
        initial=None if _missing(initial) else _file(folder / str(initial)),
        task=_text(record, "task"),
        family=_text(record, "family"),
        width=width,
        seed=int(seed),
        status=_status(record),
        train_error=errors["train_error"],
        test_error=errors["test_error"],
        train_loss=_number(record, "train_loss"),
        test_loss=_number(record, "test_loss"),
        test_size=None if size is None else int(size),
        axes={axis: _plain(record[axis]) for axis in axes if axis != "width"},
    )


def _status(record: Mapping[object, object]) -> CellStatus:
    text = _text(record, "status")
    for status in STATUSES:
        if text == status:
            return status
    raise GapbenchError(f"status {text!r} is none of {', '.join(STATUSES)}.{did_you_mean(text, STATUSES)}")


def _file(path: Path) -> Path:
    if not path.is_file():
        raise GapbenchError(f"There is no file {path}.")
    return path


def _data(name: str, folder: Path) -> Path:
    return _file(Path(name) if Path(name).is_file() else folder / name)


def _text(record: Mapping[object, object], column: str) -> str:
    value = record[column]
    if _empty(value):
        raise GapbenchError(f"{column} is empty.")
    return str(value)


def _fraction(record: Mapping[object, object], column: str, name: str) -> float:
    value = _number(record, column)
    if value is None or not 0 <= value <= (100 if column == "train_error" else 1):
        percent = value is not None and 1 < value <= 100
        hint = f" It looks like a percentage: give {value / 100:g}." if percent and value is not None else ""
        raise GapbenchError(f"{column} = {record[column]!r} of {name} is no fraction between 0 and 1.{hint}")
    return value


def _number(record: Mapping[object, Any], column: str) -> float | None:
    """A finite number; None where the cell is empty."""
    value = record[column]
    if _missing(value):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise GapbenchError(f"{column} = {value!r} is no number.") from None
    if number - number != 0:
        raise GapbenchError(f"{column} = {value!r} is not finite.")
    return number


def _missing(value: object) -> bool:
    """Nothing, or a word for nothing: what a number or a file may be."""
    from gapbench_leaderboard.statistics.cells import is_missing

    return is_missing(value)


def _empty(value: object) -> bool:
    """Nothing; "NA" and "None" are levels of an axis and names like others."""
    from gapbench_leaderboard.statistics.cells import is_empty

    return is_empty(value)


def _plain(value: object) -> object:
    return value.item() if hasattr(value, "item") else value
