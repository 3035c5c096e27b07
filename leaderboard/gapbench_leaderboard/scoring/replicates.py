"""Bootstrap replicates of the coefficients of one study; entry 0 is the original sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.study import Study
from gapbench_leaderboard.statistics.configurations import axis_codes, group_codes, means
from gapbench_leaderboard.statistics.granulated import (
    Cells,
    axis_cells,
    cell_mean_error,
    cell_mean_replicates,
    signs_over_axes,
)
from gapbench_leaderboard.statistics.grouped import GroupedTau, Groups, equal_mean, grouped, of_families
from gapbench_leaderboard.statistics.matched import MatchedFamilies
from gapbench_leaderboard.statistics.mutual_information_replicates import TargetPairs
from gapbench_leaderboard.statistics.pairs import Multiplicities, PairCounts, lay_out, order_of
from gapbench_leaderboard.statistics.rank import spearman_replicates
from gapbench_leaderboard.statistics.resampling import (
    deletion_numbers,
    deletions,
    draw_configurations,
    generator,
)
from gapbench_leaderboard.statistics.signs import Signs, in_groups, weighted


@dataclass(frozen=True)
class ConfigurationMeans:
    """Means over seeds of the configurations that a proxy was measured on."""

    rows: NDArray[np.intp]
    """One network of each configuration, in the order of the arrays below."""
    networks: NDArray[np.int64]
    """Number of networks of each."""
    measure: NDArray[np.float64]
    target: NDArray[np.float64]


@dataclass(frozen=True)
class ReplicatedEstimate:
    """An estimate under all multiplicities, shape (entries,), with a standard error of its own."""

    values: NDArray[np.float64]
    error: float
    models: int | None = None
    """Networks that it rests on, where not all of the proxy's do."""
    signs: Signs | None = None


