"""Rows of the rank coefficients of one proxy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.replicates import Estimate, Replicates, mean_estimate, mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Population, Scope
from gapbench_leaderboard.statistics.grouped import pair_weighted
from gapbench_leaderboard.statistics.intervals import two_sided_p
from gapbench_leaderboard.statistics.resampling import FEW_CONFIGURATIONS
from gapbench_leaderboard.statistics.signs import Signs, in_groups, weighted
from gapbench_leaderboard.statistics.strata import simpson_flag

Counted = tuple[NDArray[np.float64], Signs | None]
"""A coefficient under all multiplicities, shape (entries,), and the signs that it rests on."""


def headline_rows(rows: Rows, population: Population, proxy: str) -> None:
    """tau, its jackknife error, coverage, p-value against random and the mark of few configurations."""
    for scope in population.scopes():
        models = population.models(proxy, scope)
        values, sampling = population.headline(proxy, scope), population.sampling(scope)
        signs = population.signs(proxy, scope)
        rows.add_coefficient(proxy, "tau", values, models, scope, sampling, signs=signs, counted=True)
        rows.add(proxy, "tau_standard_error", float(sampling.standard_error(values)), models, scope)
        infinitesimal = population.linear(scope).standard_error(values[: 1 + sampling.replicates])
        rows.add(proxy, "tau_standard_error_infinitesimal", float(infinitesimal), models, scope)
        rows.add(proxy, "p_random", float(two_sided_p(values, sampling, signs=signs)), models, scope)
        rows.add(proxy, "coverage", population.coverage(proxy, scope), models, scope)
        few = population.configurations(proxy, scope) < FEW_CONFIGURATIONS
        rows.add(proxy, "unreliable", float(few), models, scope)


def coefficient_rows(rows: Rows, population: Population, proxy: str) -> None:
    """tau-a, tau-b and Spearman's rho pooled per task and within each family; their means over tasks."""
    for name in ("tau_a", "tau_b", "spearman"):
        pooled = []
        for part in population.having(proxy):
            mask = part.measured(proxy)
            if not mask.any():
                continue
            for scope, values in _coefficients(part, proxy, name).items():
                models, sampling = population.models(proxy, scope), population.sampling(scope)
                family = part.study.family_names.index(scope.family) if scope.family else None
                signs = part.signs("family" if scope.family else "task", mask, family)
                rows.add_coefficient(proxy, name, values, models, scope, sampling, signs=signs)
                if not scope.family:
                    pooled.append((values, signs))
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
        strata = part.groups("stratum", mask)
        family_of = part.study.family[np.flatnonzero(mask)][[index[0] for index in strata.members]]
        pooled = (part.grouped(proxy, "task", "b").tau[0], part.signs("task", mask))
        within = (grouped.mean(), part.signs("stratum", mask))
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
            chosen = zip(strata.members, strata.target, own)
            inside = [index for index, order, mine in chosen if mine and order.levels > 1]
            signs = in_groups(inside, part.study.configuration[np.flatnonzero(mask)])
            all_of_family = (families.tau[row], part.signs("family", mask, int(number)))
            _within_row(rows, population, proxy, scope, all_of_family, (value, signs))
    if within_all:
        _within_row(rows, population, proxy, Scope(), _mean(pooled_all), _mean(within_all))


def _axis_rows(rows: Rows, population: Population, proxy: str) -> None:
    for part in population.having(proxy):
        mask = part.measured(proxy)
        if not mask.any():
            continue
        for axis in part.grid_axes:
            within = part.grouped(proxy, f"axis:{axis}", "b").mean()
            if np.isfinite(within[0]):
                pooled = (part.grouped(proxy, "task", "b").tau[0], part.signs("task", mask))
                own = (within, part.signs(f"axis:{axis}", mask))
                _within_row(rows, population, proxy, Scope(part.study.task), pooled, own, f":{axis}")


