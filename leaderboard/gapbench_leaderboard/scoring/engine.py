"""All rows of one target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd

from gapbench_leaderboard.scoring import noise_rows, pair_rows, prediction_rows, rank_rows
from gapbench_leaderboard.scoring.ranks import difference_rows, ranks
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Population, Scope
from gapbench_leaderboard.scoring.settings import Settings
from gapbench_leaderboard.statistics.pairs import order_of

FEW_VALUES = 0.05
"""Share of distinct values, among the networks measured, below which a proxy is flagged."""


def score(
    population: Population,
    proxies: Sequence[str],
    target: str,
    measurements: pd.DataFrame,
    settings: Settings,
    competing: Sequence[str],
) -> Rows:
    """Rows of all proxies, measured ones and the baselines made by the scorer; ranks of those competing."""
    rows = Rows(target)
    if not population.parts:
        return rows
    every = list(
        dict.fromkeys([*proxies, *(name for part in population.parts for name in part.study.proxies)])
    )
    for part in population.parts:  # what threads share is made before they start
        part.headline_weight()
    for scope in population.scopes():
        population.linear(scope)
        population.sampling(scope)
    ceilings = noise_rows.CeilingTable(population, settings)

    def one(proxy: str) -> Rows:
        own = Rows(target)
        _proxy_rows(own, population, proxy, ceilings, measurements, settings)
        return own

    rows.extend(in_threads(one, every, settings.workers))
    prediction_rows.incremental_rows(rows, population, every, settings)
    ceilings.rows(rows)
    difference_rows(rows, population, every)
    for scope in population.scopes():
        if scope.task and scope.family:
            continue
        for proxy, rank in ranks(population, competing, scope).items():
            rows.add(proxy, "rank", rank, population.models(proxy, scope), scope)
    return rows


def in_threads(work: Callable[[str], Rows], names: Sequence[str], workers: int) -> list[Rows]:
    """The results of `work` in the order of `names`; the inner loops run without the interpreter's lock."""
    if workers == 1:
        return [work(name) for name in names]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, names))


def _proxy_rows(
    rows: Rows,
    population: Population,
    proxy: str,
    ceilings: noise_rows.CeilingTable,
    measurements: pd.DataFrame,
    settings: Settings,
) -> None:
    rank_rows.headline_rows(rows, population, proxy)
    noise_rows.true_gap_rows(rows, population, proxy, ceilings)
    rank_rows.coefficient_rows(rows, population, proxy)
    rank_rows.within_rows(rows, population, proxy)
    rank_rows.partial_rows(rows, population, proxy)
    rank_rows.granulated_rows(rows, population, proxy)
    rank_rows.repeatability_rows(rows, population, proxy)
    pair_rows.mutual_information_rows(rows, population, proxy, settings)
    pair_rows.sign_error_rows(rows, population, proxy, settings)
    pair_rows.selection_rows(rows, population, proxy, settings)
    prediction_rows.calibration_rows(rows, population, proxy, settings)
    prediction_rows.transport_rows(rows, population, proxy, settings)
    _description_rows(rows, population, proxy, measurements)


def _description_rows(rows: Rows, population: Population, proxy: str, measurements: pd.DataFrame) -> None:
    values = np.concatenate([part.study.proxies[proxy] for part in population.having(proxy)])
    values = values[np.isfinite(values)]
    distinct = order_of(values).levels
    rows.add(proxy, "distinct_values", distinct, len(values), Scope())
    few = distinct < max(2, FEW_VALUES * len(values))
    rows.add(proxy, "few_distinct", float(few), len(values), Scope())
    seconds = noise_rows.seconds(measurements, proxy)
    if np.isfinite(seconds):
        rows.add(proxy, "seconds", seconds, len(values), Scope())