@dataclass
class Replicates:
    """Multiplicities of a study, and the coefficients of its proxies under them.

    All proxies and targets of a task share the same draws, so differences between proxies are paired. Entry 0
    of every array is the original sample, the next `replicates` are bootstrap samples, and in the others one
    configuration is deleted: of this study, or of another, where this one is as in the original.
    """

    study: Study
    replicates: int
    seed: int
    deleted_before: int = 0
    """Deletions in the studies before this one."""
    deleted: int = 0
    """Deletions in all studies; 0 for none at all."""
    _groups: dict[tuple[str, bytes], Groups] = field(default_factory=dict)
    _counts: dict[tuple[str, str, bytes], list[PairCounts]] = field(default_factory=dict)
    shared: dict[tuple[str, bytes], float] = field(default_factory=dict)
    """Numbers that depend on the networks measured, not on the proxy."""
    _axis_cells: dict[bytes, dict[str, Cells]] = field(default_factory=dict)
    _grid_codes: dict[bytes, NDArray[np.int64]] = field(default_factory=dict)
    _target_means: dict[bytes, NDArray[np.float64]] = field(default_factory=dict)
    target_pairs: dict[tuple[str, bytes], TargetPairs] = field(default_factory=dict)
    """Counts for K that depend on the networks measured and the target alone."""
    matched: dict[bytes, MatchedFamilies] = field(default_factory=dict)
    """Pairs that partial tau is taken over, for each set of networks."""
    _signs: dict[tuple[str, bytes, int | None], Signs | None] = field(default_factory=dict)

    @cached_property
    def draws(self) -> NDArray[np.int64]:
        """Multiplicities of configurations, shape (replicates + 1, configurations)."""
        random = generator(self.seed, "configurations", self.study.task)
        return draw_configurations(self.study.configurations, self.replicates, random)

    @cached_property
    def deletion(self) -> NDArray[np.int64]:
        """The number of the deletion of each configuration, among those of all studies."""
        random = generator(self.seed, "deletions", self.study.task)
        return self.deleted_before + deletion_numbers(self.study.configurations, random)

    @cached_property
    def multiplicities(self) -> Multiplicities:
        """Of the networks, under draws and deletions."""
        index = np.asarray(self.study.configuration, dtype=np.intp)
        return self.of_configurations.select(index)

    @cached_property
    def of_configurations(self) -> Multiplicities:
        """Of the configurations, under draws and deletions."""
        every = self.draws
        if self.deleted:
            every = np.concatenate([every, deletions(self.deletion, self.deleted)])
        return lay_out(every)

    @property
    def entries(self) -> int:
        """Length of all arrays of replicates."""
        return 1 + self.replicates + self.deleted

    def measured(self, proxy: str) -> NDArray[np.bool_]:
        """Networks on which the proxy was measured."""
        return np.isfinite(self.study.proxies[proxy])

    def groups(self, kind: str, mask: NDArray[np.bool_]) -> Groups:
        """The networks in `mask` split by "task" (one group), "family", "problem", "stratum", or "axis:<name>".

        The last three lie within (problem, family).

        Returns:
            The groups, the same object for the same kind and networks.
        """
        key = (kind, mask.tobytes())
        if key not in self._groups:
            index = np.flatnonzero(mask)
            self._groups[key] = Groups.of(
                self.codes(kind)[index], self.study.target[index], self.multiplicities.select(index)
            )
        return self._groups[key]

    def signs(self, kind: str, mask: NDArray[np.bool_], only: int | None = None) -> Signs | None:
        """The signs of tau over the groups of a kind, or within `only` one; None if none can be ranked."""
        key = (kind, mask.tobytes(), only)
        if key not in self._signs:
            own = self.study.configuration[np.flatnonzero(mask)]
            members = self.groups(kind, mask).ranked(only) if mask.any() else []
            self._signs[key] = in_groups(members, own)
        return self._signs[key]

    def signs_within(self, kind: str, mask: NDArray[np.bool_], family: int | None = None) -> Signs | None:
        """The signs that the equal mean over families of `within` rests on, or those of one family."""
        if not mask.any():
            return None
        groups, of_group = self.groups(kind, mask), self.family_of(kind, mask)
        own = self.study.configuration[np.flatnonzero(mask)]
        parts = []
        for number in range(len(self.study.family_names)) if family is None else (family,):
            key = (f"within {kind}", mask.tobytes(), number)
            if key not in self._signs:
                chosen = zip(groups.members, groups.target, of_group)
                self._signs[key] = in_groups(
                    [index for index, order, f in chosen if f == number and order.levels > 1], own
                )
            parts.append(self._signs[key])
        return weighted(parts)

    def counts(self, proxy: str, kind: str, mask: NDArray[np.bool_]) -> list[PairCounts]:
        """Pair counts of a proxy in each group, over the networks in `mask` (which it must have measured)."""
        key = (proxy, kind, mask.tobytes())
        if key not in self._counts:
            self._counts[key] = self.groups(kind, mask).counts(self.study.proxies[proxy][mask])
        return self._counts[key]

    def grouped(self, proxy: str, kind: str, variant: str) -> GroupedTau:
        """tau of a proxy in each group, over the networks that it was measured on."""
        mask = self.measured(proxy)
        groups = self.groups(kind, mask).groups
        return grouped(groups, self.counts(proxy, kind, mask), "a" if variant == "a" else "b")

    def within(self, proxy: str, kind: str, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
        """tau-b of a proxy in each family, pooled by pairs over the groups of a kind that lie within it.

        Args:
            proxy: its name.
            kind: "problem", "stratum" or "axis:<name>".
            mask: the networks that count, which the proxy must have measured.

        Returns:
            shape (families, entries); a group in which the proxy is constant counts 0; NaN for families in which
            no group can be ranked.
        """
        if not mask.any():
            return np.full((len(self.study.family_names), self.entries), np.nan)
        found = grouped(self.groups(kind, mask).groups, self.counts(proxy, kind, mask), "b")
        return of_families(found, self.family_of(kind, mask), len(self.study.family_names))

    def family_of(self, kind: str, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The family that each group of a kind lies in, shape (groups,)."""
        return self.groups(kind, mask).named(self.study.family[np.flatnonzero(mask)])

    def headline(self, proxy: str, mask: NDArray[np.bool_]) -> NDArray[np.float64]:
        """tau-b of a proxy within (problem, family), pooled by pairs over problems; shape (families, entries)."""
        return self.within(proxy, "problem", mask)

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

    def against(self, proxy: str, other: NDArray[np.float64]) -> tuple[NDArray[np.float64], Signs | None]:
        """The headline of a proxy with another vector in the target's place, shape (entries,), and its signs."""
        mask = self.measured(proxy) & np.isfinite(other)
        if not mask.any():
            return np.full(self.entries, np.nan), None
        index = np.flatnonzero(mask)
        groups = Groups.of(self.codes("problem")[index], other[index], self.multiplicities.select(index))
        family = groups.named(self.study.family[index])
        found = groups.tau(self.study.proxies[proxy][index], "b")
        ranked = [
            [
                own
                for own, order, f in zip(groups.members, groups.target, family)
                if f == number and order.levels > 1
            ]
            for number in np.unique(family)
        ]
        signs = weighted([in_groups(own, self.study.configuration[index]) for own in ranked])
        return equal_mean(of_families(found, family, len(self.study.family_names))), signs

    def means(self, proxy: str, family: int | None = None) -> ConfigurationMeans:
        """Means over seeds, of all configurations or those of a family."""
        mask = self.measured(proxy)
        if family is not None:
            mask = mask & (self.study.family == family)
        index = np.flatnonzero(mask)
        codes, first, row_of = np.unique(
            self.study.configuration[index], return_index=True, return_inverse=True
        )
        row_of = row_of.reshape(-1).astype(np.int64)
        key = index.tobytes()
        if key not in self._target_means:
            self._target_means[key] = means(self.study.target[index], row_of, len(codes))
        return ConfigurationMeans(
            rows=index[first],
            networks=np.bincount(row_of, minlength=len(codes)),
            measure=means(self.study.proxies[proxy][index], row_of, len(codes)),
            target=self._target_means[key],
        )

    def granulated(self, proxy: str, family: int | None = None) -> dict[str, ReplicatedEstimate]:
        """Granulated coefficient of each axis (tau-a, means over seeds) and their mean (Jiang et al. 2020).

        Cells never reach across families: the family is held fixed like the other axes.

        Returns:
            Axis -> estimate, "" for the mean; axes without a cell are left out.
        """
        if not self.measured(proxy).any():
            return {}
        found = self.means(proxy, family)
        drawn = self.multiplicities.select(found.rows)
        used = {axis: cells for axis, cells in self._cells(found.rows).items() if cells.count}
        per_axis = {
            axis: ReplicatedEstimate(
                cell_mean_replicates(found.measure, found.target, cells, drawn),
                cell_mean_error(found.measure, found.target, [cells]),
                int(found.networks[_members([cells])].sum()),
                cells.signs(),
            )
            for axis, cells in used.items()
        }
        if per_axis:
            mean = mean_of([estimate.values for estimate in per_axis.values()])
            error = cell_mean_error(found.measure, found.target, list(used.values()))
            models = int(found.networks[_members(used.values())].sum())
            per_axis[""] = ReplicatedEstimate(mean, error, models, signs_over_axes(list(used.values())))
        return per_axis

    @property
    def grid_axes(self) -> tuple[str, ...]:
        """The axes of the suite, and the width where the table has one."""
        width = ("width",) if "width" in self.study.networks.columns else ()
        return tuple(dict.fromkeys([*width, *self.study.axes]))

    def grid_codes(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Levels of the family and of the axes of the grid, shape (rows, 1 + axes)."""
        key = rows.tobytes()
        if key not in self._grid_codes:
            codes = axis_codes(self.study.networks.iloc[rows], self.grid_axes)
            self._grid_codes[key] = np.column_stack([self.study.family[rows], codes])
        return self._grid_codes[key]

    def _cells(self, rows: NDArray[np.intp]) -> dict[str, Cells]:
        key = rows.tobytes()
        if key not in self._axis_cells:
            codes = self.grid_codes(rows)
            self._axis_cells[key] = {
                axis: axis_cells(codes, position + 1) for position, axis in enumerate(self.grid_axes)
            }
        return self._axis_cells[key]

    def codes(self, kind: str) -> NDArray[np.int64]:
        """Group numbers of all networks, shape (networks,)."""
        if kind == "task":
            return np.zeros(self.study.size, dtype=np.int64)
        if kind == "family":
            return self.study.family
        if kind == "problem":
            return self._within_problem(())
        if kind == "stratum":
            return self._within_problem(self.study.strata)
        if kind.startswith("axis:"):
            return self._within_problem([kind.removeprefix("axis:")])
        raise ValueError(f"unknown kind of group {kind!r}")

    def _within_problem(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """Networks of equal problem and family that agree on the columns as well."""
        study = self.study
        return group_codes(
            np.column_stack([study.problem, study.family, axis_codes(study.networks, list(columns))])
        )


def mean_of(values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Mean over arrays that are defined in the original sample (entry 0); other NaN entries drop out."""
    defined = [array for array in values if np.isfinite(array[0])]
    if not defined:
        return np.full(len(values[0]) if values else 1, np.nan)
    return equal_mean(np.stack(defined))


def mean_estimate(estimates: Sequence[ReplicatedEstimate]) -> ReplicatedEstimate:
    """Mean of estimates of independent studies, of those that are defined in the original sample."""
    errors = [estimate.error for estimate in estimates if np.isfinite(estimate.values[0])]
    error = float(np.sqrt(np.square(errors).sum()) / len(errors)) if errors else float("nan")
    known = [estimate.models for estimate in estimates if estimate.models is not None]
    models = sum(known) if len(known) == len(estimates) else None
    signs = weighted([estimate.signs for estimate in estimates if np.isfinite(estimate.values[0])])
    return ReplicatedEstimate(mean_of([estimate.values for estimate in estimates]), error, models, signs)


def _members(axes: Iterable[Cells]) -> NDArray[np.int64]:
    """The configurations that have a pair in some cell."""
    return np.unique(np.concatenate([np.concatenate([cells.first, cells.second]) for cells in axes]))
