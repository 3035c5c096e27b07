"""Scores of a researcher's own table: one row per network, columns for axes, measures and the target."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.intake.copies import copies, named_rows
from gapbench_leaderboard.intake.spelling import axis_values, own_order
from gapbench_leaderboard.scoring.decision import PopulationDecision, decide
from gapbench_leaderboard.scoring.population_scores import score_population
from gapbench_leaderboard.scoring.registry import estimators
from gapbench_leaderboard.scoring.rows import COLUMNS
from gapbench_leaderboard.scoring.study import FRACTIONS, LOG_PARAMETERS, check_problem
from gapbench_leaderboard.scoring.table_checks import check_names, refuse_large_targets, refuse_shared_seeds
from gapbench_leaderboard.scoring.table_notes import notes, renamed_headings, unnamed_problem
from gapbench_leaderboard.statistics.cells import NumberFormat
from gapbench_leaderboard.statistics.configurations import (
    TableError,
)
from gapbench_leaderboard.statistics.quantities import Quantity, levels, quantity

TASK = "table"
OWN = (
    "cell", "task", "family", "width", "status", "seed", "parameters", "test_size", "test_error", "gap",
    LOG_PARAMETERS,
)  # fmt: skip
"""Columns that `score_population` reads: a table may use the names for something else."""


def score_table(
    frame: pd.DataFrame,
    measures: Sequence[str],
    target: str = "gap",
    axes: Sequence[str] = (),
    seed_column: str | None = None,
    test_size: int | None = None,
    *,
    problem: Sequence[str] = (),
    strata: Sequence[str] | None = None,
    given: Sequence[str] | None = None,
    higher_means: Mapping[str, str] | None = None,
    test_error: str | None = None,
    replicates: int = 1000,
    pair_replicates: int = 200,
    prediction_replicates: int = 50,
    seed: int = 0,
    workers: int | None = None,
) -> pd.DataFrame:
    """Score the measures of any table of networks with all estimators.

    The table is one task of one family: name a column of families in `strata` to look within them. It is one
    problem, too, unless `problem` names the axes that change the data. The scores
    depend neither on the order of the rows nor on how the levels of axes are spelled ("NA" and "None" are
    levels like others). Words such as "NA" in a measure or in the target count as missing, and a note says so.
    Rows that equal another in every column are left out, unless a seed column is named.

    Args:
        frame: one row per network.
        measures: columns to be scored.
        target: column to be predicted, larger is worse.
        axes: hyper-parameters; rows that agree on all of them are seeds of one configuration.
        seed_column: the seeds, so that a row given twice is refused; without it equal axes mean further seeds.
        test_size: number of test examples behind the target, a fraction: needed by the robust sign error,
            `tau_true_gap` and the network ceiling.
        problem: those of the axes that change the data learned from (training size, label noise, data seed): only
            networks that agree on them are compared by the headline and by all that stands beside it but the pooled
            coefficients. Not guessed: where an axis is called so and is not named, a note says that it can be.
        strata: columns of the within-stratum tau and the Simpson flag; without it the axis, if there is a
            single one. Every axis is held fixed by itself in any case (`tau_within:<axis>`).
        given: columns held fixed by partial tau.
        higher_means: "worse" (the default) or "better" for each measure.
        test_error: column of test errors, for the size of the test noise; without it the target itself is
            taken for it, as if the training error were 0.
        replicates: as in `score_population`, like the following.
        pair_replicates: likewise.
        prediction_replicates: likewise.
        seed: likewise.
        workers: likewise.

    Returns:
        The long form of `score_population` with empty `task` and `family`; `attrs["notes"]` lists what a
        reader should know of the table (see `notes`), those of `read_table` first; `attrs["decision"]` is what
        its networks can decide, `attrs["rows"]` counts all rows that were given.

    Raises:
        TableError: for missing columns, duplicated configuration and seed, text in numeric columns, no
            measures or axes, a measure that is the target or has the name of a row that the scorer adds.
    """
    if strata is None and len(axes) == 1 and not isinstance(axes, str):
        strata = list(axes)
    check_names(frame, measures, target, axes, seed_column, test_size, strata, given, test_error)
    check_problem(problem, axes)
    remarks = [*frame.attrs.get("notes", ()), *renamed_headings(frame)]
    style = frame.attrs.get("numbers")
    rows, first = len(frame), _without_copies(frame, axes, seed_column, remarks)
    frame = frame.iloc[first].reset_index(drop=True)
    wanted = [target, *measures, *([test_error] if test_error else [])]
    columns = _quantities(frame, wanted, first, style, remarks)
    refuse_large_targets(columns[target], target, test_size)
    values = {name: _exact(found) for name, found in columns.items()}
    remarks += _missing_words(frame, [name for name in given or () if name not in [*axes, *(strata or ())]])
    remarks += notes(frame, measures, target, axes, values)
    remarks += unnamed_problem(frame, axes, problem)
    fixed = list(dict.fromkeys([*axes, *(strata or ()), *(given or ())]))
    compared = [values[target], *(values[name] for name in sorted(values, key=str) if name != target)]
    order = own_order(compared, [levels(frame[column], column) for column in fixed])
    frame = frame.iloc[order].reset_index(drop=True)
    values = {name: own[order] for name, own in values.items()}
    population, names = _population(frame, values, target, axes, strata, given, test_size, test_error)
    scores = score_population(
        population,
        _measurements(population, values, measures),
        targets=[names.target],
        axes=[names.level[axis] for axis in axes],
        problem=[names.level[axis] for axis in problem],
        seed_column="",
        replicates=replicates,
        seed=seed,
        higher_means={str(name): direction for name, direction in (higher_means or {}).items()},
        strata=[names.level[column] for column in strata or ()],
        given=[names.given[column] for column in given or ()],
        baselines=(),
        pair_replicates=pair_replicates,
        prediction_replicates=prediction_replicates,
        workers=workers,
    )
    table = _as_table(scores, target, names, remarks, rows)
    table.attrs["decision"] = _decided(population, frame, scores, axes, problem, target, names)
    return table


def _decided(
    population: pd.DataFrame,
    frame: pd.DataFrame,
    scores: pd.DataFrame,
    axes: Sequence[str],
    problem: Sequence[str],
    target: str,
    names: _Names,
) -> PopulationDecision:
    """What the table's networks can decide, under the names of the researcher's columns and levels."""
    population = population.assign(
        **{names.level[axis]: frame[axis].astype(object).to_numpy() for axis in axes}
    )
    called = {inside: str(axis) for axis, inside in names.level.items()}
    return decide(
        population,
        scores,
        [names.level[axis] for axis in axes],
        [names.level[axis] for axis in problem],
        target=names.target,
        labels={names.target: str(target), TASK: "", **called},
    )


def _missing_words(frame: pd.DataFrame, given: Sequence[str]) -> list[str]:
    """What is said of words among the numbers that are held fixed."""
    found = {column: quantity(frame[column], column) for column in given}
    return [
        f"{column}: {len(own.words)} words such as {own.words[0][1]!r} are taken as missing"
        for column, own in found.items()
        if own.words and not own.unreadable
    ]


def _without_copies(
    frame: pd.DataFrame, axes: Sequence[str], seed_column: str | None, remarks: list[str]
) -> NDArray[np.intp]:
    """Places of the rows that are scored: all with a seed column, else those that equal none before them."""
    if seed_column is not None:
        refuse_shared_seeds(frame, axes, seed_column)
        return np.arange(len(frame))
    twice = copies(frame)
    if twice.any():
        rows = np.flatnonzero(twice)
        remarks.append(
            f"{len(rows)} rows equal another in every column ({named_rows(rows)}) and are left out: copies "
            "would pass for seeds without any spread"
        )
    return np.flatnonzero(~twice)


class _Names:
    """What columns of a researcher's table are called inside: by number, so that no two names can collide."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.level: dict[Hashable, str] = {}
        self.given: dict[Hashable, str] = {}

    def taken(self) -> set[str]:
        return {self.target, *OWN, *self.level.values(), *self.given.values()}

    def new(self) -> str:
        """A name that nothing has."""
        taken = self.taken()
        return next(name for k in range(len(taken) + 1) if (name := f"column {k}") not in taken)


