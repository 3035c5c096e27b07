"""Which columns of a table are measures, where nobody said so; and why the others are none."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gapbench_leaderboard.intake.row_numbers import counts_rows, is_unnamed
from gapbench_leaderboard.statistics.cells import NumberFormat, nearly, remedy
from gapbench_leaderboard.statistics.quantities import Quantity, quantity


def default_measures(
    frame: pd.DataFrame, used: Collection[object], style: NumberFormat | None = None
) -> tuple[list[str], list[str]]:
    """The numeric columns that have no other part in the scores, with notes on all that are left out.

    A column that is numbers but for a few cells is not scored: what "diverged" is worth is not for us to say.
    The note names the first such cell, and the option that reads it if there is one.

    Returns:
        The names of the columns that are scored, and the notes.
    """
    names: list[str] = []
    notes: list[str] = []
    texts: list[str] = []
    truths: list[str] = []
    for position, name in enumerate(frame.columns):
        if name in used:
            continue
        column = frame.iloc[:, position]
        found = quantity(column, name, style)
        if counts_rows(column, name):
            notes.append(f"not scored: {name!r} numbers the rows; --measures can name it")
        elif len(found.words) + found.empty == len(frame):
            notes.append(f"not scored: {name!r} is empty in every row")
        elif is_unnamed(name):
            notes.append(f"not scored: {name!r} has no heading; --measures can name it")
        elif _truth(column):
            truths.append(str(name))
        elif not found.unreadable:
            names.append(str(name))
        elif (named := _named(found, style)) is not None:
            notes.append(f"not scored: {named.complaint(name, style)}")
        else:
            texts.append(str(name))
    if truths:
        notes.append(f"not scored: {', '.join(truths)} (true or false)")
    if texts:
        notes.append(f"not scored: {', '.join(texts)} (text)")
    return names, notes


def _named(found: Quantity, style: NumberFormat | None) -> Quantity | None:
    """The column with a cell first that an option reads, or any if others are numbers; None for plain text."""
    for cell in found.unreadable:
        if nearly(cell[1]) or (isinstance(cell[1], str) and "--" in remedy(cell[1], style)):
            return replace(
                found, unreadable=(cell, *(other for other in found.unreadable if other is not cell))
            )
    return found if np.isfinite(found.values).any() else None


def _truth(column: pd.Series[Any]) -> bool:
    present = column.dropna()
    return pd.api.types.is_bool_dtype(column) or (
        len(present) > 0 and all(isinstance(cell, bool | np.bool_) for cell in present)
    )
