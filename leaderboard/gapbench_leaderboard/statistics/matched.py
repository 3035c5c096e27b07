"""tau over matched pairs of one problem and family: by pairs over the problems of a family, families equally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.dyads import Dyads
from gapbench_leaderboard.statistics.grouped import GroupedTau, equal_mean, grouped, of_families
from gapbench_leaderboard.statistics.pair_lists import PairList, count_dyads
from gapbench_leaderboard.statistics.pairs import Multiplicities
from gapbench_leaderboard.statistics.partial import matched_pairs, tau_b_influence
from gapbench_leaderboard.statistics.signs import FEW_SIGNS, Signs, disjoint_pairs, weighted


@dataclass(frozen=True)
class MatchedFamilies:
    """The matched pairs of networks of each (problem, family), with the configurations that they join.

    Attributes:
        family: of each group, shape (groups,).
        families: how many there are.
        pairs: of each group, positions of networks.
        dyads: likewise, of configurations.
        multiplicities: of the configurations.
        configurations: how many there are.
    """

    family: NDArray[np.int64]
    families: int
    pairs: tuple[PairList, ...]
    dyads: tuple[Dyads, ...]
    multiplicities: Multiplicities
    configurations: int

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        given: Sequence[str],
        group: NDArray[np.int64],
        family: NDArray[np.int64],
        configuration: NDArray[np.int64],
        multiplicities: Multiplicities,
    ) -> MatchedFamilies:
        """From networks, a row each of `frame`.

        Args:
            frame: with the columns `given`.
            given: columns that pairs are matched on.
            group: number of each network's (problem, family).
            family: number of its family.
            configuration: of its configuration, among those of `multiplicities`.
            multiplicities: of configurations.

        Returns:
            The pairs.
        """
        every = matched_pairs(frame, given, group=group)
        of_pair = group[every.first]
        numbers = np.unique(of_pair)
        places = [np.flatnonzero(of_pair == number) for number in numbers]
        pairs = tuple(PairList(every.first[own], every.second[own]) for own in places)
        count = multiplicities.members
        return cls(
            family=np.array([family[part.first[0]] for part in pairs], dtype=np.int64),
            families=int(family.max()) + 1 if len(family) else 0,
            pairs=pairs,
            dyads=tuple(
                Dyads.of(configuration[part.first], configuration[part.second], count) for part in pairs
            ),
            multiplicities=multiplicities,
            configurations=count,
        )

    def tau_b(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """The coefficient in each replicate, shape (replicates,)."""
        counts = [count_dyads(x, y, *own, self.multiplicities) for own in zip(self.pairs, self.dyads)]
        if not counts:
            return np.full(self.multiplicities.replicates, np.nan)
        found: GroupedTau = grouped(np.arange(len(counts)), counts, "b")
        return equal_mean(of_families(found, self.family, self.families))

    def standard_error(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
        """Standard error of the coefficient, over dyads of configurations; NaN if it is undefined.

        In a family tau = sum n_g tau_g / sum n_g over groups with n_g pairs, so that a pair of group g has the
        influence (n_g I + tau_g - tau) / sum n_g, where I is its influence on tau_g.

        Returns:
            The error.
        """
        used: list[Dyads] = []
        influences: list[NDArray[np.float64]] = []
        for number in np.unique(self.family):
            groups = [k for k in np.flatnonzero(self.family == number) if _untied(y, self.pairs[k])]
            total = sum(len(self.pairs[k]) for k in groups)
            found = [tau_b_influence(x, y, self.pairs[k]) for k in groups]
            values = [float(np.nan_to_num(value)) for value, _ in found]
            mean = (
                sum(len(self.pairs[k]) * value for k, value in zip(groups, values)) / total if total else 0.0
            )
            for k, value, (_, influence) in zip(groups, values, found):
                used.append(self.dyads[k])
                part = value - mean if len(groups) > 1 else 0.0
                influences.append((len(self.pairs[k]) * influence + part) / total)
        defined = len({int(self.family[k]) for k in range(len(self.pairs)) if _untied(y, self.pairs[k])})
        if not defined:
            return float("nan")
        joined = Dyads.joined(used, self.configurations)
        if joined is None:
            first, second = (
                np.concatenate([getattr(own, name)[own.dyad] for own in used]) for name in ("first", "second")
            )
            dyads = Dyads.of(first, second, self.configurations)
            return dyads.standard_error(np.concatenate(influences) / defined)
        dyads, order = joined
        sums = [
            np.bincount(own.dyad, influence / defined, len(own.first))
            for own, influence in zip(used, influences)
        ]
        return dyads.error_of_sums(np.concatenate(sums)[order])

    def signs(self, y: NDArray[np.float64]) -> Signs | None:
        """The signs that the coefficient rests on; None without a pair that can be ranked."""
        by_family = []
        for number in np.unique(self.family):
            groups = [k for k in np.flatnonzero(self.family == number) if _untied(y, self.pairs[k])]
            if groups:
                by_family.append(_signs([self.dyads[k] for k in groups]))
        return weighted(by_family)


def _untied(y: NDArray[np.float64], pairs: PairList) -> bool:
    return bool((y[pairs.first] != y[pairs.second]).any())


def _signs(dyads: Sequence[Dyads]) -> Signs:
    """The signs of a mean by pairs; where they are many, half of the configurations pair up."""
    first = np.concatenate([own.first for own in dyads])
    second = np.concatenate([own.second for own in dyads])
    count = sum(len(own.dyad) for own in dyads)
    few = count < FEW_SIGNS
    present = len(np.unique(np.concatenate([first, second])))
    disjoint = disjoint_pairs(first, second) if few else present // 2
    return Signs(count, max(1, disjoint), count)
