"""Selection by a proxy: how many of the best it finds, and what its first choice costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapbench_leaderboard.statistics._compile import Floats, Integers, Whole, compiled
from gapbench_leaderboard.statistics.pairs import Order
from gapbench_leaderboard.statistics.rank import paired_vectors


def precision_at_k(x: ArrayLike, y: ArrayLike, k: int) -> float:
    """Share of the k smallest targets among the k networks with the smallest proxy.

    Small is good: the target is a gap or an error. Ties at either border are resolved by expectation over a
    random order of the tied networks, so the result does not depend on the order of rows. A random proxy has
    the expectation k / n.

    Returns:
        The share, in [0, 1].

    Raises:
        ValueError: unless 1 <= k <= n, or for values that are not finite.
    """
    proxy, target = paired_vectors(x, y)
    if not 1 <= k <= len(proxy):
        raise ValueError(f"k must lie between 1 and the number of networks {len(proxy)}, not {k}")
    return float((_chance_among(proxy, k) * _chance_among(target, k)).sum() / k)


def regret_at_1(x: ArrayLike, y: ArrayLike) -> float:
    """Target of the network with the smallest proxy minus the smallest target.

    Networks tied for the smallest proxy count with their mean.

    Returns:
        The regret, in the target's unit; >= 0.

    Raises:
        ValueError: without a network, or for values that are not finite.
    """
    proxy, target = paired_vectors(x, y)
    if not len(proxy):
        raise ValueError("regret needs at least one network")
    chosen = target[proxy == proxy.min()]
    return float(np.mean(chosen - target.min()))


def _chance_among(values: np.ndarray, k: int) -> np.ndarray:
    """Probability of each member to be among the k smallest, ties broken at random."""
    border = np.partition(values, k - 1)[k - 1]
    below, tied = values < border, values == border
    return np.where(below, 1.0, np.where(tied, (k - below.sum()) / tied.sum(), 0.0))


def selection_replicates(
    x: Order, y: Order, target: NDArray[np.float64], multiplicities: NDArray[np.int64], share: float
) -> NDArray[np.float64]:
    """Precision among the best `share` and regret of the first choice in each sample.

    Of the networks repeated by their multiplicities, shape (samples, networks); k = max(1, round(share n)).

    Returns:
        shape (2, samples); NaN for an empty sample.
    """
    sizes = multiplicities.sum(axis=1)
    k = np.array([max(1, round(share * int(size))) for size in sizes], dtype=np.int64)
    return _selection(x.members, x.starts, x.rank, y.members, y.starts, y.rank, target, multiplicities, k)


@compiled
def _border(members: Whole, starts: Whole, weight: Whole, k: int) -> tuple[int, int, int]:
    """The level at which the k-th smallest stands, the weight below it, and its weight."""
    below = 0
    for level in range(starts.shape[0] - 1):
        mass = 0
        for place in range(starts[level], starts[level + 1]):
            mass += weight[members[place]]
        if below + mass >= k and mass > 0:
            return level, below, mass
        below += mass
    return -1, 0, 0


@compiled
def _chance(rank: int, border: int, below: int, mass: int, k: int) -> float:
    if rank < border:
        return 1.0
    return (k - below) / mass if rank == border else 0.0


@compiled
def _selection(
    x_members: Whole,
    x_starts: Whole,
    x_rank: Whole,
    y_members: Whole,
    y_starts: Whole,
    y_rank: Whole,
    target: Floats,
    multiplicities: Whole,
    k: Integers,
) -> Floats:
    samples, size = multiplicities.shape
    result = np.full((2, samples), np.nan)
    for sample in range(samples):
        weight = multiplicities[sample]
        in_x, below_x, mass_x = _border(x_members, x_starts, weight, k[sample])
        in_y, below_y, mass_y = _border(y_members, y_starts, weight, k[sample])
        if in_x < 0:
            continue
        found = 0.0
        for member in range(size):
            if weight[member] > 0:
                chance = _chance(x_rank[member], in_x, below_x, mass_x, k[sample])
                found += weight[member] * chance * _chance(y_rank[member], in_y, below_y, mass_y, k[sample])
        result[0, sample] = found / k[sample]
        first, _, mass = _border(x_members, x_starts, weight, 1)
        least, _, _ = _border(y_members, y_starts, weight, 1)
        smallest = target[y_members[y_starts[least]]]
        lost = 0.0
        for place in range(x_starts[first], x_starts[first + 1]):
            member = x_members[place]
            lost += weight[member] * (target[member] - smallest)
        result[1, sample] = lost / mass
    return result
