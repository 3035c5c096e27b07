"""Columns of a researcher's table that partial tau holds fixed: matched exactly, or nearly, and on which scale."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.intake.spelling import axis_values
from gapbench_leaderboard.scoring.table_notes import FEW_LEVELS
from gapbench_leaderboard.statistics.partial import TOLERANCE
from gapbench_leaderboard.statistics.quantities import levels, quantity


@dataclass(frozen=True)
class HeldFixed:
    """How pairs match on a column."""

    column: Hashable
    exact: bool
    """Only if they are equal."""
    logarithm: bool = False
    """If not exact: whether logarithms are compared."""
    number: bool = False

    @property
    def note(self) -> str:
        """What a reader of partial tau should know."""
        if self.exact:
            return f"given {self.column}: pairs match where it is equal"
        scale = "its logarithm, all values being positive," if self.logarithm else "it"
        return (
            f"given {self.column}: its values hardly recur, so pairs match where {scale} differs by at most "
            f"{TOLERANCE:g} standard deviations"
        )


def held_fixed(series: pd.Series[Any], column: Hashable, configurations: int) -> HeldFixed:
    """How a column is held fixed: exactly where its values recur, as those of a width or a depth do.

    A number recurs if it has at most 12 values and on average two networks for each, or if there are on average
    two configurations for each: then nothing is lost by asking for equal ones. Else nearly equal ones match, on
    the scale of the logarithm where all are positive (sizes, times, rates).

    Args:
        series: the column.
        column: its name.
        configurations: how many the table has.

    Returns:
        Exact for words, and for true and false.
    """
    found = quantity(series, column)
    truth = all(isinstance(cell, bool | np.bool_) for cell in series.dropna())
    known = found.values[np.isfinite(found.values)]
    if found.unreadable or truth or not len(known):
        return HeldFixed(column, True)
    if found.merged is not None:  # whole numbers that differ are equal as floating-point numbers
        return HeldFixed(column, True)
    distinct = len(np.unique(known))
    enough = len(known) if distinct <= FEW_LEVELS else configurations
    if 2 * distinct <= enough:
        return HeldFixed(column, True, number=True)
    return HeldFixed(column, False, bool((known > 0).all()), number=True)


def matching_columns(
    series: pd.Series[Any], held: HeldFixed, target: NDArray[np.float64], is_level: bool
) -> list[Any]:
    """The columns on which `matched_pairs` matches as `held` says: numbers nearly, anything else exactly.

    Args:
        series: the column.
        held: how it is held fixed.
        target: as `axis_values` has it.
        is_level: whether an empty cell is a level of its own (of an axis), and not a number that is missing.

    Returns:
        One column, or two where numbers that match exactly are missing: the second says where.
    """
    if not held.number and quantity(series, held.column).merged is not None:
        return [
            np.array([f"level {code:09d}" for code in levels(series, held.column).tolist()], dtype=object)
        ]
    if not held.number:
        return [axis_values(series, target).to_numpy()]
    values = quantity(series, held.column).values
    if not held.exact:
        with np.errstate(invalid="ignore", divide="ignore"):
            return [np.log(values) if held.logarithm else values]
    codes = np.unique(np.where(np.isfinite(values), values, np.inf), return_inverse=True)[1].reshape(-1)
    same: list[Any] = [np.array([f"level {code:09d}" for code in codes.tolist()], dtype=object)]
    missing = ~np.isfinite(values)
    return same if is_level or not missing.any() else [*same, np.where(missing, np.nan, 0.0)]
