"""Rows of the estimators over pairs of configurations: mutual information, sign error; and of selection."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.replicates import Replicates, mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Population, Scope
from gapbench_leaderboard.scoring.settings import Settings
from gapbench_leaderboard.statistics.mutual_information_replicates import MOST_LEVELS, k_replicates
from gapbench_leaderboard.statistics.pairs import lay_out, order_of
from gapbench_leaderboard.statistics.resampling import generator
from gapbench_leaderboard.statistics.selection import selection_replicates
from gapbench_leaderboard.statistics.sign_error import environments, summary, summary_replicates

NULL_PERMUTATIONS = 20
BEST_SHARE = 0.1
FRACTIONS = ("gap", "test_error")
"""Targets that are fractions of a test set, for which a test size means something."""


def mutual_information_rows(rows: Rows, population: Population, proxy: str, settings: Settings) -> None:
    """K (Jiang) with a resampling range, and its mean over random orders of the configurations (`K_null`).

    K is biased upwards, so its range claims no coverage; the value is to be compared with the null.
    """
    over_tasks, null_over_tasks = [], []
    for part in population.having(proxy):
        scope, models = Scope(part.study.task), population.models(proxy, Scope(part.study.task))
        if not models:
            continue
        found = part.means(proxy)
        codes = _conditioning(part, found.rows)
        if codes is None or len(found.rows) < 2:
            continue
        draws = part.draws[: settings.pair_replicates + 1, part.study.configuration[found.rows]]
        values = k_replicates(codes, found.measure, found.target, lay_out(draws))
        rows.add_range(proxy, "K", values, models, scope)
        over_tasks.append(values)
        key = ("K_null", part.measured(proxy).tobytes())
        if key not in part.shared:
            part.shared[key] = k_null(codes, found.target, generator(settings.seed, "K", part.study.task))
        null = part.shared[key]
        rows.add(proxy, "K_null", null, models, scope)
        null_over_tasks.append(null)
    if over_tasks:
        models = population.models(proxy, Scope())
        rows.add_range(proxy, "K", mean_of(over_tasks), models, Scope())
        nulls = [null for null in null_over_tasks if np.isfinite(null)]
        rows.add(proxy, "K_null", float(np.mean(nulls)) if nulls else float("nan"), models, Scope())


def k_null(codes: NDArray[np.int64], target: NDArray[np.float64], random: np.random.Generator) -> float:
    """Mean of K over measures that order the configurations at random, without ties."""
    once = lay_out(np.ones((1, len(target)), dtype=np.int64))
    values = [
        k_replicates(codes, random.permutation(len(target)).astype(np.float64), target, once)[0]
        for _ in range(NULL_PERMUTATIONS)
    ]
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _conditioning(part: Replicates, rows: NDArray[np.intp]) -> NDArray[np.int64] | None:
    """Levels of the family and the axes; axes with too many levels to condition on are left out."""
    codes = part.grid_codes(rows)
    levels = np.array([len(np.unique(codes[:, axis])) for axis in range(codes.shape[1])])
    kept = codes[:, (levels > 1) & (levels**2 <= MOST_LEVELS)]
    return kept if kept.shape[1] else None


def sign_error_rows(rows: Rows, population: Population, proxy: str, settings: Settings) -> None:
    """Robust sign error (mean, 90th percentile, maximum, per axis) with resampling ranges."""
    means = []
    for part in population.having(proxy):
        study, scope = part.study, Scope(part.study.task)
        mask = part.measured(proxy)
        if study.target_name not in FRACTIONS or study.test_size is None or not mask.any():
            continue
        index = np.flatnonzero(mask)
        configurations, first, row_of = np.unique(
            study.configuration[index], return_index=True, return_inverse=True
        )
        codes = part.grid_codes(index[first])
        found = environments(
            study.proxies[proxy][index],
            study.target[index],
            row_of.reshape(-1).astype(np.int64),
            codes,
            study.test_size,
        )
        models = len(index)
        values = summary(found, ["family", *part.grid_axes])
        rows.add(proxy, "sign_error_environments", values.environments, models, scope)
        if not values.environments:
            continue
        drawn = summary_replicates(found, part.draws[: settings.pair_replicates + 1, configurations])
        for name, replicates in drawn.items():
            label = "sign_error" if name == "mean" else f"sign_error_{name}"
            rows.add_range(proxy, label, replicates, models, scope)
        for axis, value in values.per_axis.items():
            if np.isfinite(value):
                rows.add(proxy, f"sign_error:{axis}", value, models, scope)
        means.append(drawn["mean"])
    if means:
        rows.add_range(proxy, "sign_error", mean_of(means), population.models(proxy, Scope()), Scope())


def selection_rows(rows: Rows, population: Population, proxy: str, settings: Settings) -> None:
    """Precision among the 10 % smallest targets, and regret of the first choice, per task and averaged."""
    over_tasks: dict[str, list[NDArray[np.float64]]] = {"precision_at_10pct": [], "regret_at_1": []}
    for part in population.having(proxy):
        mask = part.measured(proxy)
        if mask.sum() < 2:
            continue
        x, y = part.study.proxies[proxy][mask], part.study.target[mask]
        draws = part.draws[: settings.pair_replicates + 1, part.study.configuration[mask]]
        values = selection_replicates(order_of(x), order_of(y), y, draws, BEST_SHARE)
        scope = Scope(part.study.task)
        for (name, tasks), found in zip(over_tasks.items(), values):
            rows.add_range(proxy, name, found, int(mask.sum()), scope)
            tasks.append(found)
    for name, tasks in over_tasks.items():
        if tasks:
            rows.add_range(proxy, name, mean_of(tasks), population.models(proxy, Scope()), Scope())
