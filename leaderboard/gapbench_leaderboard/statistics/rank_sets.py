"""Simultaneous confidence sets for ranks, from bootstrap draws of all pairwise differences.

Mogstad, Romano, Shaikh, Wilhelm 2024 (Review of Economic Studies, doi 10.1093/restud/rdad006): if the signs of all
pairwise differences are tested so that with probability 0.95 none is called wrongly, the true rank of every member
lies between 1 + the number of those significantly better and their number less that of those significantly worse,
of all members at once. The tests are those of Romano and Wolf (2005): studentised differences against the quantile
of the largest studentised draw, step by step over the hypotheses that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gapbench_leaderboard.statistics.intervals import Sampling, two_sided_p
from gapbench_leaderboard.statistics.resampling import SIGNIFICANCE, holm
from gapbench_leaderboard.statistics.signs import Signs

ROUNDING = 1e-12  # differences of headlines that are equal
REACH = 2.0
"""A difference of two coefficients lies within [-2, 2]."""


@dataclass(frozen=True)
class RankSets:
    """Ranks of p members and the sets that they lie in, each array of shape (p,)."""

    rank: NDArray[np.int64]
    """1 + number of members that are better by their difference, significantly or not."""
    low: NDArray[np.int64]
    """1 + number of members that are significantly better."""
    high: NDArray[np.int64]
    """p - number of members that are significantly worse."""


def rank_sets(
    members: int,
    pairs: Sequence[tuple[int, int]],
    differences: NDArray[np.float64],
    sampling: Sampling,
    signs: Sequence[Signs | None],
    level: float = 1 - SIGNIFICANCE,
) -> RankSets:
    """Ranks and their simultaneous confidence sets.

    Args:
        members: how many there are.
        pairs: the members that each difference is of, first less second; larger is better.
        differences: shape (pairs, entries), laid out as `sampling` says.
        sampling: see `intervals.interval`.
        signs: what each difference rests on.
        level: probability that all sets contain the true ranks.

    Returns:
        For each member; a pair whose difference is undefined says nothing.
    """
    rank, low = np.ones(members, dtype=np.int64), np.ones(members, dtype=np.int64)
    high = np.full(members, members, dtype=np.int64)
    if not len(pairs):
        return RankSets(rank, low, high)
    decided = significant_signs(differences, sampling, signs, level)
    for (first, second), value, sign in zip(pairs, differences[:, 0], decided):
        if value > ROUNDING:
            rank[second] += 1
        elif value < -ROUNDING:
            rank[first] += 1
        if sign:
            better, worse = (first, second) if sign > 0 else (second, first)
            low[worse] += 1
            high[better] -= 1
    return RankSets(rank, low, high)


def significant_signs(
    differences: NDArray[np.float64],
    sampling: Sampling,
    signs: Sequence[Signs | None],
    level: float = 1 - SIGNIFICANCE,
) -> NDArray[np.int64]:
    """The sign of each difference where it is significant, else 0; with probability `level` none is wrong.

    Differences that have a jackknife error and draws are tested by the step-down bootstrap. Those that rest on few
    signs, or that nothing changes, have an exact p-value instead, to which Holm's correction applies; each kind has
    the part of 1 - level that is its share of the pairs.

    Returns:
        shape (pairs,).
    """
    value, error = differences[:, 0], sampling.standard_error(differences)
    drawn = sampling.bootstrap(differences)
    number = np.isfinite(drawn).sum(axis=1)
    known = np.isfinite(value) & np.isfinite(error)
    few = np.array([own is not None and own.few for own in signs])
    exact = np.isfinite(value) & (few | (sampling.freedom < 1) | (known & (error == 0)))
    tested = known & ~exact & (2 * number >= drawn.shape[1]) & (number > 1)
    result = np.zeros(len(value), dtype=np.int64)
    share = (1 - level) / max(1, int((exact | tested).sum()))
    if exact.any():
        chosen = np.flatnonzero(exact)
        p = [float(two_sided_p(differences[k], sampling, REACH, signs[int(k)])) for k in chosen]
        small = holm(np.array(p)) < share * len(chosen)
        result[chosen[small]] = np.sign(value[chosen[small]]).astype(np.int64)
    if tested.any():
        chosen = np.flatnonzero(tested)
        ratio = value[chosen] / error[chosen]
        found = stepped_down(ratio, standardised(drawn[chosen]), sampling.freedom, share * len(chosen))
        result[chosen] = found
    return result


def stepped_down(
    ratio: NDArray[np.float64], drawn: NDArray[np.float64], freedom: int, alpha: float
) -> NDArray[np.int64]:
    """Signs of the studentised values that are significant together, else 0.

    Two hypotheses for each value, that it is not positive and that it is not negative. The critical value is the
    quantile of the largest draw among the hypotheses that are left, on the scale of Student's t; those whose value
    lies beyond it are rejected, and the others tested again without them.

    Args:
        ratio: values over their standard errors, shape (values,).
        drawn: draws of them, centred and scaled to a standard deviation of 1, shape (values, draws); NaN for none.
        freedom: degrees of freedom of the standard errors.
        alpha: probability that any sign is wrong.

    Returns:
        shape (values,).
    """
    both, draws = np.concatenate([ratio, -ratio]), np.concatenate([drawn, -drawn])
    draws = np.where(np.isfinite(draws), draws, -np.inf)
    left = np.ones(len(both), dtype=bool)
    while left.any():
        critical = critical_value(draws[left].max(axis=0), int(left.sum()), freedom, alpha)
        beyond = left & (both > critical)
        if not beyond.any():
            break
        left &= ~beyond
    rejected = ~left
    half = len(ratio)
    return rejected[:half].astype(np.int64) - rejected[half:].astype(np.int64)


def critical_value(largest: NDArray[np.float64], hypotheses: int, freedom: int, alpha: float) -> float:
    """The quantile 1 - alpha of the largest of several draws, on Student's scale.

    Args:
        largest: over the hypotheses, of draws centred and scaled to a standard deviation of 1, shape (draws,).
        hypotheses: how many there are.
        freedom: degrees of freedom of the standard errors.
        alpha: probability that any value over its standard error is beyond it by chance.

    Returns:
        What a value over its standard error must exceed.
    """
    number = len(largest)
    place = int(np.ceil((1 - alpha) * (number + 1))) - 1
    if place >= number:  # too few draws for the quantile: Bonferroni
        return float(stats.t.isf(alpha / hypotheses, freedom))
    found = float(np.sort(largest)[place])
    tail = float(stats.norm.sf(found))
    return float(stats.t.isf(tail, freedom)) if tail > 0 else found


def standardised(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draws less their mean over their standard deviation, in each row of shape (rows, draws); NaN stays."""
    mean = np.nanmean(drawn, axis=1, keepdims=True)
    deviation = np.nanstd(drawn, axis=1, keepdims=True)
    standard: NDArray[np.float64] = np.zeros(drawn.shape)
    np.divide(drawn - mean, deviation, out=standard, where=deviation > 0)
    return standard