def _population(
    frame: pd.DataFrame,
    values: Mapping[str, NDArray[np.float64]],
    target: str,
    axes: Sequence[str],
    strata: Sequence[str] | None,
    given: Sequence[str] | None,
    test_size: int | None,
    test_error: str | None,
) -> tuple[pd.DataFrame, _Names]:
    """The table as a population of one task, and the names of its columns."""
    inside = "gap" if test_size is not None else str(target)
    names = _Names(f"axis:{inside}" if inside in OWN and inside not in FRACTIONS else inside)
    made: dict[str, object] = {names.target: values[target]}
    for column in dict.fromkeys([*axes, *(strata or ())]):
        names.level[column] = names.new()
        made[names.level[column]] = axis_values(frame[column], values[target]).to_numpy()
    for column in dict.fromkeys(given or ()):
        found = quantity(frame[column], column)
        names.given[column] = names.new()
        number = not found.unreadable and np.isfinite(found.values).any() and not _is_truth(frame[column])
        own = found.values if number else axis_values(frame[column], values[target]).to_numpy()
        made[names.given[column]] = own
    cells = [f"{number:0{len(str(len(frame)))}d}" for number in range(len(frame))]
    made |= {"task": TASK, "status": "converged", "cell": cells}
    if test_size is not None:
        made["test_size"] = test_size
        made["test_error"] = np.clip(values[test_error if test_error is not None else target], 0.0, 1.0)
    return pd.DataFrame(made, index=frame.index), names


