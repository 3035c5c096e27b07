"""Differences of the headlines of every two proxies."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.pairwise import paired_difference
from gapbench_leaderboard.scoring.registry import Estimator, for_all_proxies
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope
from gapbench_leaderboard.statistics.intervals import two_sided_p
from gapbench_leaderboard.statistics.rank_sets import REACH

DIFFERENCE = Estimator(
    "tau_minus",
    "Headline less that of another proxy, on the networks that both measured.",
    interval="confidence",
    each="proxy",
)
DIFFERENCE_P = Estimator(
    "tau_minus_p",
    "Two-sided p-value that the headline is that of another proxy, on the networks that both measured; of this "
    "pair alone.",
    each="proxy",
)


@for_all_proxies(DIFFERENCE, DIFFERENCE_P, position=30)
def difference_rows(rows: Rows, data: ScoringData) -> None:
    """Paired difference of the headlines of every two proxies (`tau_minus:<other>`) with its p, over all tasks.

    One row of each per pair, under the proxy that comes first in the table; on the networks that both measured.
    """
    studies = data.studies
    scope = Scope()
    sampling = studies.sampling(scope)
    for first, second in combinations(data.proxies, 2):
        difference = paired_difference(studies, first, second, scope)
        if np.isfinite(difference[0]):
            models, signs = studies.common(first, second), studies.signs(first, scope, second)
            rows.add_coefficient(
                first,
                f"{DIFFERENCE.name}:{second}",
                difference,
                models,
                scope,
                sampling,
                bounded=False,
                signs=signs,
            )
            p = float(two_sided_p(difference, sampling, REACH, signs))
            if np.isfinite(p):
                rows.add(first, f"{DIFFERENCE_P.name}:{second}", p, models, scope)
