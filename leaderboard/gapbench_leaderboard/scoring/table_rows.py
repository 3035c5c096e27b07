"""The rows of a researcher's table that are scored, as numbers, with what is to be said of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_base.errors import TableError
from gapbench_leaderboard.intake.copies import named_rows
from gapbench_leaderboard.intake.selecting import Only, kept_rows, notes_on_rows, standing_of_rows
from gapbench_leaderboard.intake.spelling import own_order
from gapbench_leaderboard.scoring.held_fixed import HeldFixed, held_fixed
from gapbench_leaderboard.scoring.table_checks import (
    refuse_large_targets,
    refuse_no_fractions,
    refuse_no_width,
    refuse_shared_seeds,
)
from gapbench_leaderboard.scoring.table_notes import (
    errors_behind,
    notes,
    renamed_headings,
    turned_target,
    unnamed_problem,
    unnamed_width,
)
from gapbench_leaderboard.statistics.cells import NumberFormat
from gapbench_leaderboard.statistics.configurations import axis_codes, group_codes
from gapbench_leaderboard.statistics.quantities import Quantity, levels, quantity


@dataclass(frozen=True)
class Roles:
    """Which part each column of a table has; see `score_table`."""

    target: str
    measures: tuple[str, ...]
    axes: tuple[str, ...]
    strata: tuple[str, ...]
    given: tuple[str, ...]
    problem: tuple[str, ...]
    seed_column: str | None
    test_size: int | None
    test_error: str | None
    width: str | None

    @property
    def columns(self) -> set[str | None]:
        """All columns that have one."""
        single = (self.target, self.seed_column, self.test_error)
        return {*single, *self.measures, *self.axes, *self.strata, *self.given}


@dataclass(frozen=True)
class ScoredRows:
    """The rows that are scored, in an order of their own.

    Attributes:
        frame: the columns as they came.
        values: target, measures and test errors as numbers, each of shape (rows,).
        held: how pairs match on the columns held fixed.
        test_error: the column of test errors, named or found.
        remarks: what a reader should know.
    """

    frame: pd.DataFrame
    values: Mapping[str, NDArray[np.float64]]
    held: tuple[HeldFixed, ...]
    test_error: str | None
    remarks: tuple[str, ...]


def scored_rows(frame: pd.DataFrame, roles: Roles, only: Only) -> ScoredRows:
    """The rows of a table that are scored.

    Args:
        frame: one row per network.
        roles: of its columns, all of which are there.
        only: column -> values whose rows are scored.

    Returns:
        The rows, in an order that depends neither on theirs in the table nor on how levels are spelled.

    Raises:
        TableError: for what no statistics can be made of; see `score_table`.
    """
    target, axes, test_error = roles.target, roles.axes, roles.test_error
    if roles.width is not None:
        refuse_no_width(frame, roles.width, axes, roles.measures)
    remarks = [*frame.attrs.get("notes", ()), *renamed_headings(frame)]
    said = standing_of_rows(frame, only, roles.seed_column is None)
    places = kept_rows(said)
    if roles.seed_column is not None:
        refuse_shared_seeds(frame.iloc[places], axes, roles.seed_column)
    remarks += notes_on_rows(frame, said, roles.columns, only)
    style = frame.attrs.get("numbers")
    if roles.test_size is not None and test_error is None:
        test_error, found = errors_behind(frame, target, roles.columns)
        remarks.append(found)
    frame = frame.iloc[places].reset_index(drop=True)
    wanted = [target, *roles.measures, *([test_error] if test_error is not None else [])]
    columns = _quantities(frame, wanted, places, style, remarks)
    refuse_large_targets(columns[target], target, roles.test_size)
    if test_error is not None:
        refuse_no_fractions(columns[test_error], test_error, places)
    values = {name: _exact(found) for name, found in columns.items()}
    free = [name for name in roles.given if name not in (*axes, *roles.strata)]
    remarks += _missing_words(frame, free)
    remarks += notes(frame, roles.measures, target, axes, values)
    remarks += unnamed_problem(frame, axes, roles.problem)
    remarks += [*unnamed_width(axes, roles.width), *turned_target(target)]
    held = tuple(held_fixed(frame[name], name, _configurations(frame, axes, name)) for name in roles.given)
    remarks += [own.note for own in held]
    fixed = list(dict.fromkeys([*axes, *roles.strata, *roles.given]))
    compared = [values[target], *(values[name] for name in sorted(values, key=str) if name != target)]
    order = own_order(compared, [levels(frame[column], column) for column in fixed])
    return ScoredRows(
        frame=frame.iloc[order].reset_index(drop=True),
        values={name: own[order] for name, own in values.items()},
        held=held,
        test_error=test_error,
        remarks=tuple(remarks),
    )


def _missing_words(frame: pd.DataFrame, given: Sequence[str]) -> list[str]:
    """What is said of words among the numbers that are held fixed."""
    found = {column: quantity(frame[column], column) for column in given}
    return [
        f"{column}: {len(own.words)} words such as {own.words[0][1]!r} are taken as missing"
        for column, own in found.items()
        if own.words and not own.unreadable
    ]


def _configurations(frame: pd.DataFrame, axes: Sequence[str], held: Hashable) -> int:
    """How many groups of networks a column that is held fixed could tell apart: rows where it is the only axis."""
    return len(frame) if list(axes) == [held] else len(np.unique(group_codes(axis_codes(frame, axes))))


def _quantities(
    frame: pd.DataFrame,
    names: Sequence[str],
    rows: NDArray[np.intp],
    style: NumberFormat | None,
    remarks: list[str],
) -> dict[str, Quantity]:
    """The columns as numbers; what is suspicious about them goes to `remarks`. `rows`: places in the table."""
    result = {}
    for name in dict.fromkeys(names):
        found = quantity(frame[name], name, style).at(rows)
        if found.unreadable:
            raise TableError(found.complaint(name, style))
        by_word: dict[str, list[int]] = {}
        for row, word in found.words:
            by_word.setdefault(word, []).append(row)
        if by_word:
            said = "; ".join(f"{len(at)} read {word!r} ({named_rows(at)})" for word, at in by_word.items())
            remarks.append(f"{name}: {said}: suspicious in a column of numbers, and taken as missing")
        if found.merged is not None:
            one, other = found.merged
            remarks.append(
                f"{name}: whole numbers beyond 2^53 that differ are equal as floating-point numbers (first in data "
                f"rows {one + 1} and {other + 1}); "
                + (
                    "they are compared exactly, less the smallest"
                    if found.shifted is not None
                    else "they count as ties"
                )
            )
        result[name] = found
    return result


def _exact(found: Quantity) -> NDArray[np.float64]:
    return found.values if found.shifted is None else found.shifted
