"""tau within groups (families, strata), in every bootstrap replicate, and its pair-weighted mean."""

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
