"""A column of a table as numbers, without anything lost in silence."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_base.errors import TableError
from gapbench_leaderboard.statistics.cells import NumberFormat, is_empty, is_missing, remedy

EXACT = 2**53
"""Whole numbers up to here are exact as float64."""


@dataclass(frozen=True)
class Quantity:
    """A column as float64, and what of it was no number. Rows are positions from 0."""

    values: NDArray[np.float64]
    """Shape (rows,): NaN where a cell is empty, a word, or cannot be read."""
    words: tuple[tuple[int, str], ...] = ()
    """Cells whose text means that a value is missing ("NA", "None", ...)."""
    unreadable: tuple[tuple[int, object], ...] = ()
    """Cells that are neither a number nor missing."""
    merged: tuple[int, int] | None = None
    """Two rows whose whole numbers differ but are equal as float64."""
    shifted: NDArray[np.float64] | None = None
    """Where rows are merged: the same numbers less the smallest, exactly, if float64 can hold that."""

    @property
    def empty(self) -> int:
        """Cells that are empty or NaN."""
        return int(np.isnan(self.values).sum()) - len(self.words) - len(self.unreadable)

    def at(self, places: NDArray[np.intp] | None) -> Quantity:
        """The same with the rows that it names counted in a table that these rows are a part of.

        Returns:
            Unchanged without `places`, shape (rows,).
        """
        if places is None:
            return self
        return replace(
            self,
            words=tuple((int(places[row]), word) for row, word in self.words),
            unreadable=tuple((int(places[row]), cell) for row, cell in self.unreadable),
            merged=None
            if self.merged is None
            else (int(places[self.merged[0]]), int(places[self.merged[1]])),
        )

    def complaint(self, column: object, style: NumberFormat | None = None) -> str:
        """Where and what the first cell is that cannot be read; the empty text if there is none."""
        if not self.unreadable:
            return ""
        row, cell = self.unreadable[0]
        return (
            f"column {column!r} holds text that is no number in {len(self.unreadable)} of {len(self.values)} rows, "
            f"first {shown(cell)} in data row {row + 1} ({remedy(cell, style)})"
        )


def quantity(series: pd.Series[Any], column: object, style: NumberFormat | None = None) -> Quantity:
    """Read a column as numbers: of any numeric type, Decimals, categories, or texts of numbers.

    `style` says how texts write numbers, plainly if it is not given. Among percentages, a text without a percent
    sign cannot be read.

    Returns:
        The numbers, and what of the column is no number.

    Raises:
        TableError: if the table has several columns of this name.
    """
    if isinstance(series, pd.DataFrame):
        raise TableError(f"the table has {series.shape[1]} columns named {column!r}; names must be unique")
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "fb":
        return Quantity(series.to_numpy(dtype=np.float64))
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "iu":
        own = series.to_numpy()
        merged, shifted = _exactly(own.tolist()) if _large(own) else (None, None)
        return Quantity(own.astype(np.float64), merged=merged, shifted=shifted)
    return _cell_by_cell(series.astype(object).tolist(), style or NumberFormat())


def _large(values: NDArray[Any]) -> bool:
    return bool(len(values)) and (int(values.max()) > EXACT or int(values.min()) < -EXACT)


def _cell_by_cell(cells: Sequence[object], style: NumberFormat) -> Quantity:
    shares = style.percent and any(isinstance(cell, str) and style.is_percentage(cell) for cell in cells)
    exact: list[Any] = []
    words: list[tuple[int, str]] = []
    unreadable: list[tuple[int, object]] = []
    known: dict[str, int | float | None] = {}
    for row, cell in enumerate(cells):
        number: Any = None
        if isinstance(cell, str):
            if cell not in known:
                known[cell] = style.read(cell)
                if shares and known[cell] and not style.is_percentage(cell):
                    known[cell] = None
            number = known[cell]
        elif isinstance(cell, numbers.Real | Decimal | np.bool_) and not is_empty(cell):
            number = cell
        if number is None and not is_empty(cell):
            if is_missing(cell):
                words.append((row, str(cell).strip()))
            else:
                unreadable.append((row, cell))
        exact.append(number)
    values = np.array([_float(number) for number in exact], dtype=np.float64)
    large = any(abs(v) > EXACT and np.isfinite(v) for v in values.tolist())
    merged, shifted = _exactly(exact) if large else (None, None)
    return Quantity(values, tuple(words), tuple(unreadable), merged, shifted)


def _float(number: Any) -> float:
    if number is None:
        return float("nan")
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _exactly(cells: Sequence[Any]) -> tuple[tuple[int, int] | None, NDArray[np.float64] | None]:
    """Two rows of different whole numbers that are equal as float64, and all less the smallest."""
    seen: dict[float, dict[int, int]] = {}
    whole: dict[int, int] = {}
    for row, cell in enumerate(cells):
        if cell is None or (isinstance(cell, float) and not cell.is_integer()):
            continue
        if not isinstance(cell, Decimal) or (cell.is_finite() and cell == int(cell)):
            whole[row] = int(cell)
            seen.setdefault(_float(whole[row]), {}).setdefault(whole[row], row)
    merged = next((tuple(rows.values())[:2] for rows in seen.values() if len(rows) > 1), None)
    if merged is None:
        return None, None
    least = min(whole.values())
    held = len(whole) == sum(cell is not None for cell in cells) and max(whole.values()) - least <= EXACT
    shifted = np.array([float(whole[row] - least) if row in whole else np.nan for row in range(len(cells))])
    return (merged[0], merged[1]), shifted if held else None


def levels(series: pd.Series[Any], column: object = "") -> NDArray[np.int64]:
    """Level of every cell of an axis: 0.. in sorted order, empty cells last as one level.

    Words ("NA", "None") are levels like others.

    Returns:
        shape (rows,).

    Raises:
        TableError: if a cell is a list or another value that cannot be compared.
    """
    if isinstance(series, pd.DataFrame):
        raise TableError(f"the table has {series.shape[1]} columns named {column!r}; names must be unique")
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "fiub":
        return pd.factorize(series, sort=True, use_na_sentinel=False)[0].astype(np.int64)
    cells: list[Hashable] = [None if is_empty(cell) else cell for cell in series.astype(object).tolist()]
    try:
        distinct = set(cells)
    except TypeError as error:
        raise TableError(f"column {column!r} holds {error}, which cannot be a level of an axis") from error
    order = {cell: code for code, cell in enumerate(sorted(distinct, key=_place))}
    return np.array([order[cell] for cell in cells], dtype=np.int64)


def _place(cell: object) -> tuple[int, Any, str]:
    """Numbers, then texts, then everything else, then what is empty."""
    if cell is None:
        return (3, 0, "")
    if isinstance(cell, numbers.Real | Decimal | np.bool_):
        return (0, cell, "")
    return (1, 0, cell) if isinstance(cell, str) else (2, 0, f"{type(cell).__name__} {cell}")


def shown(cell: object) -> str:
    """A cell for a message, cut to a readable length."""
    text = repr(cell) if isinstance(cell, str) else str(cell)
    return text if len(text) <= 60 else f"{text[:57]}..."
