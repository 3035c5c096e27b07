"""Rows that a table holds more than once: they would pass for seeds without any spread."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_base.errors import TableError
from gapbench_leaderboard.intake.row_numbers import row_numbers
from gapbench_leaderboard.statistics.quantities import levels

_MOST_NAMED = 10


def numbering(frame: pd.DataFrame) -> list[Hashable]:
    """The columns that number the rows, told without rows that are repeated as a whole, numbers included."""
    return row_numbers(frame[~_table(frame).duplicated().to_numpy()])


def copies(frame: pd.DataFrame, numbers: Collection[Hashable]) -> NDArray[np.bool_]:
    """Rows that equal an earlier one in every column but those that number the rows, shape (rows,).

    Args:
        frame: the rows.
        numbers: the columns that number the rows of the whole table (`numbering`), of which these may be a part.

    Returns:
        True from the second of equal rows on.
    """
    kept = [k for k, name in enumerate(frame.columns) if name not in numbers]
    return _table(frame)[kept].duplicated().to_numpy() if kept else np.zeros(len(frame), dtype=bool)


def _table(frame: pd.DataFrame) -> pd.DataFrame:
    """The level of every cell, by position of the column."""
    return pd.DataFrame({k: _codes(frame.iloc[:, k]) for k in range(frame.shape[1])}, index=range(len(frame)))


def named_rows(rows: Sequence[int] | NDArray[np.intp]) -> str:
    """Positions from 0 as data rows for a message, the first of many."""
    first = ", ".join(str(int(row) + 1) for row in rows[:_MOST_NAMED])
    return f"data row{'s' if len(rows) > 1 else ''} {first}{', ...' if len(rows) > _MOST_NAMED else ''}"


def _codes(column: pd.Series[Any]) -> NDArray[np.int64]:
    try:
        return levels(column)
    except TableError:  # lists and the like are equal if they read alike
        return levels(column.map(repr))
