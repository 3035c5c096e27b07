"""Tests that say what a proxy is worth: against size, chance and the oracle, within width, measured again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.baselines import HYPERPARAMETER_ORACLE
from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.over_tasks import Counted, mean_counted
from gapbench_leaderboard.scoring.pairwise import paired_difference
from gapbench_leaderboard.scoring.registry import MIRROR, RANKING, Estimator, for_each_proxy
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope, StudySet
from gapbench_leaderboard.statistics.grouped import equal_mean
from gapbench_leaderboard.statistics.intervals import Sampling, interval
from gapbench_leaderboard.statistics.signs import Signs

SIZE = "parameter_count"
REPEATABLE = 0.9
"""tau between two measurements that a repeatable proxy is significantly above."""

BEATS_SIZE = Estimator(
    "beats_size",
    "1 where the headline is significantly above that of the parameter count and above that of its negative, else "
    "0: the proxy beats size, either way up.",
    shown_in=(RANKING, MIRROR),
    order=96,
    form="count",
    optional=True,
)
BEATS_RANDOM = Estimator(
    "beats_random",
    "1 where the headline is significantly above 0, what a random proxy scores on average, else 0.",
    shown_in=(RANKING, MIRROR),
    order=96,
    form="count",
    optional=True,
)
BEATS_ORACLE = Estimator(
    "beats_oracle",
    "1 where the headline is significantly above that of the hyper-parameter oracle, else 0.",
    shown_in=(RANKING, MIRROR),
    order=96,
    form="count",
    optional=True,
)
SURVIVES = Estimator(
    "survives_within",
    "1 where tau among networks of equal problem, family and width is significantly above 0, else 0.",
    shown_in=(RANKING, MIRROR),
    order=96,
    form="count",
    optional=True,
)
IS_REPEATABLE = Estimator(
    "repeatable",
    f"1 where tau between two independent measurements is significantly above {REPEATABLE}, or no pair is ordered "
    "otherwise the second time; else 0.",
    shown_in=(RANKING, MIRROR),
    order=96,
    form="count",
    optional=True,
)


@for_each_proxy(BEATS_SIZE, BEATS_RANDOM, BEATS_ORACLE, SURVIVES, IS_REPEATABLE, position=75)
def verdict_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """The outcome of each test over all tasks; a test that cannot be made has no row."""
    studies, scope = data.studies, Scope()
    sampling, models = studies.sampling(scope), studies.models(proxy, scope)

    def say(estimator: Estimator, outcomes: list[bool | None]) -> None:
        known = [outcome for outcome in outcomes if outcome is not None]
        if len(known) == len(outcomes):
            rows.add(proxy, estimator.name, float(all(known)), models, scope)

    if proxy != SIZE and SIZE in data.proxies:
        signs = studies.signs(proxy, scope, SIZE)
        own, size = studies.headline(proxy, scope, SIZE), studies.headline(SIZE, scope, proxy)
        say(BEATS_SIZE, [above(found, sampling, signs, False) for found in (own - size, own + size)])
    headline = studies.headline(proxy, scope)
    say(BEATS_RANDOM, [above(headline, sampling, studies.signs(proxy, scope), True)])
    if proxy != HYPERPARAMETER_ORACLE and HYPERPARAMETER_ORACLE in data.proxies:
        difference = paired_difference(studies, proxy, HYPERPARAMETER_ORACLE, scope)
        signs = studies.signs(proxy, scope, HYPERPARAMETER_ORACLE)
        say(BEATS_ORACLE, [above(difference, sampling, signs, False)])
    within, signs = mean_counted(_within(studies, proxy))
    say(SURVIVES, [above(within, sampling, signs, True)])
    repeated, signs = mean_counted(_repeated(studies, proxy))
    low = interval(repeated, sampling, signs=signs)[0]
    say(IS_REPEATABLE, [None if np.isnan(low) else low > REPEATABLE or repeated[0] == 1])


def above(values: NDArray[np.float64], sampling: Sampling, signs: Signs | None, bounded: bool) -> bool | None:
    """Whether the interval of a value, shape (entries,), lies above 0; None where it has none.

    The interval is the one that stands beside the value (`bounded`), or beside a difference.

    Returns:
        The outcome.
    """
    low = interval(values, sampling, signs=signs, bounded=bounded)[0]
    return None if np.isnan(low) else low > 0


def _within(studies: StudySet, proxy: str) -> list[Counted]:
    found = []
    for part in studies.having(proxy):
        mask = part.measured(proxy)
        if mask.any() and part.study.strata:
            values = equal_mean(part.within(proxy, "stratum", mask))
            found.append((values, part.signs_within("stratum", mask)))
    return found


def _repeated(studies: StudySet, proxy: str) -> list[Counted]:
    parts = [part for part in studies.having(proxy) if proxy in part.study.repeats]
    return [part.against(proxy, part.study.repeats[proxy]) for part in parts]
