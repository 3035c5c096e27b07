"""Which differences of headlines the population can tell."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.estimators.rank import ranked
from gapbench_leaderboard.scoring.registry import Estimator, for_all_proxies
from gapbench_leaderboard.scoring.resolving import (
    PLANTINGS,
    STRONG,
    WEAK,
    common_noise,
    smallest_difference,
    told_apart,
)
from gapbench_leaderboard.scoring.rows import POPULATION, Rows
from gapbench_leaderboard.scoring.scope import Scope

SMALLEST = Estimator(
    "smallest_significant_difference",
    "The smallest difference of two headlines that would be significant among all proxies that are ranked, for a "
    "pair with the median standard error.",
)
ALONE = Estimator(
    "planted_told_apart",
    f"Two proxies made from the target with noise, of true headlines {WEAK} and {STRONG}: in which share of "
    f"{PLANTINGS} plantings the interval of their difference is above 0.",
)
AMONG = Estimator(
    "planted_told_apart_among_all",
    "The same by the test behind the ranks, with 95 % confidence for all pairs of proxies at once.",
)


@for_all_proxies(SMALLEST, ALONE, AMONG, position=45)
def resolution_rows(rows: Rows, data: ScoringData) -> None:
    """What can be told over all tasks, under the empty proxy, as far as it is defined."""
    studies, scope = data.studies, Scope()
    if not studies.parts:
        return
    names = ranked(studies, data.competing, scope)
    models = sum(part.study.size for part in studies.parts)
    found = smallest_difference(studies, names)
    told = told_apart(studies, data.settings.seed, common_noise(studies, names), found.critical)
    for estimator, value in ((SMALLEST, found.smallest), (ALONE, told.alone), (AMONG, told.among)):
        if np.isfinite(value):
            rows.add(POPULATION, estimator.name, value, models, scope)
