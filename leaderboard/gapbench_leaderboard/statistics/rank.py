"""Rank correlation of two vectors: Kendall's tau-a and tau-b, Spearman's rho."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .pairs import Multiplicities, Order, PairCounts, count_pairs, once, order_of

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
    """Spearman's rho in every replicate, shape (replicates,).

    The rank of member i is the weight of the *other* members below it plus half the weight of those equal to
    it, so that a member's copies never are compared with each other; members count with their multiplicity.
    """
    weight = multiplicities.matrix().astype(np.float64)
    rank_x, rank_y = weighted_ranks(x, weight), weighted_ranks(y, weight)
    total = weight.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        rank_x -= (weight * rank_x).sum(axis=1, keepdims=True) / total
        rank_y -= (weight * rank_y).sum(axis=1, keepdims=True) / total
        covariance = (weight * rank_x * rank_y).sum(axis=1)
        scale = np.sqrt((weight * rank_x**2).sum(axis=1)) * np.sqrt((weight * rank_y**2).sum(axis=1))
    distinct = (_levels_present(x, weight) > 1) & (_levels_present(y, weight) > 1)
    result = np.full(len(weight), np.nan)
    np.divide(covariance, scale, out=result, where=distinct & (scale > 0))
    return np.clip(result, -1.0, 1.0)


def tau(counts: PairCounts, variant: Variant) -> NDArray[np.float64]:
    """The chosen coefficient of every replicate."""
    return counts.tau_a() if variant == "a" else counts.tau_b()


def check_variant(variant: str) -> None:
    """Raises ValueError unless `variant` is "a" or "b"."""
    if variant not in ("a", "b"):
        raise ValueError(f"variant must be 'a' or 'b', not {variant!r}")


def paired_vectors(x: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two finite float64 vectors of one length.

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


def weighted_ranks(order: Order, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weight of the other members below plus half that of those equal; weight has shape (replicates, n)."""
    mass = _level_mass(order, weight)
    below = np.cumsum(mass, axis=1) - mass
    return (below + mass / 2)[:, order.rank] - weight / 2


def _level_mass(order: Order, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    if order.levels == 0:
        return np.zeros((len(weight), 0))
    return np.add.reduceat(weight[:, order.members], order.starts[:-1], axis=1)


def _levels_present(order: Order, weight: NDArray[np.float64]) -> NDArray[np.intp]:
    return (_level_mass(order, weight) > 0).sum(axis=1)
