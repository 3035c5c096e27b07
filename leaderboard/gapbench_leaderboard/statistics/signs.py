"""Coefficients that rest on few signs: their exact distribution in place of a standard error.

Every coefficient here is a mean over pairs of sign(dx) sign(dy). Where the pairs are few, an estimated standard
error says little, and none at all where all pairs agree. Of pairs that share networks only disjoint ones are
independent, so as many signs are counted as there are disjoint pairs; with the share p of those that agree, a
coefficient is 2 p - 1, and p has the interval of Clopper and Pearson (1934). It excludes 0 if and only if the
two-sided sign test has p < 0.05. A tie counts half; shares that are no multiple of 1 / m are interpolated by the
incomplete beta function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

FEW_SIGNS = 30
"""Below so many pairs a coefficient has the exact interval."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Signs:
    """How many signs a coefficient is a mean of.

    Where groups weigh differently, `pairs` and `disjoint` are the numbers of equally weighted signs that would
    have the same variance (Kish).
    """

    pairs: float
    """Pairs of networks, or of configurations where seeds are averaged."""
    disjoint: float
    """Of these, pairs that share no configuration; seeds of a single configuration share nothing."""
    total: int
    """All pairs, whatever they weigh."""

    @property
    def few(self) -> bool:
        """Whether the exact interval is due."""
        return self.pairs < FEW_SIGNS


def signs_of(configuration: NDArray[np.int64]) -> Signs:
    """The signs of tau over a group of networks whose configurations are given, shape (networks,)."""
    networks, distinct = len(configuration), len(np.unique(configuration))
    pairs = networks * (networks - 1) // 2
    return Signs(pairs, distinct // 2 if distinct > 1 else networks // 2, pairs)


def weighted(parts: Sequence[Signs | None], weights: Sequence[float] | None = None) -> Signs | None:
    """The signs of a mean over independent parts; equal weights if none are given; None without a part."""
    chosen = weights if weights is not None else [1.0] * len(parts)
    known = [
        (part, weight) for part, weight in zip(parts, chosen) if part is not None and part.total and weight
    ]
    if not known:
        return None
    share = np.array([weight for _, weight in known], dtype=np.float64)
    share /= share.sum()
    return Signs(
        float(1 / (share**2 / [part.pairs for part, _ in known]).sum()),
        float(1 / (share**2 / [part.disjoint for part, _ in known]).sum()),
        sum(part.total for part, _ in known),
    )


def sharing(parts: Sequence[Signs]) -> Signs | None:
    """The signs of a mean over parts that share networks: their errors may add up."""
    alone = weighted(parts)
    if alone is None:
        return None
    spread = np.mean([part.disjoint**-0.5 for part in parts])
    return Signs(alone.pairs, float(spread**-2), alone.total)


def in_groups(members: Sequence[NDArray[np.intp]], configuration: NDArray[np.int64]) -> Signs | None:
    """The signs of a pair-weighted mean of tau over groups of networks.

    Args:
        members: the networks of each group that counts, by position.
        configuration: of all networks, shape (networks,). Configurations that stand in several groups count once.

    Returns:
        The signs; None without a pair.
    """
    parts = [signs_of(configuration[index]) for index in members]
    found = weighted(parts, [part.total for part in parts])
    several = [np.unique(configuration[index]) for index in members]
    several = [own for own in several if len(own) > 1]
    if found is None or not several:
        return found
    places = np.concatenate(several)
    share = len(np.unique(places)) / len(places)
    return Signs(found.pairs, max(1.0, found.disjoint * share), found.total)


def between(group: NDArray[np.int64], configuration: NDArray[np.int64]) -> Signs | None:
    """The signs of tau over the pairs of networks of different groups, both of shape (networks,).

    Of n configurations, of which the largest group has m, min(floor(n / 2), n - m) pairs of different groups are
    disjoint.

    Returns:
        The signs; None without such a pair.
    """
    sizes = np.unique(group, return_counts=True)[1]
    pairs = (len(group) ** 2 - int((sizes**2).sum())) // 2
    if not pairs:
        return None
    distinct = np.unique(np.column_stack([group, configuration]), axis=0)[:, 0]
    largest = int(np.unique(distinct, return_counts=True)[1].max())
    return Signs(pairs, min(len(distinct) // 2, len(distinct) - largest), pairs)


def disjoint_pairs(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """Number of pairs of configurations, taken in their order, that share none with those taken before."""
    taken: set[int] = set()
    count = 0
    for one, other in zip(first.tolist(), second.tolist()):
        if one not in taken and other not in taken:
            taken |= {one, other}
            count += 1
    return count


def exact_interval(
    value: float, disjoint: float, reach: float = 1.0, level: float = 0.95
) -> tuple[float, float]:
    """Interval of Clopper and Pearson for a coefficient within [-reach, reach]; never of width 0."""
    agreeing, others = _counts(value, disjoint, reach)
    tail = (1 - level) / 2
    low = special.betaincinv(agreeing, others + 1, tail) if agreeing > 0 else 0.0
    high = special.betaincinv(agreeing + 1, others, 1 - tail) if others > 0 else 1.0
    return reach * (2 * float(low) - 1), reach * (2 * float(high) - 1)


def exact_p(value: float, disjoint: float, reach: float = 1.0) -> float:
    """Two-sided p-value of the sign test that the coefficient is 0."""
    agreeing, others = _counts(value, disjoint, reach)
    upper = special.betainc(agreeing, others + 1, 0.5) if agreeing > 0 else 1.0
    lower = special.betainc(others, agreeing + 1, 0.5) if others > 0 else 1.0
    return min(1.0, 2 * float(min(upper, lower)))


def _counts(value: float, disjoint: float, reach: float) -> tuple[float, float]:
    """Signs that agree and that do not; whole numbers where they are but for rounding."""
    agreeing = disjoint * (reach + value) / (2 * reach)
    if abs(agreeing - round(agreeing)) < _ROUNDING * max(1.0, disjoint):
        agreeing = float(round(agreeing))
    agreeing = min(max(agreeing, 0.0), disjoint)
    return agreeing, disjoint - agreeing


def unanimous_interval(
    value: float, disjoint: float, reach: float = 1.0, level: float = 0.95
) -> tuple[float, float]:
    """Interval of a coefficient that every pair agrees on, so that no deletion changes it.

    Were the mean mu below the value v, a pair in [-reach, reach] would say v with probability
    (reach + mu) / (reach + v) at most (Markov), and all disjoint ones with its power: the limits are where that is
    (1 - level) / 2. For v = reach this is the interval of Clopper and Pearson.

    Returns:
        (low, high).
    """
    if disjoint <= 0:
        return -reach, reach
    rest = ((1 - level) / 2) ** (1 / disjoint)
    return (reach + value) * rest - reach, reach - (reach - value) * rest


def unanimous_p(value: NDArray[np.float64], disjoint: float, reach: float = 1.0) -> NDArray[np.float64]:
    """Two-sided p-value that such a coefficient is 0: at most 2 (reach / (reach + |v|))^disjoint."""
    return np.minimum(1.0, 2.0 * (reach / (reach + np.abs(value))) ** disjoint)
