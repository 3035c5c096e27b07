"""Scores of a researcher's own table: one row per network, columns for axes, measures and the target."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.intake.selecting import Only
from gapbench_leaderboard.intake.spelling import axis_values
from gapbench_leaderboard.scoring.decision import PopulationDecision, decide
from gapbench_leaderboard.scoring.held_fixed import matching_columns
from gapbench_leaderboard.scoring.population_scores import score_population
from gapbench_leaderboard.scoring.registry import estimators
from gapbench_leaderboard.scoring.rows import COLUMNS
from gapbench_leaderboard.scoring.study import FRACTIONS, LOG_PARAMETERS, check_problem
from gapbench_leaderboard.scoring.table_checks import check_names
from gapbench_leaderboard.scoring.table_rows import Roles, ScoredRows, scored_rows

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
    width: str | None = None,
    only: Only | None = None,
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
        frame: one row per network; none of its columns but those named here has a part in the scores.
        measures: columns to be scored.
        target: column to be predicted, larger is worse.
        axes: hyper-parameters; rows that agree on all of them are seeds of one configuration.
        seed_column: the seeds, so that a row given twice is refused; without it equal axes mean further seeds.
        test_size: number of test examples behind the target, a fraction: needed by the robust sign error,
            `tau_true_gap` and the network ceiling.
        problem: those of the axes that change the data learned from (training size, label noise, data seed): only
            networks that agree on them are compared by the headline and by all that stands beside it but the pooled
            coefficients. Not guessed: where an axis is called so and is not named, a note says that it can be.
        strata: columns of the within-stratum tau and the Simpson flag; without it the width, if it is named, or the
            axis, if there is a single one. Every axis is held fixed by itself in any case (`tau_within:<axis>`).
        given: columns held fixed by partial tau. Pairs match on a column of words or of values that recur (see
            `held_fixed`) if they are equal; on any other if they differ by at most 0.2 standard deviations of its
            values, or of their logarithms where all are positive. A note says which.
        higher_means: "worse" (the default) or "better" for each measure.
        test_error: column of test errors, for the size of the test noise; without it the column `test_error`, if
            it has no other part and holds fractions, else the target itself, as if the training error were 0.
        width: the axis that is the networks' width: adds `tau_with_width` and the baseline `width`.
        only: column -> values: other rows are left out.
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
    if strata is None and not isinstance(axes, str):
        strata = [width] if width is not None else list(axes) if len(axes) == 1 else None
    check_names(frame, measures, target, axes, seed_column, test_size, strata, given, test_error)
    check_problem(problem, axes)
    columns = (*(strata or ()),), tuple(dict.fromkeys(given or ())), tuple(problem)
    roles = Roles(target, tuple(measures), tuple(axes), *columns, seed_column, test_size, test_error, width)
    rows, table = len(frame), scored_rows(frame, roles, only or {})
    population, names = _population(table, roles)
    scores = score_population(
        population,
        _measurements(population, table.values, measures),
        targets=[names.target],
        axes=[names.level[axis] for axis in axes],
        problem=[names.level[axis] for axis in problem],
        seed_column="",
        replicates=replicates,
        seed=seed,
        higher_means={str(name): direction for name, direction in (higher_means or {}).items()},
        strata=[names.level[column] for column in strata or ()],
        given=names.given,
        baselines=(),
        pair_replicates=pair_replicates,
        prediction_replicates=prediction_replicates,
        workers=workers,
    )
    found = _as_table(scores, target, names, table.remarks, rows)
    found.attrs["decision"] = _decided(population, table.frame, scores, axes, problem, target, names)
    return found


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


class _Names:
    """What columns of a researcher's table are called inside: by number, so that no two names can collide."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.level: dict[Hashable, str] = {}
        self.given: list[str] = []

    def taken(self) -> set[str]:
        return {self.target, *OWN, *self.level.values(), *self.given}

    def new(self) -> str:
        """A name that nothing has."""
        taken = self.taken()
        return next(name for k in range(len(taken) + 1) if (name := f"column {k}") not in taken)


def _population(table: ScoredRows, roles: Roles) -> tuple[pd.DataFrame, _Names]:
    """The table as a population of one task, and the names of its columns; the width is called so inside."""
    frame, values, target = table.frame, table.values, roles.target
    inside = "gap" if roles.test_size is not None else str(target)
    names = _Names(f"axis:{inside}" if inside in OWN and inside not in FRACTIONS else inside)
    made: dict[str, object] = {names.target: values[target]}
    for column in dict.fromkeys([*roles.axes, *roles.strata]):
        names.level[column] = names.new() if column != roles.width else "width"
        made[names.level[column]] = axis_values(frame[column], values[target]).to_numpy()
    for own in table.held:
        for matched in matching_columns(frame[own.column], own, values[target], own.column in names.level):
            names.given.append(names.new())
            made[names.given[-1]] = matched
    cells = [f"{number:0{len(str(len(frame)))}d}" for number in range(len(frame))]
    made |= {"task": TASK, "status": "converged", "cell": cells}
    if roles.test_size is not None:
        made["test_size"] = roles.test_size
        made["test_error"] = np.clip(
            values[target if table.test_error is None else table.test_error], 0.0, 1.0
        )
    return pd.DataFrame(made, index=frame.index), names


def _measurements(
    population: pd.DataFrame, values: Mapping[str, NDArray[np.float64]], measures: Sequence[str]
) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"cell": population["cell"], "proxy": str(name), "value": values[name], "status": "ok"})
        for name in measures
    ]
    return pd.concat(parts, ignore_index=True)


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
