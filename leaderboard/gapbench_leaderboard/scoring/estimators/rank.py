"""Rank of proxies by the headline: 1 + number of proxies that are significantly better."""

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
    SUBMIT,
    TERMINAL,
    Estimator,
    for_all_proxies,
)
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope, StudySet
from gapbench_leaderboard.statistics.intervals import two_sided_p
from gapbench_leaderboard.statistics.resampling import SIGNIFICANCE, holm

RANK_OF = Estimator(
    RANK,
    "1 + the number of proxies that are significantly better by the headline; baselines are not counted and"
    " have no rank (paired bootstrap over configurations, Holm's correction). Proxies that share a rank "
    f"cannot be told apart. A dash: measured on less than {100 * LEAST_COVERAGE:.0f} % of the networks, a "
    "baseline, or a view of one family within one task, in which nothing is ranked.",
    heading="rank",
    headings={"page": "Rank"},
    shown_in=(TERMINAL, MARKDOWN, PAGE, MIRROR, SUBMIT),
    order=0,
    form="count",
    ascending=True,
)


@for_all_proxies(RANK_OF, position=40)
def rank_rows(rows: Rows, data: ScoringData) -> None:
    """Ranks of the proxies that compete, in every scope but families of single tasks."""
    for scope in data.studies.scopes():
        if scope.task and scope.family:
            continue
        for proxy, rank in ranks(data.studies, data.competing, scope).items():
            rows.add(proxy, RANK, rank, data.studies.models(proxy, scope), scope)


def ranks(studies: StudySet, proxies: Sequence[str], scope: Scope) -> dict[str, int]:
    """Rank of every proxy that covers at least 90 % of the scope's networks.

    A proxy is significantly better if the paired difference has p < 0.05 after Holm's correction over all
    pairs of the scope.

    Returns:
        Proxy -> rank; the others have none.
    """
    names = ranked(studies, proxies, scope)
    sampling = studies.sampling(scope)
    pairs = list(combinations(names, 2))
    rank = dict.fromkeys(names, 1)
    if not pairs:
        return rank
    differences = np.stack([paired_difference(studies, *pair, scope) for pair in pairs])
    p_values = np.array(
        [
            float(two_sided_p(own, sampling, 2.0, studies.signs(first, scope, second)))
            for (first, second), own in zip(pairs, differences)
        ]
    )
    for (first, second), value, p in zip(pairs, differences[:, 0], holm(p_values)):
        if p < SIGNIFICANCE:
            rank[second if value > 0 else first] += 1
    return rank


def ranked(studies: StudySet, proxies: Sequence[str], scope: Scope) -> list[str]:
    """The proxies that cover at least 90 % of the scope's networks and have a headline."""
    return [
        proxy
        for proxy in proxies
        if studies.coverage(proxy, scope) >= LEAST_COVERAGE and np.isfinite(studies.headline(proxy, scope)[0])
    ]
