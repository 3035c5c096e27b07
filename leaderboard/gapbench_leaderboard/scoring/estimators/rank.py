"""Rank of proxies by the headline, and the set of ranks that a proxy may have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.estimators.headline import LEAST_COVERAGE
from gapbench_leaderboard.scoring.pairwise import paired_difference
from gapbench_leaderboard.scoring.registry import (
    MARKDOWN,
    MIRROR,
    PAGE,
    RANK,
    RANKING,
    SUBMIT,
    TERMINAL,
    Estimator,
    for_all_proxies,
)
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope, StudySet
from gapbench_leaderboard.statistics.rank_sets import RankSets, rank_sets

RANK_OF = Estimator(
    RANK,
    "The place by the headline: 1 + the number of proxies that are better, on the networks that both measured. In "
    "brackets the ranks that it may have: with a confidence of 95 % all proxies lie between theirs at once "
    "(step-down bootstrap over configurations of all differences; Mogstad et al. 2024). Proxies whose set begins "
    "with 1 may be the best. Baselines are not counted and have no rank. A dash: measured on less than "
    f"{100 * LEAST_COVERAGE:.0f} % of the networks, a baseline, or a view of one family within one task, in which "
    "nothing is ranked.",
    interval="confidence",
    heading="rank",
    headings={"page": "Rank"},
    shown_in=(TERMINAL, MARKDOWN, PAGE, MIRROR, SUBMIT),
    order=0,
    form="count",
    ascending=True,
)
LOW = Estimator(
    "rank_low",
    "1 + the number of proxies that are significantly better: the best rank that it may have.",
    heading="rank from",
    shown_in=(RANKING,),
    order=1,
    form="count",
    ascending=True,
)
HIGH = Estimator(
    "rank_high",
    "The number of proxies less those that are significantly worse: the worst rank that it may have.",
    heading="rank to",
    shown_in=(RANKING,),
    order=2,
    form="count",
    ascending=True,
)


@for_all_proxies(RANK_OF, LOW, HIGH, position=40)
def rank_rows(rows: Rows, data: ScoringData) -> None:
    """Ranks of the proxies that compete, with their sets, in every scope but families of single tasks."""
    for scope in data.studies.scopes():
        if scope.task and scope.family:
            continue
        names = ranked(data.studies, data.competing, scope)
        sets = ranks(data.studies, names, scope)
        for proxy, rank, low, high in zip(names, sets.rank, sets.low, sets.high):
            models = data.studies.models(proxy, scope)
            rows.add(proxy, RANK, rank, models, scope, (float(low), float(high)))
            rows.add(proxy, LOW.name, low, models, scope)
            rows.add(proxy, HIGH.name, high, models, scope)


def ranks(studies: StudySet, names: Sequence[str], scope: Scope) -> RankSets:
    """Rank of every one of the proxies among them, and its confidence set."""
    pairs = list(combinations(range(len(names)), 2))
    if not pairs:
        return rank_sets(len(names), [], np.zeros((0, 1)), studies.sampling(scope), [])
    return rank_sets(
        len(names),
        pairs,
        np.stack([paired_difference(studies, names[i], names[j], scope) for i, j in pairs]),
        studies.sampling(scope),
        [studies.signs(names[i], scope, names[j]) for i, j in pairs],
    )


def ranked(studies: StudySet, proxies: Sequence[str], scope: Scope) -> list[str]:
    """The proxies that cover at least 90 % of the scope's networks and have a headline."""
    return [
        proxy
        for proxy in proxies
        if studies.coverage(proxy, scope) >= LEAST_COVERAGE and np.isfinite(studies.headline(proxy, scope)[0])
    ]
