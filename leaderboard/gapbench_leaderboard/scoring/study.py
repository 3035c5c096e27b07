"""One table of ranked networks per task and target: who is in, who is left out and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.configurations import (
    TableError,
    axis_codes,
    group_codes,
    numeric,
    require_columns,
)
from gapbench_leaderboard.statistics.noise import TestNoise

DIRECTIONS = ("worse", "better")
REQUIRED_POPULATION = ("cell", "task", "status")
REQUIRED_MEASUREMENTS = ("cell", "proxy", "value", "status")
LOG_PARAMETERS = "log(parameters)"
FRACTIONS = ("gap", "gap_noisy", "test_error")
"""Targets that are fractions of a test set, for which a test size means something."""


@dataclass(frozen=True)
class Study:
    """The networks of one task that can be ranked by one target, with all proxies.

    Values of proxies are oriented: larger predicts a larger target. NaN is a measurement that is missing.
    """

    task: str
    networks: pd.DataFrame
    """The rows of the population, with the index 0..n-1."""
    axes: tuple[str, ...]
    target_name: str
    target: NDArray[np.float64]
    configuration: NDArray[np.int64]
    """Number of each network's configuration, 0..configurations-1."""
    family: NDArray[np.int64]
    family_names: tuple[str, ...]
    problem: NDArray[np.int64]
    """Number of each network's problem, 0..: networks of one number learned from the same data."""
    proxies: Mapping[str, NDArray[np.float64]]
    repeats: Mapping[str, NDArray[np.float64]]
    """A second, independent measurement of some proxies."""
    strata: tuple[str, ...]
    """Columns within which, beside problem and family, nothing but the proxy should matter: the width."""
    given: tuple[str, ...]
    """Columns that partial tau holds fixed."""
    noise: TestNoise | None = None
    test_size: int | None = None
    """Test examples, the smallest number of any network."""

    @property
    def size(self) -> int:
        """Number of networks."""
        return len(self.networks)

    @property
    def configurations(self) -> int:
        """Number of configurations."""
        return int(self.configuration.max()) + 1 if self.size else 0

    @property
    def problems(self) -> int:
        """Number of problems."""
        return int(self.problem.max()) + 1 if self.size else 0

    def with_proxies(self, proxies: Mapping[str, NDArray[np.float64]]) -> Study:
        """The same study with further proxies; names that exist already keep their measured values."""
        return replace(self, proxies={**proxies, **self.proxies})


def check_tables(
    population: pd.DataFrame,
    measurements: pd.DataFrame,
    targets: Sequence[str],
    axes: Sequence[str],
    problem: Sequence[str] = (),
) -> None:
    """Refuse tables that cannot be scored.

    Raises:
        TableError: missing columns, a cell that occurs twice, a proxy measured twice on a cell (with the same
            `repeat`), measurements of unknown cells, a string in place of a list of columns, or a column of the
            problem that is no axis.
    """
    for name, value in (("targets", targets), ("axes", axes)):
        if isinstance(value, str):
            raise TableError(f"{name} must be a list of column names, not the string {value!r}")
    check_problem(problem, axes)
    if not targets:
        raise TableError("at least one target is needed")
    require_columns(population, [*REQUIRED_POPULATION, *targets, *axes])
    repeated = population.columns[population.columns.duplicated()]
    if len(repeated):
        raise TableError(f"the population has several columns named {repeated[0]!r}; names must be unique")
    for axis in axes:
        if axis in (*REQUIRED_POPULATION, *targets):
            raise TableError(
                f"{axis!r} cannot be an axis: it is the target or a column with a meaning of its own"
            )
    require_columns(measurements, REQUIRED_MEASUREMENTS)
    twice = population["cell"][population["cell"].duplicated()]
    if len(twice):
        raise TableError(
            f"{len(twice)} cells of the population occur more than once, first {twice.iloc[0]!r}"
        )
    key = ["cell", "proxy", *(c for c in ("repeat",) if c in measurements.columns)]
    double = measurements[measurements.duplicated(key)]
    if len(double):
        first = double.iloc[0]
        raise TableError(
            f"{len(double)} measurements repeat a proxy on a cell, "
            f"first {first['proxy']!r} on {first['cell']!r}"
        )
    unknown = measurements["cell"][~measurements["cell"].isin(population["cell"])]
    if len(unknown):
        raise TableError(
            f"{len(unknown)} measurements are of cells that the population lacks, first {unknown.iloc[0]!r}"
        )


def check_problem(problem: Sequence[str], axes: Sequence[str]) -> None:
    """Refuse what cannot tell problems apart.

    Raises:
        TableError: for a string in place of a list, or a column that is no axis.
    """
    if isinstance(problem, str):
        raise TableError(f"problem must be a list of column names, not the string {problem!r}")
    if not isinstance(problem, Iterable):
        raise TableError(f"problem must be a list of column names, not {problem!r}")
    for column in problem:
        if column not in axes:
            raise TableError(
                f"{column!r} can tell problems apart only if it is one of the axes: {', '.join(map(str, axes))}"
            )


