"""Scores of a researcher's own table: one row per network, columns for axes, measures and the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from .population_scores import score_population
from .scoring.rows import COLUMNS
from .statistics.configurations import (
    TableError,
    axis_codes,
    check_axes,
    group_codes,
    numeric,
    require_columns,
)

TASK = "table"
FEW_LEVELS = 12
OWN = ("cell", "task", "family", "width", "status")
"""Columns that score_population reads and that a foreign table may use for something else."""


def score_table(
    frame: pd.DataFrame,
    measures: Sequence[str],
    target: str = "gap",
    axes: Sequence[str] = (),
    seed_column: str | None = None,
    test_size: int | None = None,
    *,
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

    The table is one task of one family: name a column of families in `strata` to look within them.

    Args:
        frame: one row per network.
        measures: columns to be scored.
        target: column to be predicted, larger is worse.
        axes: hyper-parameters; rows that agree on all of them are seeds of one configuration.
        seed_column: the seeds, so that a row given twice is found; without it equal axes mean further seeds.
        test_size: number of test examples behind the target, a fraction: needed by the robust sign error,
            `tau_true_gap` and the network ceiling.
        strata: columns of the within-stratum tau and the Simpson flag; without it the axis, if there is a
            single one. Every axis is held fixed by itself in any case (`tau_within:<axis>`).
        given: columns held fixed by partial tau.
        higher_means: "worse" (the default) or "better" for each measure.
        test_error: column of test errors, for the size of the test noise; without it the target itself is
            taken for it, as if the training error were 0.
        replicates, pair_replicates, prediction_replicates, seed, workers: as in `score_population`.

    Returns:
        The long form of `score_population` with empty `task` and `family`; `attrs["notes"]` lists what a
        reader should know of the table (see `notes`).

    Raises:
        TableError: for missing columns, duplicated configuration and seed, text in numeric columns, no
            measures or axes, a measure that is the target.
    """
    if strata is None and len(axes) == 1 and not isinstance(axes, str):
        strata = list(axes)
    check_table(frame, measures, target, axes, seed_column, test_size, strata, given, test_error)
    kept = list(
        dict.fromkeys(
            [target, *axes, *(strata or ()), *(given or ()), *([seed_column] if seed_column else [])]
        )
    )
    renamed = {column: _own_name(column) for column in kept}
    population = frame[kept].rename(columns=renamed).reset_index(drop=True)
    population["cell"] = np.arange(len(frame)).astype(str)
    population["task"], population["status"] = TASK, "converged"
    scored_target = renamed[target]
    if test_size is not None:
        population = population.rename(columns={scored_target: "gap"})
        scored_target = "gap"
        population["test_size"] = test_size
        error = numeric(frame, test_error if test_error is not None else target)
        population["test_error"] = np.clip(error, 0.0, 1.0)
    measurements = pd.concat(
        [
            pd.DataFrame(
                {
                    "cell": population["cell"],
                    "proxy": str(name),
                    "value": numeric(frame, name),
                    "status": "ok",
                }
            )
            for name in measures
        ],
        ignore_index=True,
    )
    scores = score_population(
        population,
        measurements,
        targets=[scored_target],
        axes=[renamed[axis] for axis in axes],
        seed_column=renamed[seed_column] if seed_column else "",
        replicates=replicates,
        seed=seed,
        higher_means=higher_means,
        strata=[renamed[column] for column in strata or ()],
        given=[renamed[column] for column in given or ()],
        baselines=(),
        pair_replicates=pair_replicates,
        prediction_replicates=prediction_replicates,
        workers=workers,
    )
    return _as_table(
        scores, target, {new: old for old, new in renamed.items()}, notes(frame, measures, target, axes)
    )


