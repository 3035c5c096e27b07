"""Cells of one column, as a file has them, as a column of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from gapbench_leaderboard.statistics.cells import NumberFormat, is_empty, is_missing
from gapbench_leaderboard.statistics.quantities import EXACT, shown

_TRUTH = {"true": True, "false": False}
_INT64 = range(-(2**63), 2**63)


def column_of(
    name: str, cells: Sequence[object], style: NumberFormat, as_text: bool = False, parse: bool = True
) -> tuple[pd.Series[Any], list[str]]:
    """A column of cells that were read from a file.

    Numbers only: int64 or float64, or exact Python integers where these would round. True and false only:
    bool. Words that mean "missing" stay words ("NA" may be a level of an axis); empty cells are NaN.

    Args:
        name: of the column.
        cells: texts, or values where the kind of file has them.
        style: how numbers are written in texts.
        as_text: no cell is a number, whatever it looks like.
        parse: whether texts may be numbers; False where the file tells texts from numbers.

    Returns:
        The column, and notes on it.
    """
    if as_text:
        texts = [float("nan") if is_empty(cell) else str(cell).strip() for cell in cells]
        return pd.Series(texts, dtype=object if all(map(is_empty, texts)) else None), []
    notes: list[str] = []
    values = [_value(cell, style) if parse else cell for cell in cells]
    if style.percent:
        notes = _mixed_percentages(name, cells, values, style)
        if notes:
            values = list(cells)
    present = [value for value in values if not is_empty(value)]
    if (
        all(isinstance(value, str) and value.strip().lower() in _TRUTH for value in present)
        and present
        and parse
    ):
        values = [v if is_empty(v) else _TRUTH[str(v).strip().lower()] for v in values]
        present = [value for value in values if not is_empty(value)]
    numeric = [isinstance(v, int | float | np.number) and not isinstance(v, bool | np.bool_) for v in present]
    if all(numeric):
        return _numbers(values, present), notes
    stays = style == NumberFormat() and any(
        isinstance(value, str) and not is_missing(value) for value in present
    )  # among other words, a number may be a name: 1.10 is not 1.1
    kept = [
        float("nan") if is_empty(value) else _text(cell) if stays and isinstance(cell, str) else _text(value)
        for value, cell in zip(values, cells)
    ]
    if all(isinstance(value, bool) for value in kept):
        return pd.Series(kept, dtype=bool), notes
    alike = all(isinstance(value, str) or is_empty(value) for value in kept)
    return pd.Series(kept, dtype=None if alike else object), notes


def _value(cell: object, style: NumberFormat) -> object:
    if not isinstance(cell, str) or not cell.strip():
        return cell
    number = style.read(cell)
    return cell if number is None else number


def _text(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _numbers(values: Sequence[object], present: Sequence[object]) -> pd.Series[Any]:
    whole = [int(value) for value in present if isinstance(value, int | np.integer)]
    if len(whole) == len(present) == len(values) and all(value in _INT64 for value in whole):
        return pd.Series(values, dtype=np.int64)
    large = any(abs(value) > EXACT for value in whole)
    filled = [float("nan") if is_empty(value) else value for value in values]
    return pd.Series(filled, dtype=object if large else np.float64)


def _mixed_percentages(
    name: str, cells: Sequence[object], values: Sequence[object], style: NumberFormat
) -> list[str]:
    """A column of percentages in which some number has no percent sign cannot be trusted."""
    shares = [isinstance(cell, str) and style.is_percentage(cell) for cell in cells]
    plain = [
        row
        for row, (share, value) in enumerate(zip(shares, values))
        if not share and isinstance(value, int | float) and value == value and value != 0
    ]
    if not any(shares) or not plain:
        return []
    return [
        f"{name} mixes percentages and numbers without a percent sign (first {shown(cells[plain[0]])} in data row "
        f"{plain[0] + 1}): it is read as text"
    ]
