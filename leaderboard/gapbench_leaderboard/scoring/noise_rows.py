"""Rows that look through the test noise: tau against the true gap, and the two ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.ceiling import Ceilings, ceilings
from gapbench_leaderboard.statistics.configurations import numeric
from gapbench_leaderboard.statistics.disattenuation import disattenuated
from gapbench_leaderboard.statistics.grouped import pair_weighted
from gapbench_leaderboard.statistics.noise import BinomialNoise, TestNoise, joint_noise
from gapbench_leaderboard.statistics.resampling import generator

from .pair_rows import FRACTIONS
from .replicates import Replicates, mean_of
from .rows import Rows
from .scope import Population, family_slice
from .settings import Settings
from .study import Study

NOISE_DRAWS = 200
ALL = ""
"""In the column `proxy`: a number of the population, not of a proxy."""


def noise_of(study: Study, correctness: Mapping[str, Any] | None) -> tuple[TestNoise | None, int | None]:
    """Test noise of a study and its smallest test size; None where the tables do not tell.

    With per-example correctness test examples are drawn jointly for all networks. Without it test errors are
    independent binomials of `test_size`: around `test_error` where the table has it, around the target
    (clipped to [0, 1], as if the training error were 0) where it has not.
    """
    networks = study.networks
    sizes = numeric(networks, "test_size") if "test_size" in networks.columns else np.full(study.size, np.nan)
    known = np.isfinite(sizes).all() and study.size > 0
    smallest = int(sizes.min()) if known else None
    if study.target_name not in FRACTIONS:
        return None, None
    if correctness:
        expected = [int(size) if np.isfinite(size) else None for size in sizes]
        joint = joint_noise([str(cell) for cell in networks["cell"]], _by_text(correctness), expected)
        return joint, smallest if smallest is not None else joint.wrong.shape[1]
    if not known or smallest is None or smallest < 1:
        return None, None
    error = numeric(networks, "test_error") if "test_error" in networks.columns else study.target
    error = np.where(np.isfinite(error), error, study.target)
    return BinomialNoise(np.clip(error, 0.0, 1.0), np.round(sizes).astype(np.int64)), smallest


def _by_text(correctness: Mapping[str, Any]) -> Mapping[str, Any]:
    return {str(cell): entry for cell, entry in correctness.items()}


class CeilingTable:
    """Ceilings of every family of every task, computed once per target."""

    def __init__(self, population: Population, settings: Settings) -> None:
        self.population = population
        self.length = min(settings.pair_replicates, population.length - 1) + 1
        self.by_part = [self._families(part, settings) for part in population.parts]

    def _families(self, part: Replicates, settings: Settings) -> list[Ceilings]:
        study = part.study
        random = generator(settings.seed, "noise", study.task)
        noise = study.noise.draw(random, NOISE_DRAWS) if study.noise is not None else None
        draws = part.draws[: self.length, study.configuration]
        found = []
        for number, _ in enumerate(study.family_names):
            own = np.flatnonzero(study.family == number)
            found.append(
                ceilings(
                    study.target[own],
                    study.configuration[own],
                    None if noise is None else noise[:, own],
                    draws[:, own],
                    random,
                )
            )
        return found

    def network(self, part: Replicates) -> NDArray[np.float64]:
        """Network ceiling of each family of a study in the original sample."""
        ceiling = self.by_part[list(self.population.parts).index(part)]
        return np.array([family.network[0] for family in ceiling])

    def rows(self, rows: Rows) -> None:
        """Both ceilings of every scope, under the empty proxy."""
        for scope in self.population.scopes():
            inside = self.population.inside(scope)
            models = sum(int(scope.mask(part).sum()) for part in inside)
            for name in ("network", "configuration"):
                tasks = []
                for part, families in zip(self.population.parts, self.by_part):
                    if part not in inside:
                        continue
                    chosen = family_slice(part, scope)
                    tau = np.stack([getattr(family, name) for family in families])[chosen]
                    weight = part.headline_weight()[chosen, : self.length]
                    defined = np.isfinite(tau[:, 0])
                    tasks.append(pair_weighted(tau[defined], weight[defined]))
                if tasks and any(np.isfinite(values[0]) for values in tasks):
                    rows.add_range(ALL, f"ceiling_{name}", mean_of(tasks), models, scope)


def true_gap_rows(rows: Rows, population: Population, proxy: str, table: CeilingTable) -> None:
    """tau against the target that an infinite test set would show (`tau_true_gap`)."""
    for scope in population.scopes():
        tasks = []
        for part in population.having(proxy):
            if part.study.noise is None or (scope.task and part.study.task != scope.task):
                continue
            found = part.headline(proxy, part.measured(proxy))
            corrected = disattenuated(found.tau, table.network(part)[:, None])
            chosen = family_slice(part, scope)
            tasks.append(pair_weighted(corrected[chosen], found.weight[chosen]))
        if tasks:
            values, models = mean_of(tasks), population.models(proxy, scope)
            rows.add_coefficient(proxy, "tau_true_gap", values, models, scope, population.linear(scope))


def seconds(measurements: pd.DataFrame, proxy: str) -> float:
    """Mean seconds per model of the measurements that are `ok`; NaN where they were not recorded."""
    if "seconds" not in measurements.columns:
        return float("nan")
    own = measurements[(measurements["proxy"].astype(str) == proxy) & (measurements["status"] == "ok")]
    values = numeric(own, "seconds")
    return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else float("nan")
