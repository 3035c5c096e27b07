"""Scores of proxies on a population of networks, in the long form, and their ranking."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .scoring import ranks
from .scoring.accounting import left_out
from .scoring.baselines import NAMES as BASELINES
from .scoring.baselines import baselines
from .scoring.ranks import Scope
from .scoring.replicates import Replicates
from .scoring.rows import COLUMNS, Rows
from .scoring.study import check_tables, measured, studies
from .statistics.configurations import require_columns
from .statistics.resampling import FEW_CONFIGURATIONS, two_sided_p

__all__ = ["BASELINES", "COLUMNS", "left_out", "ranking", "score_population"]

RANKED_STATUS = ("converged",)


def score_population(
    population: pd.DataFrame,
    measurements: pd.DataFrame,
    *,
    targets: Sequence[str] = ("gap",),
    axes: Sequence[str],
    seed_column: str = "seed",
    replicates: int = 1000,
    seed: int = 0,
    correctness: Mapping[str, Any] | None = None,
    higher_means: Mapping[str, str] | None = None,
    ranked_status: Collection[str] = RANKED_STATUS,
) -> pd.DataFrame:
    """Score every proxy by every target.

    Only networks whose status is in `ranked_status`, and measurements with status `ok` and a finite value,
    are ranked. Nothing is imputed; everything left out is counted (estimators `left_out:<reason>`).

    Args:
        population: one row per network: `cell`, `task`, `status`, the targets, the axes; also, where the
            table has them, `family`, `width` and the seed. Networks of a task with the same family, width
            and axes are seeds of one configuration.
        measurements: one row per network and proxy: `cell`, `proxy`, `value`, `status`.
        targets: columns to be predicted.
        axes: hyper-parameters of the grid; `family` and `width` identify configurations as well.
        replicates: bootstrap samples of configurations.
        seed: of the bootstrap; the same tables and seed give the same scores.
        correctness: for each cell its test correctness, a bool array of shape (test_size,), or the pair
            (packed train bits, packed test bits) of `numpy.packbits`, whose test size the population's
            `test_size` gives. Used to resample test examples jointly for all networks.
        higher_means: the direction of each proxy, "worse" (a larger value predicts a larger target; the
            default) or "better" (the value is negated before it is scored).

    Returns:
        The long form: `task`, `family`, `target`, `proxy`, `estimator`, `value`, `low`, `high`, `models`. An
        empty task means the mean over tasks, an empty family all families. Intervals are 95 % bootstrap
        intervals over configurations in which seeds stay with theirs and copies never pair; NaN where an
        estimator has none.

    Raises:
        TableError: for missing columns, duplicated cells or measurements, measurements of unknown cells, text
            where numbers are needed, or an unknown direction.
    """
    check_tables(population, measurements, targets, axes)
    values = measured(population, measurements, higher_means)
    proxies = list(values.columns)
    frames = []
    for target in targets:
        parts = []
        for study in studies(population, values, target, axes, ranked_status):
            if study.size:
                made = study.with_proxies(baselines(study, seed))
                parts.append(Replicates(made, replicates, seed))
        rows = Rows(target)
        _rank_coefficients(rows, parts, proxies)
        _left_out(rows, population, measurements, target, ranked_status)
        frames.append(rows.frame())
    return pd.concat(frames, ignore_index=True)


def ranking(
    scores: pd.DataFrame, *, target: str = "gap", task: str = "", family: str = "", estimator: str = "tau"
) -> pd.DataFrame:
    """The proxies in the order of the board: by rank, then by the headline; unranked rows last.

    Returns:
        Columns `rank` (1 + number of proxies significantly better; NaN for baselines made by the scorer and
        for proxies that cover less than 90 % of the networks), `proxy`, `value`, `low`, `high`, `models`,
        `coverage`, `p_random`, `unreliable`, `baseline`.

    Raises:
        TableError: if columns are missing or the scores hold no such target, task or family.
    """
    require_columns(scores, COLUMNS)
    text = scores[["task", "family"]].fillna("").astype(str)
    chosen = scores[(scores["target"] == target) & (text["task"] == task) & (text["family"] == family)]
    head = chosen[chosen["estimator"] == estimator].set_index("proxy")[["value", "low", "high", "models"]]
    if head.empty:
        from .statistics.configurations import TableError

        raise TableError(
            f"the scores hold no {estimator!r} of target {target!r}, task {task!r}, family {family!r}"
        )
    for name in ("rank", "coverage", "p_random", "unreliable"):
        column = chosen[chosen["estimator"] == name].set_index("proxy")["value"]
        head[name] = column.reindex(head.index)
    head["unreliable"] = head["unreliable"].fillna(0).astype(bool)
    head["baseline"] = head.index.isin(BASELINES)
    table = head.reset_index().sort_values(
        ["rank", "value", "proxy"], ascending=[True, False, True], na_position="last", kind="stable"
    )
    columns = [
        "rank",
        "proxy",
        "value",
        "low",
        "high",
        "models",
        "coverage",
        "p_random",
        "unreliable",
        "baseline",
    ]
    return table[columns].reset_index(drop=True)


def _rank_coefficients(rows: Rows, parts: Sequence[Replicates], proxies: Sequence[str]) -> None:
    if not parts:
        return
    every = list(dict.fromkeys([*proxies, *(name for part in parts for name in part.study.proxies)]))
    families = sorted({name for part in parts for name in part.study.family_names if name})
    for proxy in every:
        holders = [part for part in parts if proxy in part.study.proxies]
        scopes = [Scope(), *(Scope(task=part.study.task) for part in holders)]
        scopes += [Scope(family=name) for name in families]
        scopes += [
            Scope(part.study.task, name) for part in holders for name in part.study.family_names if name
        ]
        for scope in scopes:
            _headline_rows(rows, holders, proxy, scope)
        for part in holders:
            _single_task_rows(rows, part, proxy)
        _granulated_rows(rows, holders, proxy)
    for scope in [
        Scope(),
        *(Scope(task=part.study.task) for part in parts),
        *(Scope(family=f) for f in families),
    ]:
        for proxy, rank in ranks.ranks(parts, proxies, scope).items():
            count = ranks.models(parts, proxy, scope)
            rows.add(proxy, "rank", rank, count, task=scope.task, family=scope.family)


def _headline_rows(rows: Rows, parts: Sequence[Replicates], proxy: str, scope: Scope) -> None:
    values = ranks.headline(parts, proxy, scope)
    count = ranks.models(parts, proxy, scope)
    task, family = scope.task, scope.family
    size = ranks.configurations(parts, scope, proxy)
    rows.add_replicates(proxy, "tau", values, count, task=task, family=family)
    rows.add(proxy, "coverage", ranks.coverage(parts, proxy, scope), count, task=task, family=family)
    rows.add(proxy, "p_random", two_sided_p(values, size), count, task=task, family=family)
    rows.add(proxy, "unreliable", float(size < FEW_CONFIGURATIONS), count, task=task, family=family)


def _single_task_rows(rows: Rows, part: Replicates, proxy: str) -> None:
    study = part.study
    kinds = ["task"] if study.family_names == ("",) else ["task", "family"]
    for kind in kinds:
        coefficients = part.grouped(proxy, kind)
        rho = part.spearman(proxy, kind)
        mask = part.measured(proxy)
        for name, found in coefficients.items():
            for position, number in enumerate(found.groups):
                family = study.family_names[number] if kind == "family" else ""
                inside = mask & (study.family == number) if kind == "family" else mask
                count = int(inside.sum())
                rows.add_replicates(proxy, name, found.tau[position], count, task=study.task, family=family)
                if name == "tau_b":
                    rows.add_replicates(
                        proxy, "spearman", rho[int(number)], count, task=study.task, family=family
                    )


def _granulated_rows(rows: Rows, parts: Sequence[Replicates], proxy: str) -> None:
    overall: dict[str, list[np.ndarray[Any, Any]]] = {}
    total = 0
    for part in parts:
        study = part.study
        scopes: list[int | None] = [None]
        if study.family_names != ("",):
            scopes += list(range(len(study.family_names)))
        for family in scopes:
            found = part.granulated(proxy, family)
            mask = part.measured(proxy)
            if family is not None:
                mask = mask & (study.family == family)
            count = int(mask.sum())
            for axis, values in found.items():
                name = f"granulated:{axis}" if axis else "granulated"
                where = "" if family is None else study.family_names[family]
                rows.add_replicates(proxy, name, values, count, task=study.task, family=where)
                if family is None:
                    overall.setdefault(name, []).append(values)
            if family is None:
                total += count
    for name, tasks in overall.items():
        rows.add_replicates(proxy, name, ranks.mean_over_tasks(tasks, len(tasks[0])), total)


def _left_out(
    rows: Rows,
    population: pd.DataFrame,
    measurements: pd.DataFrame,
    target: str,
    ranked_status: Collection[str],
) -> None:
    counted = left_out(population, measurements, target, ranked_status)
    for row in counted.to_dict("records"):
        rows.add(
            row["proxy"],
            f"left_out:{row['reason']}",
            row["models"],
            0,
            task=row["task"],
            family=row["family"],
        )
    for row in (
        counted.groupby(["proxy", "reason"], sort=True)["models"].sum().reset_index().to_dict("records")
    ):
        rows.add(row["proxy"], f"left_out:{row['reason']}", row["models"], 0)
