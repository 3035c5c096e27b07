"""tau against the target that an infinite test set would show."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import MIRROR, RANKING, Estimator, for_each_proxy
from gapbench_leaderboard.scoring.replicates import mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import family_slice
from gapbench_leaderboard.statistics.disattenuation import LEAST_CEILING, disattenuated
from gapbench_leaderboard.statistics.grouped import equal_mean
from gapbench_leaderboard.statistics.intervals import interval
from gapbench_leaderboard.statistics.signs import unanimous_interval

TRUE_GAP = Estimator(
    "tau_true_gap",
    "The headline against the target that an infinite test set would show.",
    interval="confidence",
    heading="true gap",
    shown_in=(RANKING, MIRROR),
    column="true_gap",
    order=60,
)


@for_each_proxy(TRUE_GAP, position=20)
def true_gap_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """tau against the target that an infinite test set would show (`tau_true_gap`).

    The interval is that of the measured tau, in whose deletions the ceiling changes as well (a population of
    larger spread has a higher ceiling and a higher tau), carried over by the correction of the value. Each
    family is corrected by its own ceiling, that within (problem, family); families whose ceiling is undefined are
    left out.
    """
    studies = data.studies
    for scope in studies.scopes():
        measured, corrected, ceiling = [], [], []
        for part in studies.having(proxy):
            if part.study.noise is None or (scope.task and part.study.task != scope.task):
                continue
            chosen = family_slice(part, scope)
            tau = part.headline(proxy, part.measured(proxy))[chosen]
            top = data.ceilings.network(part)[chosen, None]
            known = np.isfinite(top) & (top >= LEAST_CEILING)
            value = equal_mean(np.where(known, disattenuated(tau[:, :1], top), np.nan))
            if not np.isfinite(value).all():
                continue
            rho = np.sin(np.pi / 2 * tau) / data.ceilings.relative(part)[chosen]
            adjusted = 2 / np.pi * np.arcsin(np.clip(rho, -1.0, 1.0))
            measured.append(equal_mean(np.where(known, adjusted, np.nan)))
            corrected.append(float(value[0]))
            ceiling.append(float(equal_mean(np.where(known & np.isfinite(tau[:, :1]), top, np.nan))[0]))
        if not measured:
            continue
        values, mean = mean_of(measured), float(np.mean(corrected))
        signs = studies.signs(proxy, scope)
        limits = interval(values, studies.sampling(scope), signs=signs)
        carried = disattenuated(np.array([*limits, values[0]]), float(np.mean(ceiling)))
        low, high = np.clip(mean + carried[:2] - carried[2], -1.0, 1.0)
        if not low < high and signs is not None:  # all of it lies beyond the ceiling
            low, high = unanimous_interval(mean, signs.disjoint)
        rows.add(proxy, "tau_true_gap", mean, studies.models(proxy, scope), scope, (float(low), float(high)))
