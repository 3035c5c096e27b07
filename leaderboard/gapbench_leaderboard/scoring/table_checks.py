"""What of a researcher's table cannot be scored as asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_base.errors import TableError
from gapbench_leaderboard.scoring.baselines import HYPERPARAMETER_ORACLE, NOISY_ORACLE
from gapbench_leaderboard.statistics.configurations import axis_codes, check_axes, require_columns
from gapbench_leaderboard.statistics.quantities import Quantity, quantity

SCORER_ROWS = (HYPERPARAMETER_ORACLE, NOISY_ORACLE)
"""Rows that the scorer adds to every table."""


def check_names(
    frame: pd.DataFrame,
    measures: Sequence[str],
    target: str,
    axes: Sequence[str],
    seed_column: str | None,
    test_size: int | None,
    strata: Sequence[str] | None,
    given: Sequence[str] | None,
    test_error: str | None,
) -> None:
    """Refuse what cannot be scored as asked, whatever the cells hold.

    Raises:
        TableError: see `score_table`.
    """
    if isinstance(measures, str):
        raise TableError(f"measures must be a list of column names, not the string {measures!r}")
    if not len(measures):
        raise TableError("at least one measure is needed")
    check_axes(axes)
    labels = [str(name) for name in measures]
    if len(set(labels)) < len(labels):
        raise TableError(f"a measure is named twice: {', '.join(labels)}")
    for name, columns in (("strata", strata), ("given", given)):
        if isinstance(columns, str):
            raise TableError(f"{name} must be a list of column names, not the string {columns!r}")
    optional = [column for column in (seed_column, test_error) if column is not None]
    require_columns(frame, [target, *measures, *axes, *(strata or ()), *(given or ()), *optional])
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise TableError(f"the table has several columns named {repeated[0]!r}; names must be unique")
    if target in measures:
        raise TableError(f"the target {target!r} cannot be one of the measures")
    for label in labels:
        if label in SCORER_ROWS or not label.strip():
            raise TableError(
                f"a measure cannot be called {label!r}, "
                + (
                    "which every table of scores has a row of; rename the column"
                    if label.strip()
                    else "name it"
                )
            )
    for role, column in (("target", target), ("seed column", seed_column)):
        if column is not None and column in axes:
            raise TableError(f"the {role} {column!r} cannot be one of the axes")
    if test_size is not None and test_size < 1:
        raise TableError(f"test_size must be at least 1, not {test_size}")


def refuse_shared_seeds(frame: pd.DataFrame, axes: Sequence[str], seed_column: str) -> None:
    """Refuse rows that share configuration and seed.

    Raises:
        TableError: if there are any.
    """
    key = [*axes, seed_column]
    codes = pd.DataFrame(axis_codes(frame, key))
    twice = frame[codes.duplicated(keep=False).to_numpy()]
    if len(twice):
        shown = ", ".join(f"{name}={value}" for name, value in twice.iloc[0][key].items())
        raise TableError(f"{len(twice)} rows share their configuration and seed, first: {shown}")


def refuse_large_targets(found: Quantity, target: str, test_size: int | None) -> None:
    """Refuse targets that a test size says are fractions, and that are none.

    Raises:
        TableError: if one is larger than 1, either way.
    """
    if test_size is None:
        return
    outside = np.flatnonzero(np.isfinite(found.values) & (np.abs(found.values) > 1))
    if len(outside):
        raise TableError(
            f"with a test size the target must be a fraction or a difference of fractions, but {target!r} is "
            f"{found.values[outside[0]]:g} in data row {outside[0] + 1}: divide percentages by 100"
        )


def refuse_no_fractions(found: Quantity, column: object, rows: NDArray[np.intp]) -> None:
    """Refuse test errors that are no fractions: what test noise they carry would be wrong. `rows`: places.

    Raises:
        TableError: if one is below 0 or above 1.
    """
    outside = np.flatnonzero(np.isfinite(found.values) & ((found.values < 0) | (found.values > 1)))
    if len(outside):
        raise TableError(
            f"test errors must be fractions between 0 and 1, but {column!r} is {found.values[outside[0]]:g} in "
            f"data row {rows[outside[0]] + 1}: divide percentages by 100"
        )


def refuse_no_width(frame: pd.DataFrame, width: str, axes: Sequence[str], measures: Sequence[str]) -> None:
    """Refuse widths that are no numbers, or no axis (networks of different widths are no seeds of one).

    A measure called `width` would stand in the place of the baseline.

    Raises:
        TableError: if they are.
    """
    if width not in axes:
        raise TableError(f"the width {width!r} must be one of the axes: {', '.join(map(str, axes))}")
    if "width" in map(str, measures):
        raise TableError(
            "a measure cannot be called 'width' where --width names one, which is a baseline of that name: rename "
            "the column, or name the others by --measures"
        )
    found = quantity(frame[width], width)
    if found.words or found.unreadable or not np.isfinite(found.values).all():
        raise TableError(f"the width {width!r} must be a number in every row")
