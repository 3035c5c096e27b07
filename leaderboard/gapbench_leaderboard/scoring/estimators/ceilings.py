"""Ceilings of the headline: what test sampling and seeds leave to any proxy."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import Estimator, for_all_proxies
from gapbench_leaderboard.scoring.replicates import mean_of
from gapbench_leaderboard.scoring.rows import POPULATION, Rows
from gapbench_leaderboard.scoring.scope import family_slice
from gapbench_leaderboard.statistics.grouped import equal_mean

KNOWN = {"network": "each network's true target", "configuration": "the mean of each configuration"}
CEILINGS = [
    Estimator(f"ceiling_{name}", f"Headline of a predictor that knows {what}.", interval="range")
    for name, what in KNOWN.items()
]


@for_all_proxies(*CEILINGS, position=20)
def ceiling_rows(rows: Rows, data: ScoringData) -> None:
    """Both ceilings of every scope, under the empty proxy."""
    studies, table = data.studies, data.ceilings
    for scope in studies.scopes():
        inside = studies.inside(scope)
        models = sum(int(scope.mask(part).sum()) for part in inside)
        for name in KNOWN:
            tasks = []
            for part, families in zip(studies.parts, table.by_part):
                if part not in inside:
                    continue
                tasks.append(equal_mean(getattr(families, name)[family_slice(part, scope)]))
            if tasks and any(np.isfinite(values[0]) for values in tasks):
                rows.add_range(POPULATION, f"ceiling_{name}", mean_of(tasks), models, scope)
