"""What a proxy knows beyond the hyper-parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.folds import folds
from gapbench_leaderboard.scoring.registry import Estimator, for_all_proxies
from gapbench_leaderboard.scoring.replicates import mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope
from gapbench_leaderboard.scoring.study import identifying
from gapbench_leaderboard.statistics.incremental import incremental_replicates, proxy_features
from gapbench_leaderboard.statistics.regression import design

INCREMENTAL = Estimator(
    "incremental_information",
    "Share of the squared error left by a regression on family, width and axes that the proxy removes.",
    interval="range",
)


@for_all_proxies(INCREMENTAL, position=10)
def incremental_rows(rows: Rows, data: ScoringData) -> None:
    """Share of the error left by family, width and axes that each proxy removes, per task and averaged."""
    studies, settings = data.studies, data.settings
    over_tasks: dict[str, list[NDArray[np.float64]]] = {}
    for part in studies.parts:
        columns = identifying(part.study.networks, part.study.axes)
        by_mask: dict[bytes, list[str]] = {}
        for proxy in data.proxies:
            if proxy in part.study.proxies and part.measured(proxy).sum() > 1:
                by_mask.setdefault(part.measured(proxy).tobytes(), []).append(proxy)
        for names in by_mask.values():
            mask = part.measured(names[0])
            fold = folds(part, settings)[mask]
            if len(np.unique(fold)) < 2 or not columns:
                continue
            found = incremental_replicates(
                design(part.study.networks.loc[mask], columns),
                np.stack([proxy_features(part.study.proxies[name][mask]) for name in names]),
                part.study.target[mask],
                fold,
                part.draws[: settings.prediction_replicates + 1, part.study.configuration[mask]].astype(
                    float
                ),
                settings.workers,
            )
            for name, values in zip(names, found.T):
                scope = Scope(part.study.task)
                rows.add_range(name, INCREMENTAL.name, values, int(mask.sum()), scope)
                over_tasks.setdefault(name, []).append(values)
    for name, tasks in over_tasks.items():
        models = studies.models(name, Scope())
        rows.add_range(name, INCREMENTAL.name, mean_of(tasks), models, Scope())
