"""Rank correlation of two vectors: Kendall's tau-a and tau-b, Spearman's rho."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapbench_leaderboard.statistics._compile import Floats, Whole, compiled
from gapbench_leaderboard.statistics.pairs import (
    LANES,
    Multiplicities,
    Order,
    PairCounts,
    count_pairs,
    once,
    order_of,
)

Variant = Literal["a", "b"]


def kendall_tau(x: ArrayLike, y: ArrayLike, variant: Variant = "b") -> float:
    """Kendall's rank correlation of two vectors of shape (n,), in O(n log n), from exact integer counts.

    variant "a": mean over pairs of sign(dx) sign(dy) with sign(0) = 0; ties lower its modulus (Kendall 1938).
    variant "b": the same sum over the square root of (pairs untied in x) times (pairs untied in y)
    (Kendall 1945), equal to `scipy.stats.kendalltau`.

    Returns:
        The coefficient; NaN for fewer than two members, for tau-b also where x or y is constant.

    Raises:
        ValueError: for different lengths, values that are not finite, or an unknown variant.
    """
    check_variant(variant)
    first, second = paired_vectors(x, y)
    counts = count_pairs(order_of(first), order_of(second), once(len(first)))
    return float(tau(counts, variant)[0])


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's rho of two vectors of shape (n,): Pearson's correlation of the mid-ranks (ties share them).

    Returns:
        The coefficient; NaN for fewer than two members or where x or y is constant.

    Raises:
        ValueError: for different lengths or values that are not finite.
    """
    first, second = paired_vectors(x, y)
    return float(spearman_replicates(order_of(first), order_of(second), once(len(first)))[0])


def spearman_replicates(x: Order, y: Order, multiplicities: Multiplicities) -> NDArray[np.float64]:
    """Spearman's rho in every replicate.

    The rank of member i is the weight of the *other* members below it plus half the weight of those equal to
    it, so that a member's copies never are compared with each other; members count with their multiplicity.

    Returns:
        shape (replicates,).
    """
    found = _spearman(x.members, x.starts, x.rank, y.members, y.starts, y.rank, multiplicities.narrow)
    return found.reshape(-1)[: multiplicities.replicates]


def tau(counts: PairCounts, variant: Variant) -> NDArray[np.float64]:
    """The chosen coefficient of every replicate."""
    return counts.tau_a() if variant == "a" else counts.tau_b()


def check_variant(variant: str) -> None:
    """Refuse what is no variant of tau.

    Raises:
        ValueError: unless `variant` is "a" or "b".
    """
    if variant not in ("a", "b"):
        raise ValueError(f"variant must be 'a' or 'b', not {variant!r}")


def paired_vectors(x: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two finite float64 vectors of one length.

    Returns:
        Both, of shape (n,).

    Raises:
        ValueError: for different shapes, more than one dimension, or values that are not finite.
    """
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(f"two vectors of one length are needed, not shapes {first.shape} and {second.shape}")
    for name, vector in (("x", first), ("y", second)):
        bad = np.flatnonzero(~np.isfinite(vector))
        if len(bad):
            raise ValueError(
                f"{name} has {len(bad)} values that are not finite (first at position {bad[0]}): "
                "leave these members out and report how many there were"
            )
    return first, second


def mid_ranks(order: Order) -> NDArray[np.float64]:
    """Number of members below plus half of the others that are equal, shape (n,)."""
    size = np.diff(order.starts)
    return (order.starts[:-1] + (size - 1) / 2)[order.rank]


@compiled
def _ranks(members: Whole, starts: Whole, weight: Whole) -> Floats:
    """Weight of the other members below plus half that of those equal, shape (n, LANES)."""
    result = np.empty((members.shape[0], LANES))
    below = np.zeros(LANES)
    mass = np.zeros(LANES)
    for level in range(starts.shape[0] - 1):
        mass[:] = 0.0
        for place in range(starts[level], starts[level + 1]):
            for lane in range(LANES):
                mass[lane] += weight[members[place], lane]
        for place in range(starts[level], starts[level + 1]):
            for lane in range(LANES):
                own = weight[members[place], lane]
                result[members[place], lane] = below[lane] + 0.5 * (mass[lane] - own)
        for lane in range(LANES):
            below[lane] += mass[lane]
    return result


@compiled
def _spearman(
    x_members: Whole,
    x_starts: Whole,
    x_rank: Whole,
    y_members: Whole,
    y_starts: Whole,
    y_rank: Whole,
    weights: Whole,
) -> Floats:
    result = np.full((weights.shape[0], LANES), np.nan)
    for block in range(weights.shape[0]):
        weight = weights[block]
        rank_x = _ranks(x_members, x_starts, weight)
        rank_y = _ranks(y_members, y_starts, weight)
        total = np.zeros(LANES)
        mean = np.zeros((2, LANES))
        lowest = np.full((2, LANES), weight.shape[0])
        highest = np.full((2, LANES), -1)
        for member in range(weight.shape[0]):
            for lane in range(LANES):
                w = weight[member, lane]
                total[lane] += w
                mean[0, lane] += w * rank_x[member, lane]
                mean[1, lane] += w * rank_y[member, lane]
                if w > 0:
                    lowest[0, lane] = min(lowest[0, lane], x_rank[member])
                    highest[0, lane] = max(highest[0, lane], x_rank[member])
                    lowest[1, lane] = min(lowest[1, lane], y_rank[member])
                    highest[1, lane] = max(highest[1, lane], y_rank[member])
        moments = np.zeros((3, LANES))
        for member in range(weight.shape[0]):
            for lane in range(LANES):
                w = weight[member, lane]
                dx = rank_x[member, lane] - mean[0, lane] / max(total[lane], 1.0)
                dy = rank_y[member, lane] - mean[1, lane] / max(total[lane], 1.0)
                moments[0, lane] += w * dx * dy
                moments[1, lane] += w * dx * dx
                moments[2, lane] += w * dy * dy
        for lane in range(LANES):
            varies = lowest[0, lane] < highest[0, lane] and lowest[1, lane] < highest[1, lane]
            scale = np.sqrt(moments[1, lane] * moments[2, lane])
            if varies and scale > 0:
                result[block, lane] = min(1.0, max(-1.0, moments[0, lane] / scale))
    return result
