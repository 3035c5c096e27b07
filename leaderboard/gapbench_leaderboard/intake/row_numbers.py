"""Columns that number the rows of a table, or hold nothing: no measures, whoever wrote them."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd

from gapbench_leaderboard.statistics.quantities import quantity

_UNNAMED = re.compile(r"unnamed: ?\d+(_level_\d+)?(\.\d+)*", re.IGNORECASE)
_INDEX = re.compile(r"index|level_\d+", re.IGNORECASE)
_NUMBERING = re.compile(r"id|row|row_?(id|number|index)|no\.?|nr\.?|#|\.\.\.1|x\.?1?", re.IGNORECASE)
"""What R and spreadsheets call a column of row numbers."""


def is_unnamed(name: object) -> bool:
    """True for a column without a heading, and for the names that pandas gives to it."""
    return not str(name).strip() or _UNNAMED.fullmatch(str(name).strip()) is not None


def counts_rows(series: pd.Series[Any], name: object) -> bool:
    """Whether a column numbers the rows, sorted since or not.

    Without a heading, and under pandas' own names for an index, any distinct whole numbers do (a part of a
    table keeps the numbers of its rows); under other names that are used for it, those from 0 or 1 on.

    Returns:
        True for such a column.
    """
    found = quantity(series, name)
    values = found.values
    whole = np.isfinite(values).all() and (values == np.floor(values)).all()
    if not len(values) or not whole or len(np.unique(values)) < len(values):
        return False
    if is_unnamed(name) or _INDEX.fullmatch(str(name).strip()):
        return True
    consecutive = values.min() in (0, 1) and values.max() - values.min() == len(values) - 1
    return bool(consecutive) and _NUMBERING.fullmatch(str(name).strip()) is not None


def row_numbers(frame: pd.DataFrame) -> list[Hashable]:
    """The columns of a table that number its rows."""
    return [name for k, name in enumerate(frame.columns) if counts_rows(frame.iloc[:, k], name)]