def _within_row(
    rows: Rows,
    population: Population,
    proxy: str,
    scope: Scope,
    pooled: Counted,
    within: Counted,
    suffix: str = "",
) -> None:
    """`tau_within`, its difference from the pooled value, which rests on its signs, and the flag."""
    sampling, models = population.sampling(scope), population.models(proxy, scope)
    name, (values, signs) = f"tau_within{suffix}", within
    rows.add_coefficient(proxy, name, values, models, scope, sampling, signs=signs, counted=True)
    name, difference = f"tau_pooled_minus_within{suffix}", pooled[0] - values
    rows.add_coefficient(proxy, name, difference, models, scope, sampling, bounded=False, signs=signs)
    flag = simpson_flag(pooled[0], values, sampling, pooled[1], signs)
    rows.add(proxy, f"simpson{suffix}", float(flag), models, scope)


def partial_rows(rows: Rows, population: Population, proxy: str) -> None:
    """Partial tau given family and log parameters, and tau with the width within families."""
    partial, width = [], []
    for part in population.having(proxy):
        scope = Scope(part.study.task)
        models, sampling = population.models(proxy, scope), population.sampling(scope)
        found = part.partial(proxy) if part.measured(proxy).any() else None
        if found is not None:
            rows.add_coefficient(
                proxy,
                "tau_partial",
                found.values,
                models,
                scope,
                sampling,
                error=found.error,
                signs=found.signs,
            )
            partial.append(found)
        networks = part.study.networks
        if "width" in networks.columns and networks["width"].dtype.kind in "iuf":
            values, signs = part.against(proxy, networks["width"].to_numpy(dtype=np.float64))
            rows.add_coefficient(proxy, "tau_with_width", values, models, scope, sampling, signs=signs)
            width.append((values, signs))
    if partial:
        _estimate_row(rows, population, proxy, "tau_partial", mean_estimate(partial), Scope())
    _mean_row(rows, population, proxy, "tau_with_width", width)


def granulated_rows(rows: Rows, population: Population, proxy: str) -> None:
    """Granulated coefficient overall and per axis, per task and family, and its mean over tasks."""
    over_tasks: dict[str, list[Estimate]] = {}
    for part in population.having(proxy):
        names = part.study.family_names
        families: list[int | None] = [None, *range(len(names) if names != ("",) else 0)]
        for family in families:
            scope = Scope(part.study.task, "" if family is None else names[family])
            if not population.models(proxy, scope):
                continue
            for axis, estimate in part.granulated(proxy, family).items():
                name = f"granulated:{axis}" if axis else "granulated"
                _estimate_row(rows, population, proxy, name, estimate, scope)
                if family is None:
                    over_tasks.setdefault(name, []).append(estimate)
    for name, tasks in over_tasks.items():
        _estimate_row(rows, population, proxy, name, mean_estimate(tasks), Scope())


def _estimate_row(
    rows: Rows, population: Population, proxy: str, name: str, estimate: Estimate, scope: Scope
) -> None:
    models = population.models(proxy, scope) if estimate.models is None else estimate.models
    sampling = population.sampling(scope)
    rows.add_coefficient(
        proxy,
        name,
        estimate.values,
        models,
        scope,
        sampling,
        error=estimate.error,
        signs=estimate.signs,
        counted=name.startswith("granulated"),
    )


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
        found, signs = part.against(proxy, second)
        sampling = population.sampling(scope)
        rows.add_coefficient(proxy, "repeatability", found, both, scope, sampling, signs=signs)
        values.append((found, signs))
    _mean_row(rows, population, proxy, "repeatability", values)


def _mean_row(
    rows: Rows,
    population: Population,
    proxy: str,
    name: str,
    tasks: list[Counted],
) -> None:
    if tasks:
        scope, (values, signs) = Scope(), _mean(tasks)
        models, sampling = population.models(proxy, scope), population.sampling(scope)
        rows.add_coefficient(proxy, name, values, models, scope, sampling, signs=signs)


def _mean(tasks: list[Counted]) -> Counted:
    """The mean over tasks of those that are defined, and its signs."""
    signs = weighted([signs for values, signs in tasks if np.isfinite(values[0])])
    return mean_of([values for values, _ in tasks]), signs
