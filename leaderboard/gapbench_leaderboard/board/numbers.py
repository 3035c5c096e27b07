"""One way to write a number, so that no two files of a board can differ in a digit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pandas as pd

from gapbench_leaderboard.board.content import Cells, Json

TableRow = Mapping[Any, Any]
"""A row of a table, by column; pandas does not say of which type its cells are."""


def plain(value: object) -> Json:
    """A cell of a table as a plain Python value.

    Infinities become the texts "inf" and "-inf", which JSON can hold; lone surrogates, which UTF-8 cannot,
    are replaced.

    Returns:
        A bool, int, float or str, None where the cell is missing; of lists and tables, lists and
        dictionaries of such.
    """
    if isinstance(value, str):
        return plain_text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        number = float(value)
        if math.isnan(number):
            return None
        return number if math.isfinite(number) else repr(number)
    if isinstance(value, Mapping):
        return plain_members(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas.NA, pandas.NaT
        return None
    return plain(str(value))


def plain_text(text: str) -> str:
    """A text without lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def plain_members(table: Mapping[Any, object]) -> dict[str, Json]:
    """`plain` of every member."""
    return {plain_text(str(key)): plain(entry) for key, entry in table.items()}


def plain_cells(column: pd.Series[Any]) -> Cells:
    """`plain` of every cell of a column."""
    kind = column.dtype.kind
    if kind in "iu" and isinstance(column.dtype, np.dtype):
        return column.tolist()
    if kind == "f" and isinstance(column.dtype, np.dtype):
        values = column.to_numpy(dtype=np.float64)
        cells = values.tolist()
        for position in np.flatnonzero(~np.isfinite(values)):
            cells[position] = plain(cells[position])
        return cells
    known: dict[str, Json] = {}
    cells = []
    for value in column.tolist():
        if type(value) is str:
            if value not in known:
                known[value] = plain(value)
            cells.append(known[value])
        else:
            cells.append(plain(value))
    return cells


def exact(value: object) -> str:
    """The text of a cell in full precision: `repr` of floats, which reads back as the same number."""
    value = plain(value)
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def rounded(value: object, digits: int = 3) -> str:
    """A number rounded for people.

    Ties go away from zero, as in the page's script: tau is a fraction, so that ties such as 0.3125 occur.

    Returns:
        The number with so many decimal digits, without a minus before zero; an en dash where it is
        missing.
    """
    value = plain(value)
    if not isinstance(value, int | float):
        return str(value or "–")
    with localcontext(prec=400, rounding=ROUND_HALF_UP):
        text = f"{Decimal(value):.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text
