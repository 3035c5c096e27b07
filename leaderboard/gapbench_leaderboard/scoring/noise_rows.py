"""Rows that look through the test noise: tau against the true gap, and the two ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.pair_rows import FRACTIONS
from gapbench_leaderboard.scoring.replicates import Replicates, mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Population, family_slice
from gapbench_leaderboard.scoring.settings import Settings
from gapbench_leaderboard.scoring.study import Study
from gapbench_leaderboard.statistics.ceiling import Ceilings, ceilings, reliability
from gapbench_leaderboard.statistics.configurations import numeric
from gapbench_leaderboard.statistics.disattenuation import LEAST_CEILING, disattenuated
from gapbench_leaderboard.statistics.grouped import pair_weighted
from gapbench_leaderboard.statistics.intervals import interval
from gapbench_leaderboard.statistics.noise import BinomialNoise, TestNoise, joint_noise, noise_by_size
from gapbench_leaderboard.statistics.resampling import generator
from gapbench_leaderboard.statistics.signs import unanimous_interval

NOISE_DRAWS = 1000
ALL = ""
"""In the column `proxy`: a number of the population, not of a proxy."""


def noise_of(study: Study, correctness: Mapping[str, Any] | None) -> tuple[TestNoise | None, int | None]:
    """Test noise of a study and its smallest test size; None where the tables do not tell.

    With per-example correctness test examples are drawn jointly for all networks with as many of them. Without
    it test errors are independent binomials of `test_size`: around `test_error` where the table has it, around
    the target (clipped to [0, 1], as if the training error were 0) where it has not.
    """
    networks = study.networks
    sizes = numeric(networks, "test_size") if "test_size" in networks.columns else np.full(study.size, np.nan)
    known = np.isfinite(sizes).all() and study.size > 0
    smallest = int(sizes.min()) if known else None
    if study.target_name not in FRACTIONS:
        return None, None
    if correctness:
        expected = [int(size) if np.isfinite(size) else None for size in sizes]
        cells = [str(cell) for cell in networks["cell"]]
        if smallest is not None:
            return noise_by_size(cells, _by_text(correctness), expected), smallest
        joint = joint_noise(cells, _by_text(correctness), expected)
        return joint, joint.wrong.shape[1]
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
        self.length = min(settings.pair_replicates, settings.replicates) + 1
        self._relative: list[NDArray[np.float64]] = []
        self.by_part = [self._families(part, settings) for part in population.parts]

    def _families(self, part: Replicates, settings: Settings) -> list[Ceilings]:
        study = part.study
        random = generator(settings.seed, "noise", study.task)
        noise = study.noise.draw(random, NOISE_DRAWS) if study.noise is not None else None
        draws = part.draws[: self.length, study.configuration]
        deleting = part.multiplicities.matrix()[1 + part.replicates :]
        relative = np.ones((len(study.family_names), part.entries))
        found = []
        for number, _ in enumerate(study.family_names):
            own = np.flatnonzero(study.family == number)
            if noise is not None and len(deleting):
                samples = np.concatenate([np.ones((1, len(own))), deleting[:, own]])
                share = reliability(study.target[own], noise[:, own], samples)
                known = (share[1:] > 0) & (share[0] > 0)  # with a share of 0 the family is left out
                ratio = np.divide(share[1:], share[0], out=np.ones(len(deleting)), where=known)
                relative[number, 1 + part.replicates :] = np.sqrt(ratio)
            found.append(
                ceilings(
                    study.target[own],
                    study.configuration[own],
                    None if noise is None else noise[:, own],
                    draws[:, own],
                    random,
                )
            )
        self._relative.append(relative)
        return found

    def relative(self, part: Replicates) -> NDArray[np.float64]:
        """Correlation of measured and true target, over that of the original sample, in each deletion.

        By the square root of the reliability (Spearman 1904); 1 for all other entries. Shape (families,
        entries).
        """
        return self._relative[list(self.population.parts).index(part)]

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
    """tau against the target that an infinite test set would show (`tau_true_gap`).

    The interval is that of the measured tau, in whose deletions the ceiling changes as well (a population of
    larger spread has a higher ceiling and a higher tau), carried over by the correction of the value. Families
    whose ceiling is undefined are left out.
    """
    for scope in population.scopes():
        measured, corrected, ceiling = [], [], []
        for part in population.having(proxy):
            if part.study.noise is None or (scope.task and part.study.task != scope.task):
                continue
            chosen = family_slice(part, scope)
            found = part.headline(proxy, part.measured(proxy))
            top = table.network(part)[chosen, None]
            tau = found.tau[chosen]
            true = disattenuated(tau[:, :1], top)
            weight = np.where(np.isfinite(top) & (top >= LEAST_CEILING), found.weight[chosen], 0.0)
            value = pair_weighted(true, weight[:, :1])
            if not np.isfinite(value).all():
                continue
            rho = np.sin(np.pi / 2 * tau) / table.relative(part)[chosen]
            measured.append(pair_weighted(2 / np.pi * np.arcsin(np.clip(rho, -1.0, 1.0)), weight))
            corrected.append(float(value[0]))
            ceiling.append(float(pair_weighted(top, weight[:, :1])[0]))
        if not measured:
            continue
        values, mean = mean_of(measured), float(np.mean(corrected))
        signs = population.signs(proxy, scope)
        limits = interval(values, population.sampling(scope), signs=signs)
        carried = disattenuated(np.array([*limits, values[0]]), float(np.mean(ceiling)))
        low, high = np.clip(mean + carried[:2] - carried[2], -1.0, 1.0)
        if not low < high and signs is not None:  # all of it lies beyond the ceiling
            low, high = unanimous_interval(mean, signs.disjoint)
        rows.add(
            proxy, "tau_true_gap", mean, population.models(proxy, scope), scope, (float(low), float(high))
        )


def seconds(measurements: pd.DataFrame, proxy: str) -> float:
    """Mean seconds per model of the measurements that are `ok`; NaN where they were not recorded."""
    if "seconds" not in measurements.columns:
        return float("nan")
    own = measurements[(measurements["proxy"].astype(str) == proxy) & (measurements["status"] == "ok")]
    values = numeric(own, "seconds")
    return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else float("nan")
