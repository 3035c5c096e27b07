"""Rows of the estimators that predict the target's value: calibration, incremental information, transport."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.replicates import Replicates, mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Population, Scope
from gapbench_leaderboard.scoring.settings import Settings
from gapbench_leaderboard.scoring.study import identifying
from gapbench_leaderboard.statistics.calibration import calibration_replicates
from gapbench_leaderboard.statistics.incremental import FOLDS, incremental_replicates, proxy_features
from gapbench_leaderboard.statistics.regression import design, folds_of
from gapbench_leaderboard.statistics.resampling import generator
from gapbench_leaderboard.statistics.transport import Domain, transport_replicates


def folds(part: Replicates, settings: Settings) -> NDArray[np.int64]:
    """The folds of a study's networks, blocked by configuration, the same for all proxies and targets."""
    return folds_of(part.study.configuration, FOLDS, generator(settings.seed, "folds", part.study.task))


def calibration_rows(rows: Rows, population: Population, proxy: str, settings: Settings) -> None:
    """Cross-fitted R^2 and mean absolute error per task and averaged."""
    over_tasks: dict[str, list[NDArray[np.float64]]] = {"r2": [], "mae": []}
    for part in population.having(proxy):
        mask = part.measured(proxy)
        fold = folds(part, settings)[mask]
        if len(np.unique(fold)) < 2:
            continue
        values = calibration_replicates(
            part.study.proxies[proxy][mask],
            part.study.target[mask],
            fold,
            part.draws[: settings.pair_replicates + 1, part.study.configuration[mask]],
        ).T
        for (name, tasks), found in zip(over_tasks.items(), values):
            rows.add_range(proxy, name, found, int(mask.sum()), Scope(part.study.task))
            tasks.append(found)
    for name, tasks in over_tasks.items():
        if tasks:
            rows.add_range(proxy, name, mean_of(tasks), population.models(proxy, Scope()), Scope())


def incremental_rows(rows: Rows, population: Population, proxies: list[str], settings: Settings) -> None:
    """Share of the error left by family, width and axes that each proxy removes, per task and averaged."""
    over_tasks: dict[str, list[NDArray[np.float64]]] = {}
    for part in population.parts:
        columns = identifying(part.study.networks, part.study.axes)
        by_mask: dict[bytes, list[str]] = {}
        for proxy in proxies:
            if proxy in part.study.proxies and part.measured(proxy).sum() > 1:
                by_mask.setdefault(part.measured(proxy).tobytes(), []).append(proxy)
        for names in by_mask.values():
            mask = part.measured(names[0])
            fold = folds(part, settings)[mask]
            if len(np.unique(fold)) < 2 or not columns:
                continue
            found = incremental_replicates(
                design(part.study.networks.loc[mask], columns),
                np.stack([proxy_features(part.study.proxies[name][mask]) for name in names]),
                part.study.target[mask],
                fold,
                part.draws[: settings.prediction_replicates + 1, part.study.configuration[mask]].astype(
                    float
                ),
            )
            for name, values in zip(names, found.T):
                scope = Scope(part.study.task)
                rows.add_range(name, "incremental_information", values, int(mask.sum()), scope)
                over_tasks.setdefault(name, []).append(values)
    for name, tasks in over_tasks.items():
        models = population.models(name, Scope())
        rows.add_range(name, "incremental_information", mean_of(tasks), models, Scope())


def transport_rows(rows: Rows, population: Population, proxy: str, settings: Settings) -> None:
    """Accuracy of a curve calibrated on one task (within a task: one family) and scored on another."""
    parts = [part for part in population.having(proxy) if part.measured(proxy).sum() > 1]
    if len(parts) > 1:
        tasks = [(part, part.measured(proxy), part.study.task) for part in parts]
        _transport(rows, population, proxy, "task", Scope(), tasks, settings)
    for part in parts:
        families = [
            (part, part.measured(proxy) & (part.study.family == number), name)
            for number, name in enumerate(part.study.family_names)
        ]
        families = [entry for entry in families if entry[1].sum() > 1]
        if len(families) > 1:
            _transport(rows, population, proxy, "family", Scope(part.study.task), families, settings)


def _transport(
    rows: Rows,
    population: Population,
    proxy: str,
    kind: str,
    scope: Scope,
    domains: list[tuple[Replicates, NDArray[np.bool_], str]],
    settings: Settings,
) -> None:
    length = settings.prediction_replicates + 1
    length = min(length, *(len(part.draws) for part, _, _ in domains))
    values = transport_replicates(
        [
            Domain(name, part.study.proxies[proxy][mask], part.study.target[mask], np.ones(int(mask.sum())))
            for part, mask, name in domains
        ],
        [part.draws[:length, part.study.configuration[mask]].astype(np.float64) for part, mask, _ in domains],
    )
    models = population.models(proxy, scope)
    for name, replicates in zip(("r2", "mae", "worst_r2", "worst_mae"), values):
        rows.add_range(proxy, f"transport_{kind}_{name}", replicates, models, scope)
