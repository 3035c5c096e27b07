"""Rows of the rank coefficients of one proxy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.grouped import pair_weighted
from gapbench_leaderboard.statistics.intervals import two_sided_p
from gapbench_leaderboard.statistics.resampling import FEW_CONFIGURATIONS
from gapbench_leaderboard.statistics.strata import simpson_flag

from .replicates import Replicates, mean_of
from .rows import Rows
from .scope import Population, Scope


def headline_rows(rows: Rows, population: Population, proxy: str) -> None:
    """tau, its jackknife error, coverage, p-value against random and the mark of few configurations."""
    for scope in population.scopes():
        models = population.models(proxy, scope)
        values, linear = population.headline(proxy, scope), population.linear(scope)
        rows.add_coefficient(proxy, "tau", values, models, scope, linear)
        rows.add(proxy, "tau_standard_error", float(linear.standard_error(values)), models, scope)
        rows.add(proxy, "p_random", float(two_sided_p(values, linear)), models, scope)
        rows.add(proxy, "coverage", population.coverage(proxy, scope), models, scope)
        few = population.configurations(proxy, scope) < FEW_CONFIGURATIONS
        rows.add(proxy, "unreliable", float(few), models, scope)


def coefficient_rows(rows: Rows, population: Population, proxy: str) -> None:
    """tau-a, tau-b and Spearman's rho pooled per task and within each family; their means over tasks."""
    for name in ("tau_a", "tau_b", "spearman"):
        pooled = []
        for part in population.having(proxy):
            if not part.measured(proxy).any():
                continue
            for scope, values in _coefficients(part, proxy, name).items():
                models = population.models(proxy, scope)
                linear = population.linear(scope)
                recentre = name != "spearman"  # its replicates are biased by ranks, as the value itself is
                rows.add_coefficient(proxy, name, values, models, scope, linear, recentre=recentre)
                if not scope.family:
                    pooled.append(values)
        _mean_row(rows, population, proxy, name, pooled)


def _coefficients(part: Replicates, proxy: str, name: str) -> dict[Scope, NDArray[np.float64]]:
    found = {}
    for kind in ("task",) if part.study.family_names == ("",) else ("task", "family"):
        if name == "spearman":
            by_group = part.spearman(proxy, kind)
        else:
            grouped = part.grouped(proxy, kind, name[-1])
            by_group = {int(number): grouped.tau[row] for row, number in enumerate(grouped.groups)}
        for number, values in by_group.items():
            family = part.study.family_names[number] if kind == "family" else ""
            found[Scope(part.study.task, family)] = values
    return found


def within_rows(rows: Rows, population: Population, proxy: str) -> None:
    """tau-b within strata, its paired difference from the pooled value, and the Simpson flag.

    The same for each single axis held fixed, as far as a value of it has networks to be compared.
    """
    within_all, pooled_all = [], []
    _axis_rows(rows, population, proxy)
    for part in population.having(proxy):
        mask = part.measured(proxy)
        if not mask.any() or not part.study.strata:
            continue
        grouped = part.grouped(proxy, "stratum", "b")
        members = part.groups("stratum", mask).members
        family_of = part.study.family[np.flatnonzero(mask)][[index[0] for index in members]]
        pooled = part.grouped(proxy, "task", "b").tau[0]
        within = grouped.mean()
        _within_row(rows, population, proxy, Scope(part.study.task), pooled, within)
        within_all.append(within)
        pooled_all.append(pooled)
        if part.study.family_names == ("",) or "family" not in part.study.strata:
            continue
        families = part.grouped(proxy, "family", "b")
        for row, number in enumerate(families.groups):
            own = family_of == number
            scope = Scope(part.study.task, part.study.family_names[number])
            value = pair_weighted(grouped.tau[own], grouped.weight[own])
            _within_row(rows, population, proxy, scope, families.tau[row], value)
    if within_all:
        _within_row(rows, population, proxy, Scope(), mean_of(pooled_all), mean_of(within_all))