def check_table(
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
    """Refuse a table that cannot be scored as asked.

    Raises:
        TableError: see `score_table`.
    """
    if isinstance(measures, str):
        raise TableError(f"measures must be a list of column names, not the string {measures!r}")
    if not len(measures):
        raise TableError("at least one measure is needed")
    check_axes(axes)
    if len(set(measures)) < len(measures):
        raise TableError(f"a measure is named twice: {', '.join(measures)}")
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
    for role, column in (("target", target), ("seed column", seed_column)):
        if column is not None and column in axes:
            raise TableError(f"the {role} {column!r} cannot be one of the axes")
    if test_size is not None and test_size < 1:
        raise TableError(f"test_size must be at least 1, not {test_size}")
    for column in [target, *measures]:
        numeric(frame, column)
    if test_size is not None:
        values = numeric(frame, target)
        outside = np.flatnonzero(np.isfinite(values) & (np.abs(values) > 1))
        if len(outside):
            raise TableError(
                f"with a test size the target must be a fraction or a difference of fractions, but {target!r} is "
                f"{values[outside[0]]:g} in data row {outside[0] + 1}"
            )
    if seed_column is not None:
        key = [*axes, seed_column]
        twice = frame[frame.duplicated(key, keep=False)]
        if len(twice):
            shown = ", ".join(f"{name}={value}" for name, value in twice.iloc[0][key].items())
            raise TableError(f"{len(twice)} rows share their configuration and seed, first: {shown}")


def notes(frame: pd.DataFrame, measures: Sequence[str], target: str, axes: Sequence[str]) -> list[str]:
    """What a reader of the scores should know of the table: nothing of this is an error."""
    found = []
    y = numeric(frame, target)
    missing = int((~np.isfinite(y)).sum())
    if missing:
        found.append(f"{missing} of {len(frame)} rows have no finite {target} and are left out")
    known = y[np.isfinite(y)]
    if len(known) < 2:
        found.append(f"fewer than two rows have a finite {target}: there is nothing to rank")
    elif (known == known[0]).all():
        found.append(f"{target} has the same value in every row: there is nothing to rank")
    for name in measures:
        x = numeric(frame, name)[np.isfinite(y)]
        missing = int((~np.isfinite(x)).sum())
        if missing:
            found.append(f"{name}: {missing} of {len(x)} values are not finite and are left out")
    codes = axis_codes(frame, axes)[np.isfinite(y)]
    configurations = len(np.unique(group_codes(codes))) if len(codes) else 0
    levels = [len(np.unique(codes[:, position])) for position in range(len(axes))]
    for axis, count in zip(axes, levels):
        if count <= 1:
            found.append(f"axis {axis} has a single value")
        elif count > FEW_LEVELS and 2 * count > configurations:
            found.append(
                f"axis {axis} is continuous ({count} values in {configurations} configurations): no two "
                "networks agree on it, so it can be neither held fixed nor conditioned on"
            )
    full = int(np.prod([float(count) for count in levels])) if levels else 0
    if configurations < full:
        found.append(
            f"the grid is incomplete: {configurations} of {full} combinations of the axes occur; cells of the "
            "granulated coefficient with a single configuration are skipped"
        )
    if len(codes) == configurations:
        found.append(
            "one network per configuration: what a seed changes cannot be told, no configuration ceiling"
        )
    return found


def _own_name(column: str) -> str:
    return f"axis:{column}" if column in OWN else column


def _as_table(
    scores: pd.DataFrame, target: str, names: Mapping[str, str], remarks: Sequence[str]
) -> pd.DataFrame:
    """The rows of the only task, under the names of the researcher's columns."""
    own = scores[scores["task"] == TASK].assign(task="")
    overall = scores[scores["task"] == ""]
    keys = ["proxy", "estimator"]
    seen = pd.MultiIndex.from_frame(own[keys])
    extra = overall[~pd.MultiIndex.from_frame(overall[keys]).isin(seen)]
    table = pd.concat([own, extra], ignore_index=True).assign(family="", target=target)
    for new, old in names.items():
        if new != old:
            table["estimator"] = table["estimator"].str.replace(f":{new}", f":{old}", regex=False)
    table = table[COLUMNS].reset_index(drop=True)
    table.attrs["notes"] = list(remarks)
    return table
