"""Jiang's conditional mutual information K."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import MIRROR, SCORE, Estimator, for_each_proxy
from gapbench_leaderboard.scoring.replicates import Replicates, mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope
from gapbench_leaderboard.statistics.mutual_information_replicates import (
    MOST_LEVELS,
    TargetPairs,
    k_replicates,
)
from gapbench_leaderboard.statistics.pairs import lay_out
from gapbench_leaderboard.statistics.resampling import generator

NULL_PERMUTATIONS = 20

K = Estimator(
    "K",
    "Conditional mutual information of the order of pairs in proxy and target, the smallest given any two "
    "axes, over the entropy (Jiang et al. 2020). Biased upwards: compare it with `K_null`.",
    interval="range",
    heading="K",
    notes={SCORE: "share of the target's order that the measure's tells, given any two axes; biased upwards"},
    shown_in=(MIRROR, SCORE),
    order=75,
)
K_NULL = Estimator("K_null", "Mean of K when the proxy orders the configurations at random.")


@for_each_proxy(K, K_NULL, position=80)
def mutual_information_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """K (Jiang) with a resampling range, and its mean over random orders of the configurations (`K_null`).

    K is biased upwards, so its range claims no coverage; the value is to be compared with the null.
    """
    studies = data.studies
    over_tasks, null_over_tasks = [], []
    for part in studies.having(proxy):
        scope, models = Scope(part.study.task), studies.models(proxy, Scope(part.study.task))
        if not models:
            continue
        found = part.means(proxy)
        codes = _conditioning(part, found.rows)
        if codes is None or len(found.rows) < 2:
            continue
        draws = part.draws[: data.settings.pair_replicates + 1, part.study.configuration[found.rows]]
        measured = part.measured(proxy).tobytes()
        shared = part.target_pairs.setdefault(("K", measured), TargetPairs())
        values = k_replicates(codes, found.measure, found.target, lay_out(draws), shared)
        rows.add_range(proxy, "K", values, models, scope)
        over_tasks.append(values)
        key = ("K_null", measured)
        if key not in part.shared:
            part.shared[key] = _k_null(
                codes, found.target, generator(data.settings.seed, "K", part.study.task)
            )
        null = part.shared[key]
        rows.add(proxy, "K_null", null, models, scope)
        null_over_tasks.append(null)
    if over_tasks:
        models = studies.models(proxy, Scope())
        rows.add_range(proxy, "K", mean_of(over_tasks), models, Scope())
        nulls = [null for null in null_over_tasks if np.isfinite(null)]
        rows.add(proxy, "K_null", float(np.mean(nulls)) if nulls else float("nan"), models, Scope())


def _k_null(codes: NDArray[np.int64], target: NDArray[np.float64], random: np.random.Generator) -> float:
    """Mean of K over measures that order the configurations at random, without ties."""
    once = lay_out(np.ones((1, len(target)), dtype=np.int64))
    shared = TargetPairs()
    values = [
        k_replicates(codes, random.permutation(len(target)).astype(np.float64), target, once, shared)[0]
        for _ in range(NULL_PERMUTATIONS)
    ]
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _conditioning(part: Replicates, rows: NDArray[np.intp]) -> NDArray[np.int64] | None:
    """Levels of the family and the axes; axes with too many levels to condition on are left out."""
    codes = part.grid_codes(rows)
    levels = np.array([len(np.unique(codes[:, axis])) for axis in range(codes.shape[1])])
    kept = codes[:, (levels > 1) & (levels**2 <= MOST_LEVELS)]
    return kept if kept.shape[1] else None