def _axis_rows(rows: Rows, population: Population, proxy: str) -> None:
    for part in population.having(proxy):
        if not part.measured(proxy).any():
            continue
        for axis in part.grid_axes:
            within = part.grouped(proxy, f"axis:{axis}", "b").mean()
            if np.isfinite(within[0]):
                pooled = part.grouped(proxy, "task", "b").tau[0]
                _within_row(rows, population, proxy, Scope(part.study.task), pooled, within, f":{axis}")


def _within_row(
    rows: Rows,
    population: Population,
    proxy: str,
    scope: Scope,
    pooled: NDArray[np.float64],
    within: NDArray[np.float64],
    suffix: str = "",
) -> None:
    linear, models = population.linear(scope), population.models(proxy, scope)
    rows.add_coefficient(proxy, f"tau_within{suffix}", within, models, scope, linear)
    rows.add_coefficient(
        proxy, f"tau_pooled_minus_within{suffix}", pooled - within, models, scope, linear, bounded=False
    )
    rows.add(proxy, f"simpson{suffix}", float(simpson_flag(pooled, within, linear)), models, scope)


def partial_rows(rows: Rows, population: Population, proxy: str) -> None:
    """Partial tau given family and log parameters, and tau with the width within families."""
    partial, width = [], []
    for part in population.having(proxy):
        scope = Scope(part.study.task)
        models, linear = population.models(proxy, scope), population.linear(scope)
        counts = part.partial(proxy) if part.measured(proxy).any() else None
        if counts is not None:
            values = counts.tau_b()
            rows.add_coefficient(proxy, "tau_partial", values, models, scope, linear)
            partial.append(values)
        networks = part.study.networks
        if "width" in networks.columns and networks["width"].dtype.kind in "iuf":
            values = part.against(proxy, networks["width"].to_numpy(dtype=np.float64))
            rows.add_coefficient(proxy, "tau_with_width", values, models, scope, linear)
            width.append(values)
    _mean_row(rows, population, proxy, "tau_partial", partial)
    _mean_row(rows, population, proxy, "tau_with_width", width)


def granulated_rows(rows: Rows, population: Population, proxy: str) -> None:
    """Granulated coefficient overall and per axis, per task and family, and its mean over tasks."""
    over_tasks: dict[str, list[NDArray[np.float64]]] = {}
    for part in population.having(proxy):
        names = part.study.family_names
        families: list[int | None] = [None, *range(len(names) if names != ("",) else 0)]
        for family in families:
            scope = Scope(part.study.task, "" if family is None else names[family])
            if not population.models(proxy, scope):
                continue
            for axis, values in part.granulated(proxy, family).items():
                name = f"granulated:{axis}" if axis else "granulated"
                _granulated_row(rows, population, proxy, name, values, scope)
                if family is None:
                    over_tasks.setdefault(name, []).append(values)
    for name, tasks in over_tasks.items():
        _granulated_row(rows, population, proxy, name, mean_of(tasks), Scope())


def _granulated_row(
    rows: Rows, population: Population, proxy: str, name: str, values: NDArray[np.float64], scope: Scope
) -> None:
    """Part of the non-linear variance stays: cells that drop out of replicates are not an artefact alone."""
    models, linear = population.models(proxy, scope), population.linear(scope)
    rows.add_coefficient(proxy, name, values, models, scope, linear, recentre=False, removed=0.5)


def repeatability_rows(rows: Rows, population: Population, proxy: str) -> None:
    """tau-b within families between two independent measurements, where both were made."""
    values = []
    for part in population.having(proxy):
        if proxy not in part.study.repeats:
            continue
        second = part.study.repeats[proxy]
        scope = Scope(part.study.task)
        both = int((part.measured(proxy) & np.isfinite(second)).sum())
        if both < 2:
            continue
        found = part.against(proxy, second)
        rows.add_coefficient(proxy, "repeatability", found, both, scope, population.linear(scope))
        values.append(found)
    _mean_row(rows, population, proxy, "repeatability", values)


def _mean_row(
    rows: Rows,
    population: Population,
    proxy: str,
    name: str,
    tasks: list[NDArray[np.float64]],
) -> None:
    if tasks:
        scope = Scope()
        models, linear = population.models(proxy, scope), population.linear(scope)
        recentre = name != "spearman"
        rows.add_coefficient(proxy, name, mean_of(tasks), models, scope, linear, recentre=recentre)
