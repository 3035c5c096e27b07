"""Rank of proxies by the headline: 1 + number of proxies that are significantly better."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Population, Scope
from gapbench_leaderboard.statistics.intervals import two_sided_p
from gapbench_leaderboard.statistics.resampling import holm

LEAST_COVERAGE = 0.9
SIGNIFICANCE = 0.05


def paired_difference(population: Population, first: str, second: str, scope: Scope) -> NDArray[np.float64]:
    """Headline of `first` minus that of `second` on the networks that both measured; (entries,)."""
    return population.headline(first, scope, second) - population.headline(second, scope, first)


def ranked(population: Population, proxies: Sequence[str], scope: Scope) -> list[str]:
    """The proxies that cover at least 90 % of the scope's networks and have a headline."""
    return [
        proxy
        for proxy in proxies
        if population.coverage(proxy, scope) >= LEAST_COVERAGE
        and np.isfinite(population.headline(proxy, scope)[0])
    ]


def ranks(population: Population, proxies: Sequence[str], scope: Scope) -> dict[str, int]:
    """Rank of every proxy that covers at least 90 % of the scope's networks.

    A proxy is significantly better if the paired difference has p < 0.05 after Holm's correction over all
    pairs of the scope.
    """
    names = ranked(population, proxies, scope)
    sampling = population.sampling(scope)
    pairs = list(combinations(names, 2))
    rank = dict.fromkeys(names, 1)
    if not pairs:
        return rank
    differences = np.stack([paired_difference(population, *pair, scope) for pair in pairs])
    p_values = np.array(
        [
            float(two_sided_p(own, sampling, 2.0, population.signs(first, scope, second)))
            for (first, second), own in zip(pairs, differences)
        ]
    )
    for (first, second), value, p in zip(pairs, differences[:, 0], holm(p_values)):
        if p < SIGNIFICANCE:
            rank[second if value > 0 else first] += 1
    return rank


def difference_rows(rows: Rows, population: Population, proxies: Sequence[str]) -> None:
    """Paired difference of the headlines of every two proxies (`tau_minus:<other>`), over all tasks.

    One row per pair, under the proxy that comes first in `proxies`; on the networks that both measured.
    """
    scope = Scope()
    sampling = population.sampling(scope)
    for first, second in combinations(proxies, 2):
        difference = paired_difference(population, first, second, scope)
        if np.isfinite(difference[0]):
            models = population.common(first, second)
            rows.add_coefficient(
                first,
                f"tau_minus:{second}",
                difference,
                models,
                scope,
                sampling,
                bounded=False,
                signs=population.signs(first, scope, second),
            )
