"""Rank of proxies by the headline: 1 + number of proxies that are significantly better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.grouped import pair_weighted
from gapbench_leaderboard.statistics.resampling import holm, two_sided_p

from .replicates import Replicates

LEAST_COVERAGE = 0.9
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Scope:
    """The tasks and the family that a headline is taken over; empty strings mean all."""

    task: str = ""
    family: str = ""


def headline(
    parts: Sequence[Replicates], proxy: str, scope: Scope, other: str | None = None
) -> NDArray[np.float64]:
    """Pair-weighted tau-b within (task, family), averaged over the tasks of the scope; (replicates + 1,).

    With `other`, only networks that both proxies measured count. Tasks in which nothing can be ranked are
    left out of the mean; a task that drops out of a replicate drops out of that replicate's mean.
    """
    tasks = []
    for part in parts:
        if scope.task and part.study.task != scope.task:
            continue
        mask = part.measured(proxy)
        if other is not None:
            mask = mask & part.measured(other)
        found = part.headline(proxy, mask)
        if scope.family:
            if scope.family not in part.study.family_names:
                continue
            chosen = slice(
                part.study.family_names.index(scope.family), part.study.family_names.index(scope.family) + 1
            )
        else:
            chosen = slice(None)
        tasks.append(pair_weighted(found.tau[chosen], found.weight[chosen]))
    return mean_over_tasks(tasks, parts[0].replicates + 1 if parts else 1)


def mean_over_tasks(tasks: Sequence[NDArray[np.float64]], length: int) -> NDArray[np.float64]:
    """Mean of the tasks that are defined in the original sample; shape (length,)."""
    defined = [values for values in tasks if np.isfinite(values[0])]
    if not defined:
        return np.full(length, np.nan)
    stacked = np.stack(defined)
    present = np.isfinite(stacked)
    number = present.sum(axis=0)
    total = np.where(present, stacked, 0.0).sum(axis=0)
    return np.divide(total, number, out=np.full(length, np.nan), where=number > 0)


def in_scope(part: Replicates, scope: Scope) -> NDArray[np.bool_]:
    """The networks of a study that belong to the scope."""
    if scope.task and part.study.task != scope.task:
        return np.zeros(part.study.size, dtype=bool)
    if not scope.family:
        return np.ones(part.study.size, dtype=bool)
    if scope.family not in part.study.family_names:
        return np.zeros(part.study.size, dtype=bool)
    return part.study.family == part.study.family_names.index(scope.family)


def models(parts: Sequence[Replicates], proxy: str, scope: Scope) -> int:
    """Networks of the scope that the proxy was measured on."""
    return int(sum((part.measured(proxy) & in_scope(part, scope)).sum() for part in parts))


def coverage(parts: Sequence[Replicates], proxy: str, scope: Scope) -> float:
    """Fraction of the rankable networks of the scope that the proxy was measured on."""
    total = sum(int(in_scope(part, scope).sum()) for part in parts)
    return models(parts, proxy, scope) / total if total else float("nan")


def configurations(parts: Sequence[Replicates], scope: Scope, proxy: str | None = None) -> int:
    """Configurations of the scope, those that the proxy was measured on if one is given."""
    count = 0
    for part in parts:
        mask = in_scope(part, scope)
        if proxy is not None:
            mask = mask & part.measured(proxy)
        count += len(np.unique(part.study.configuration[mask]))
    return count


def paired_difference(
    parts: Sequence[Replicates], first: str, second: str, scope: Scope
) -> NDArray[np.float64]:
    """Headline of `first` minus that of `second` on the networks that both measured; (replicates + 1,)."""
    return headline(parts, first, scope, second) - headline(parts, second, scope, first)


def ranks(parts: Sequence[Replicates], proxies: Sequence[str], scope: Scope) -> dict[str, int]:
    """Rank of every proxy that covers at least 90 % of the scope's networks.

    A proxy is significantly better if the paired difference has p < 0.05 after Holm's correction over all
    pairs of the scope.
    """
    ranked = []
    for proxy in proxies:
        covered = coverage(parts, proxy, scope)
        if covered >= LEAST_COVERAGE and np.isfinite(headline(parts, proxy, scope)[0]):
            ranked.append(proxy)
    pairs = list(combinations(ranked, 2))
    differences = [paired_difference(parts, first, second, scope) for first, second in pairs]
    size = configurations(parts, scope)
    adjusted = holm(np.array([two_sided_p(difference, size) for difference in differences]))
    rank = dict.fromkeys(ranked, 1)
    for (first, second), difference, p in zip(pairs, differences, adjusted):
        if p < SIGNIFICANCE:
            rank[second if difference[0] > 0 else first] += 1
    return rank
