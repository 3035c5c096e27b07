"""tau within groups, in every bootstrap replicate: by pairs over the groups of a family, families equally."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.pairs import (
    Multiplicities,
    Order,
    PairCounts,
    count_pairs,
    order_of,
    tied_pairs,
)
from gapbench_leaderboard.statistics.rank import Variant, tau


@dataclass(frozen=True)
class GroupedTau:
    """tau of each group in each replicate, arrays of shape (groups, replicates)."""

    groups: NDArray[np.int64]
    """The group numbers that occur, ascending, shape (groups,)."""
    tau: NDArray[np.float64]
    """NaN where undefined."""
    weight: NDArray[np.float64]
    """Pairs that the group contributes; 0 where the target is constant or fewer than two members remain."""

    def mean(self) -> NDArray[np.float64]:
        """Pair-weighted mean over groups.

        A group in which the proxy is constant counts 0: ranking nothing earns nothing.

        Returns:
            shape (replicates,); NaN where no group can be ranked.
        """
        return pair_weighted(self.tau, self.weight)


def pair_weighted(tau_values: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """sum w tau / sum w over the first axis, undefined tau counting 0; NaN where all weights are 0."""
    total = weight.sum(axis=0)
    result = np.full(total.shape, np.nan)
    np.divide((weight * np.nan_to_num(tau_values)).sum(axis=0), total, out=result, where=total > 0)
    return result


def of_families(found: GroupedTau, family: NDArray[np.int64], families: int) -> NDArray[np.float64]:
    """tau of each family: the pair-weighted mean over its groups.

    Args:
        found: tau of the groups.
        family: number of the family that each group lies in, shape (groups,).
        families: how many there are.

    Returns:
        shape (families, replicates); NaN where no group of a family can be ranked: its target is constant in each,
        or it has fewer than two members in each.
    """
    result = np.full((families, found.tau.shape[1]), np.nan)
    for number in np.unique(family):
        own = family == number
        result[number] = pair_weighted(found.tau[own], found.weight[own])
    return result


def equal_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the first axis, each row counting alike, however many pairs it rests on.

    Returns:
        shape (replicates,): over the rows that are defined in a replicate; NaN where none is.
    """
    defined = np.isfinite(values)
    number = defined.sum(axis=0)
    total = np.where(defined, values, 0.0).sum(axis=0)
    mean: NDArray[np.float64] = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    return mean


@dataclass(frozen=True)
class Groups:
    """The members of each group with the target's order and the multiplicities, ready for many proxies."""

    groups: NDArray[np.int64]
    members: tuple[NDArray[np.intp], ...]
    target: tuple[Order, ...]
    multiplicities: tuple[Multiplicities, ...]
    tied: tuple[NDArray[np.int64], ...]
    """Pairs tied in the target, in each group and replicate."""

    @classmethod
    def of(
        cls, group: NDArray[np.int64], target: NDArray[np.float64], multiplicities: Multiplicities
    ) -> Groups:
        """Split the members by `group`, shape (members,)."""
        numbers = np.unique(group)
        members = tuple(np.flatnonzero(group == number) for number in numbers)
        whole = len(numbers) == 1
        orders = tuple(order_of(target[index]) for index in members)
        drawn = tuple(multiplicities if whole else multiplicities.select(index) for index in members)
        tied = tuple(tied_pairs(order, part) for order, part in zip(orders, drawn))
        return cls(numbers.astype(np.int64), members, orders, drawn, tied)

    def counts(self, proxy: NDArray[np.float64]) -> list[PairCounts]:
        """Pair counts of the proxy, shape (members,), with the target in each group."""
        return [
            count_pairs(order_of(proxy[index]), target, multiplicities, tied)
            for index, target, multiplicities, tied in zip(
                self.members, self.target, self.multiplicities, self.tied
            )
        ]

    def ranked(self, only: int | None = None) -> list[NDArray[np.intp]]:
        """The members of the groups that can be ranked: two or more, of different targets; `only` one of them."""
        return [
            index
            for number, index, target in zip(self.groups, self.members, self.target)
            if target.levels > 1 and (only is None or number == only)
        ]

    def named(self, of_members: NDArray[np.int64]) -> NDArray[np.int64]:
        """What all members of a group share, `of_members` of shape (members,), for each group."""
        return np.array([of_members[index[0]] for index in self.members], dtype=np.int64)

    def tau(self, proxy: NDArray[np.float64], variant: Variant) -> GroupedTau:
        """tau of the proxy in each group."""
        return grouped(self.groups, self.counts(proxy), variant)


def grouped(groups: NDArray[np.int64], counts: list[PairCounts], variant: Variant) -> GroupedTau:
    """tau of each group from its pair counts."""
    return GroupedTau(
        groups=groups,
        tau=np.stack([tau(count, variant) for count in counts]),
        weight=np.stack(
            [np.where(count.untied_y > 0, count.pairs, 0).astype(np.float64) for count in counts]
        ),
    )