def orientation(proxies: Sequence[str], higher_means: Mapping[str, str] | None) -> dict[str, float]:
    """+1 where a larger value predicts a larger target ("worse", the default), -1 for "better".

    Returns:
        Proxy -> sign.

    Raises:
        TableError: for a direction that is neither.
    """
    signs = {}
    for proxy in proxies:
        direction = (higher_means or {}).get(proxy, "worse")
        if direction not in DIRECTIONS:
            raise TableError(f"higher_means of {proxy!r} must be 'worse' or 'better', not {direction!r}")
        signs[proxy] = 1.0 if direction == "worse" else -1.0
    return signs


def split_repeats(measurements: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """First and second measurements: `repeat` 0 (or no such column) and `repeat` 1."""
    if "repeat" not in measurements.columns:
        return measurements, measurements.iloc[:0]
    number = numeric(measurements, "repeat")
    return measurements[~(number > 0)], measurements[number == 1]


def measured(
    population: pd.DataFrame,
    measurements: pd.DataFrame,
    proxies: Sequence[str],
    higher_means: Mapping[str, str] | None,
) -> pd.DataFrame:
    """Oriented values, a row per cell of the population, a column per proxy; NaN unless `ok` and finite."""
    signs = orientation(proxies, higher_means)
    valid = measurements[measurements["status"] == "ok"]
    values = pd.Series(numeric(valid, "value"), index=valid.index)
    wide = (
        pd.DataFrame({"cell": valid["cell"], "proxy": valid["proxy"].astype(str), "value": values})
        .pivot(index="cell", columns="proxy", values="value")
        .reindex(index=population["cell"], columns=list(proxies))
        .astype(np.float64)
    )
    wide = wide.where(np.isfinite(wide))
    return wide * pd.Series(signs, dtype=np.float64).reindex(list(proxies))


def studies(
    population: pd.DataFrame,
    values: pd.DataFrame,
    repeats: pd.DataFrame,
    target: str,
    axes: Sequence[str],
    ranked_status: Collection[str],
    strata: Sequence[str] | None = None,
    given: Sequence[str] | None = None,
    seed_column: str = "",
    problem: Sequence[str] = (),
) -> list[Study]:
    """One study per task, tasks in sorted order: networks of the ranked status with a finite target.

    `strata` defaults to family and width, `given` to family and the logarithm of the number of parameters,
    each as far as the table has them. `problem` are the axes that change the data: networks that agree on them
    are of one problem.

    Returns:
        Tasks without such a network have none.
    """
    eligible = population["status"].isin(list(ranked_status)).to_numpy() & np.isfinite(
        numeric(population, target)
    )
    by_task = population["task"].astype(str).to_numpy()
    result = []
    for task in sorted(set(by_task)):
        chosen = eligible & (by_task == task)
        if not chosen.any():
            continue
        order = np.flatnonzero(chosen)[_own_order(population.loc[chosen], target, axes, seed_column)]
        networks = population.iloc[order].reset_index(drop=True)
        if "parameters" in networks.columns:
            with np.errstate(divide="ignore", invalid="ignore"):
                networks[LOG_PARAMETERS] = np.log(numeric(networks, "parameters"))
        families = _families(networks)
        names = tuple(sorted(set(families)))
        columns = networks.columns
        result.append(
            Study(
                task=task,
                networks=networks,
                axes=tuple(axes),
                target_name=target,
                target=numeric(networks, target),
                configuration=group_codes(axis_codes(networks, identifying(networks, axes))),
                family=np.searchsorted(np.array(names, dtype=str), families.astype(str)).astype(np.int64),
                family_names=names,
                problem=group_codes(axis_codes(networks, list(problem))),
                proxies={name: values[name].to_numpy()[order] for name in values.columns},
                repeats={name: repeats[name].to_numpy()[order] for name in repeats.columns},
                strata=tuple(c for c in ("family", "width") if c in columns)
                if strata is None
                else tuple(strata),
                given=tuple(c for c in ("family", LOG_PARAMETERS) if c in columns)
                if given is None
                else tuple(given),
            )
        )
    return result


def _own_order(
    networks: pd.DataFrame, target: str, axes: Sequence[str], seed_column: str
) -> NDArray[np.int64]:
    """An order that the networks themselves decide, so that the order of a table's rows changes no score.

    Random numbers are drawn network by network, and sums are rounded in their order.

    Returns:
        Positions, shape (networks,).
    """
    configuration = group_codes(axis_codes(networks, identifying(networks, axes)))
    named = [column for column in ("cell", seed_column) if column in networks.columns]
    last = [axis_codes(networks, [column])[:, 0] for column in named]
    return np.lexsort([*last, numeric(networks, target), configuration])


def identifying(networks: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """The columns that tell configurations of one task apart, axes in the order in which they are given.

    Returns:
        Their names. Whether an axis is called the width changes no order, and so no random number.
    """
    further = [c for c in ("family", "width") if c in networks.columns and c not in axes]
    return list(dict.fromkeys([*further, *axes]))


def _families(networks: pd.DataFrame) -> NDArray[np.object_]:
    if "family" not in networks.columns:
        return np.full(len(networks), "", dtype=object)
    return networks["family"].astype(str).to_numpy(dtype=object)
