"""The target's value as a function of the proxy's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.folds import folds
from gapbench_leaderboard.scoring.registry import MIRROR, SCORE, Estimator, for_each_proxy
from gapbench_leaderboard.scoring.replicates import mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope
from gapbench_leaderboard.statistics.calibration import calibration_replicates

R2 = Estimator(
    "r2",
    "Share of the target's variance that isotonic regression on the proxy explains, cross-fitted in folds "
    "blocked by configuration. Below 0: for configurations left out it predicts worse than the target's mean.",
    interval="range",
    heading="R2",
    shown_in=(MIRROR, SCORE),
    note="share of the target's variance predicted for configurations left out; below 0: worse than its mean",
    order=77,
)
MAE = Estimator(
    "mae",
    "Mean absolute error of the same regression, in units of the target.",
    interval="range",
    heading="mean absolute error",
    shown_in=(MIRROR,),
    order=78,
    form="quantity",
)


@for_each_proxy(R2, MAE, position=110)
def calibration_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """Cross-fitted R^2 and mean absolute error per task and averaged."""
    studies = data.studies
    over_tasks: dict[str, list[NDArray[np.float64]]] = {R2.name: [], MAE.name: []}
    for part in studies.having(proxy):
        mask = part.measured(proxy)
        fold = folds(part, data.settings)[mask]
        if len(np.unique(fold)) < 2:
            continue
        values = calibration_replicates(
            part.study.proxies[proxy][mask],
            part.study.target[mask],
            fold,
            part.draws[: data.settings.pair_replicates + 1, part.study.configuration[mask]],
        ).T
        for (name, tasks), found in zip(over_tasks.items(), values):
            rows.add_range(proxy, name, found, int(mask.sum()), Scope(part.study.task))
            tasks.append(found)
    for name, tasks in over_tasks.items():
        if tasks:
            rows.add_range(proxy, name, mean_of(tasks), studies.models(proxy, Scope()), Scope())
