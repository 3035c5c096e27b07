"""Rows that a table holds more than once: they would pass for seeds without any spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_base.errors import TableError
from gapbench_leaderboard.intake.row_numbers import row_numbers
from gapbench_leaderboard.statistics.quantities import levels

_MOST_NAMED = 10


def copies(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """Rows that equal an earlier one in every column but those that number the rows, shape (rows,).

    What numbers the rows is told without those that are repeated as a whole: their numbers are repeated, too.

    Returns:
        True from the second of equal rows on.
    """
    codes = [_codes(frame.iloc[:, k]) for k in range(frame.shape[1])]
    if not codes:
        return np.zeros(len(frame), dtype=bool)
    table = pd.DataFrame(np.column_stack(codes))
    numbering = set(row_numbers(frame[~table.duplicated().to_numpy()]))
    kept = [k for k, name in enumerate(frame.columns) if name not in numbering]
    return table[kept].duplicated().to_numpy() if kept else np.zeros(len(frame), dtype=bool)


def named_rows(rows: Sequence[int] | NDArray[np.intp]) -> str:
    """Positions from 0 as data rows for a message, the first of many."""
    first = ", ".join(str(int(row) + 1) for row in rows[:_MOST_NAMED])
    return f"data row{'s' if len(rows) > 1 else ''} {first}{', ...' if len(rows) > _MOST_NAMED else ''}"


def _codes(column: pd.Series[Any]) -> NDArray[np.int64]:
    try:
        return levels(column)
    except TableError:  # lists and the like are equal if they read alike
        return levels(column.map(repr))