def _measurements(
    population: pd.DataFrame, values: Mapping[str, NDArray[np.float64]], measures: Sequence[str]
) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"cell": population["cell"], "proxy": str(name), "value": values[name], "status": "ok"})
        for name in measures
    ]
    return pd.concat(parts, ignore_index=True)


def _is_truth(column: pd.Series) -> bool:
    return all(isinstance(cell, bool | np.bool_) for cell in column.dropna())


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
        found = quantity(frame[name], name, style)
        if found.unreadable:
            whole = [(int(rows[row]), cell) for row, cell in found.unreadable]
            raise TableError(Quantity(found.values, unreadable=tuple(whole)).complaint(name, style))
        by_word: dict[str, list[int]] = {}
        for row, word in found.words:
            by_word.setdefault(word, []).append(int(rows[row]))
        if by_word:
            said = "; ".join(f"{len(at)} read {word!r} ({named_rows(at)})" for word, at in by_word.items())
            remarks.append(f"{name}: {said}: suspicious in a column of numbers, and taken as missing")
        if found.merged is not None:
            one, other = (int(rows[row]) for row in found.merged)
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


def _as_table(
    scores: pd.DataFrame, target: str, names: _Names, remarks: Sequence[str], rows: int
) -> pd.DataFrame:
    """The rows of the only task, under the names of the researcher's columns."""
    own = scores[scores["task"] == TASK].assign(task="")
    overall = scores[scores["task"] == ""]
    keys = ["proxy", "estimator"]
    seen = pd.MultiIndex.from_frame(own[keys])
    extra = overall[~pd.MultiIndex.from_frame(overall[keys]).isin(seen)]
    table = pd.concat([own, extra], ignore_index=True).assign(family="", target=target)
    renamed = {f"left_out:{names.target} not finite": f"left_out:{target} not finite"}
    by_axis = [known for known in estimators() if known.each == "axis"]
    labels = [known.name for known in by_axis] + [f"pairs:{known.name}" for known in by_axis if known.counted]
    for axis, inside in names.level.items():
        renamed |= {f"{label}:{inside}": f"{label}:{axis}" for label in labels}
    table["estimator"] = [renamed.get(name, name) for name in table["estimator"]]
    table = table[COLUMNS].reset_index(drop=True)
    table.attrs |= {"notes": list(remarks), "rows": rows}
    return table
