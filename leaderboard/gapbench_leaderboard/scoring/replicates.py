"""Bootstrap replicates of the rank coefficients of one study; entry 0 is the original sample."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.configurations import axis_codes, group_codes, means
from gapbench_leaderboard.statistics.granulated import Cells, axis_cells, cell_mean_replicates
from gapbench_leaderboard.statistics.grouped import GroupedTau, Groups, grouped
from gapbench_leaderboard.statistics.pairs import Multiplicities, lay_out, order_of
from gapbench_leaderboard.statistics.rank import spearman_replicates
from gapbench_leaderboard.statistics.resampling import draw_multiplicities, generator

from .study import Study


@dataclass(frozen=True)
class FamilyTau:
    """tau-b and pair weights of each family of a study, arrays of shape (families, replicates + 1)."""

    tau: NDArray[np.float64]
    weight: NDArray[np.float64]


@dataclass
class Replicates:
    """Multiplicities of a study, and the coefficients of its proxies under them.

    All proxies and targets of a task share the same draws, so differences between proxies are paired.
    """

    study: Study
    replicates: int
    seed: int
    _groups: dict[tuple[str, bytes], Groups] = field(default_factory=dict)
    _headline: dict[tuple[str, bytes], FamilyTau] = field(default_factory=dict)

    @cached_property
    def multiplicities(self) -> Multiplicities:
        random = generator(self.seed, "configurations", self.study.task)
        return lay_out(draw_multiplicities(self.study.configuration, self.replicates, random))

    def measured(self, proxy: str) -> NDArray[np.bool_]:
        """Networks on which the proxy was measured."""
        return np.isfinite(self.study.proxies[proxy])

    def groups(self, kind: str, mask: NDArray[np.bool_]) -> Groups:
        """The networks in `mask` split by "task" (one group), "family", or "stratum" (family and width)."""
        key = (kind, mask.tobytes())
        if key not in self._groups:
            index = np.flatnonzero(mask)
            self._groups[key] = Groups.of(
                self._codes(kind)[index], self.study.target[index], self.multiplicities.select(index)
            )
        return self._groups[key]

    def grouped(self, proxy: str, kind: str) -> dict[str, GroupedTau]:
        """tau-a and tau-b of a proxy in each group, over the networks that it was measured on."""
        mask = self.measured(proxy)
        groups = self.groups(kind, mask)
        if not len(groups.groups):
            return {}
        counts = groups.counts(self.study.proxies[proxy][mask])
        return {
            "tau_a": grouped(groups.groups, counts, "a"),
            "tau_b": grouped(groups.groups, counts, "b"),
        }

    def headline(self, proxy: str, mask: NDArray[np.bool_]) -> FamilyTau:
        """tau-b of a proxy in each family, over the networks in `mask` (which it must have measured)."""
        key = (proxy, mask.tobytes())
        if key not in self._headline:
            shape = (len(self.study.family_names), self.replicates + 1)
            tau, weight = np.full(shape, np.nan), np.zeros(shape)
            groups = self.groups("family", mask)
            if len(groups.groups):
                found = groups.tau(self.study.proxies[proxy][mask], "b")
                tau[found.groups], weight[found.groups] = found.tau, found.weight
            self._headline[key] = FamilyTau(tau, weight)
        return self._headline[key]

    def spearman(self, proxy: str, kind: str) -> dict[int, NDArray[np.float64]]:
        """Spearman's rho in each group."""
        mask = self.measured(proxy)
        groups, values = self.groups(kind, mask), self.study.proxies[proxy][mask]
        return {
            int(number): spearman_replicates(order_of(values[index]), target, multiplicities)
            for number, index, target, multiplicities in zip(
                groups.groups, groups.members, groups.target, groups.multiplicities
            )
        }

    def granulated(self, proxy: str, family: int | None = None) -> dict[str, NDArray[np.float64]]:
        """Granulated coefficient of each axis (tau-a, means over seeds) and, under "", their mean.

        Cells never reach across families: the family is held fixed like the other axes.
        """
        mask = self.measured(proxy)
        if family is not None:
            mask = mask & (self.study.family == family)
        if not mask.any():
            return {}
        index, axes = np.flatnonzero(mask), self.granulated_axes
        representative, row_of = np.unique(self.study.configuration[index], return_inverse=True)
        row_of = row_of.reshape(-1).astype(np.int64)
        first = index[np.unique(row_of, return_index=True)[1]]
        measure = means(self.study.proxies[proxy][index], row_of, len(representative))
        target = means(self.study.target[index], row_of, len(representative))
        drawn = self.multiplicities.select(first)
        per_axis = {
            axis: cell_mean_replicates(measure, target, cells, drawn)
            for axis, cells in self._cells(first, axes).items()
            if cells.count
        }
        if per_axis:
            stacked = np.stack(list(per_axis.values()))
            present = np.isfinite(stacked)
            total = np.where(present, stacked, 0.0).sum(axis=0)
            number = present.sum(axis=0)
            per_axis[""] = np.divide(total, number, out=np.full(len(total), np.nan), where=number > 0)
        return per_axis

    @property
    def granulated_axes(self) -> tuple[str, ...]:
        """The axes of the suite, and the width where the table has one."""
        width = ("width",) if "width" in self.study.networks.columns else ()
        return tuple(dict.fromkeys([*width, *self.study.axes]))

    def _cells(self, rows: NDArray[np.intp], axes: tuple[str, ...]) -> dict[str, Cells]:
        frame = self.study.networks.iloc[rows]
        codes = np.column_stack([self.study.family[rows], axis_codes(frame, axes)])
        return {axis: axis_cells(codes, position + 1) for position, axis in enumerate(axes)}

    def _codes(self, kind: str) -> NDArray[np.int64]:
        if kind == "task":
            return np.zeros(self.study.size, dtype=np.int64)
        if kind == "family":
            return self.study.family
        if kind == "stratum":
            return strata(self.study.networks, self.study.family)
        raise ValueError(f"unknown kind of group {kind!r}")


def strata(networks: pd.DataFrame, family: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each network's stratum (family, width)."""
    columns = [column for column in ("width",) if column in networks.columns]
    return group_codes(np.column_stack([family, axis_codes(networks, columns)]))
