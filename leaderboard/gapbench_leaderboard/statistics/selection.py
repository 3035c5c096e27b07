"""Selection by a proxy: how many of the best it finds, and what its first choice costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .rank import paired_vectors


def precision_at_k(x: ArrayLike, y: ArrayLike, k: int) -> float:
    """Share of the k smallest targets among the k networks with the smallest proxy; in [0, 1].

    Small is good: the target is a gap or an error. Ties at either border are resolved by expectation over a
    random order of the tied networks, so the result does not depend on the order of rows. A random proxy has
    the expectation k / n.

    Raises:
        ValueError: unless 1 <= k <= n, or for values that are not finite.
    """
    proxy, target = paired_vectors(x, y)
    if not 1 <= k <= len(proxy):
        raise ValueError(f"k must lie between 1 and the number of networks {len(proxy)}, not {k}")
    return float((_chance_among(proxy, k) * _chance_among(target, k)).sum() / k)


def regret_at_1(x: ArrayLike, y: ArrayLike) -> float:
    """Target of the network with the smallest proxy minus the smallest target, in the target's unit; >= 0.

    Networks tied for the smallest proxy count with their mean.

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
