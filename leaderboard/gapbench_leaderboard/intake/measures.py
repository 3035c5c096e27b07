"""Which columns of a table are measures, where nobody said so; and why the others are none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.intake.outcomes import differences, is_outcome, is_seed, of_training, same_as_target
from gapbench_leaderboard.intake.row_numbers import counts_rows, is_unnamed
from gapbench_leaderboard.statistics.cells import NumberFormat, nearly, remedy
from gapbench_leaderboard.statistics.quantities import Quantity, quantity

NAME_THEM = "--measures can name them"


def default_measures(
    frame: pd.DataFrame,
    used: Collection[object],
    style: NumberFormat | None = None,
    target: NDArray[np.float64] | None = None,
    places: NDArray[np.intp] | None = None,
    numbering: Collection[object] = (),
) -> tuple[list[str], list[str]]:
    """The numeric columns that have no other part in the scores, with notes on all that are left out.

    A column that is numbers but for a few cells is not scored: what "diverged" is worth is not for us to say.
    The note names the first such cell, and the option that reads it if there is one. Outcomes on the test set
    are not scored either, by what they are called or by what they hold: the target in other units, or one of two
    columns whose difference is the target.

    Args:
        frame: the rows that are scored.
        used: columns with another part in the scores.
        style: how texts write numbers.
        target: shape (rows,).
        places: of the rows in the whole table, for messages; shape (rows,).
        numbering: columns that number the rows of the whole table.

    Returns:
        The names of the columns that are scored, and the notes.
    """
    names: list[str] = []
    values: dict[str, NDArray[np.float64]] = {}
    notes: list[str] = []
    texts: list[str] = []
    truths: list[str] = []
    for position, name in enumerate(frame.columns):
        if name in used:
            continue
        column = frame.iloc[:, position]
        found = quantity(column, name, style)
        if name in numbering or counts_rows(column, name):
            notes.append(f"not scored: {name!r} numbers the rows; --measures can name it")
        elif len(found.words) + found.empty == len(frame):
            notes.append(f"not scored: {name!r} is empty in every row")
        elif is_unnamed(name):
            notes.append(f"not scored: {name!r} has no heading; --measures can name it")
        elif _truth(column):
            truths.append(str(name))
        elif not found.unreadable:
            names.append(str(name))
            values[str(name)] = found.values
        elif (named := _named(found, style)) is not None:
            notes.append(f"not scored: {named.at(places).complaint(name, style)}")
        else:
            texts.append(str(name))
    if truths:
        notes.append(f"not scored: {', '.join(truths)} (true or false)")
    if texts:
        notes.append(f"not scored: {', '.join(texts)} (text)")
    elsewhere = {
        str(name): found.values
        for name in frame.columns
        if name in used and not (found := quantity(frame[name], name, style)).unreadable
    }
    outcomes = _outcomes(names, values, elsewhere, target)
    return [name for name in names if name not in outcomes.left_out], [*outcomes.notes, *notes]


@dataclass(frozen=True)
class _Outcomes:
    left_out: frozenset[str]
    notes: tuple[str, ...]


def _outcomes(
    names: Sequence[str],
    values: Mapping[str, NDArray[np.float64]],
    elsewhere: Mapping[str, NDArray[np.float64]],
    target: NDArray[np.float64] | None,
) -> _Outcomes:
    """What is to be predicted under other names, and seeds; `elsewhere`: numbers with another part."""
    called = [name for name in names if is_seed(name) or is_outcome(name)]
    notes = []
    if called:
        why = f"outcomes and seeds are no measures of a network; {NAME_THEM}"
        notes.append(f"not scored: {', '.join(called)} ({why})")
    if target is None:
        return _Outcomes(frozenset(called), tuple(notes))
    same = [name for name in names if name not in called and same_as_target(values[name], target)]
    if same:
        notes.append(f"not scored: {', '.join(same)} (the target in every row, but for units; {NAME_THEM})")
    others = {name: values[name] for name in names if name not in same}
    others |= {name: own for name, own in elsewhere.items() if not same_as_target(own, target)}
    made: list[str] = []
    for first, second, scale in differences(others, target):
        outcome = [name for name in (first, second) if not of_training(name)] or [first, second]
        left_out = [name for name in outcome if name in values]
        for name in names:
            if name not in (first, second, *called, *made) and any(
                same_as_target(values[name], others[one]) for one in outcome
            ):
                left_out.append(name)
        made += left_out
        times = "" if scale == 1 else f"{scale:g} times "
        if set(left_out) - set(called):
            notes.append(
                f"not scored: {', '.join(left_out)} ({first} - {second} is {times}the target in every row: an "
                f"outcome on the test set; {NAME_THEM})"
            )
    return _Outcomes(frozenset([*called, *same, *made]), tuple(notes))


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
