"""tau between two independent measurements of a proxy."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.over_tasks import mean_row
from gapbench_leaderboard.scoring.registry import (
    MARKDOWN,
    MIRROR,
    PAGE,
    RANKING,
    Estimator,
    for_each_proxy,
)
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope

REPEATABILITY = Estimator(
    "repeatability",
    "tau-b within problem and family between two independent measurements of the proxy: other random numbers and "
    "other training examples. What is missing to 1 is chance in the measurement.",
    interval="confidence",
    heading="repeatable",
    shown_in=(MARKDOWN, PAGE, RANKING, MIRROR),
    order=50,
    optional=True,
)


@for_each_proxy(REPEATABILITY, position=70)
def repeatability_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """tau-b within problem and family between two independent measurements, where both were made."""
    studies = data.studies
    values = []
    for part in studies.having(proxy):
        if proxy not in part.study.repeats:
            continue
        second = part.study.repeats[proxy]
        scope = Scope(part.study.task)
        both = int((part.measured(proxy) & np.isfinite(second)).sum())
        if both < 2:
            continue
        found, signs = part.against(proxy, second)
        sampling = studies.sampling(scope)
        rows.add_coefficient(proxy, "repeatability", found, both, scope, sampling, signs=signs)
        values.append((found, signs))
    mean_row(rows, studies, proxy, "repeatability", values)
