"""The levels of an axis in words; an axis of many numbers in quarters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_base.errors import TableError
from gapbench_leaderboard.statistics.quantities import levels, quantity

MOST_LEVELS = 8
"""An axis of more different numbers is continuous: its values are divided into quarters."""
EMPTY = "empty"


@dataclass(frozen=True)
class AxisLevels:
    """The level of every row of a table on an axis."""

    codes: NDArray[np.int64]
    """Shape (rows,): 0.. in sorted order, those that occur alone."""
    names: tuple[str, ...]
    """Of each level: its value, or `low to high`."""
    distinct: int
    """Different values that there are."""


def levels_of_axis(frame: pd.DataFrame, axis: str) -> AxisLevels:
    """The levels of an axis: its values, or quarters (by rows, equal values together) of more than 8 numbers.

    Args:
        frame: the table.
        axis: a column of it; empty cells are a level of their own.

    Returns:
        The level of each row.
    """
    column = frame[axis]
    codes = levels(column, axis)
    distinct = int(codes.max()) + 1 if len(codes) else 0
    numbers = _numbers(column, axis)
    if distinct > MOST_LEVELS and numbers is not None:
        finite = np.isfinite(numbers)
        cuts = np.quantile(numbers[finite], [0.25, 0.5, 0.75], method="inverted_cdf")
        quarter = np.where(finite, np.searchsorted(cuts, numbers, side="left"), len(cuts) + 1)
        present, codes = np.unique(quarter, return_inverse=True)
        codes = codes.reshape(-1).astype(np.int64)
        names = tuple(
            EMPTY if number > len(cuts) else _range(numbers[quarter == number]) for number in present
        )
        return AxisLevels(codes, names, distinct)
    first = np.unique(codes, return_index=True)[1]
    cells = column.astype(object).tolist()
    return AxisLevels(codes, tuple(in_words(cells[row]) for row in first), distinct)


def in_words(value: object) -> str:
    """A level of an axis as a text: numbers in at most six digits."""
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return EMPTY
    if isinstance(value, float | np.floating):
        return f"{float(value):g}"
    return str(value)


def _numbers(column: pd.Series, axis: str) -> NDArray[np.float64] | None:
    """The column's numbers, NaN where it is empty; None where it holds anything else."""
    try:
        found = quantity(column, axis)
    except TableError:
        return None
    return None if found.words or found.unreadable or not np.isfinite(found.values).any() else found.values


def _range(values: NDArray[np.float64]) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
