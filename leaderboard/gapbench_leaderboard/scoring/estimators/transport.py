"""A curve calibrated on one task or family and scored on another."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import Estimator, for_each_proxy
from gapbench_leaderboard.scoring.replicates import Replicates
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope, StudySet
from gapbench_leaderboard.scoring.settings import Settings
from gapbench_leaderboard.statistics.transport import Domain, transport_replicates

KINDS = {"task": "task", "family": "family of a task"}
NAMES = {
    "r2": "Mean R^2",
    "mae": "Mean absolute error",
    "worst_r2": "Smallest R^2",
    "worst_mae": "Largest mean absolute error",
}


def _estimator(kind: str, name: str) -> Estimator:
    return Estimator(
        f"transport_{kind}_{name}",
        f"{NAMES[name]} of a curve calibrated on one {KINDS[kind]} and scored on another.",
        interval="range",
        form="quantity" if name.endswith("mae") else "coefficient",
    )


@for_each_proxy(*(_estimator(*of) for of in product(KINDS, NAMES)), position=120)
def transport_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """Accuracy of a curve calibrated on one task (within a task: one family) and scored on another."""
    studies = data.studies
    parts = [part for part in studies.having(proxy) if part.measured(proxy).sum() > 1]
    if len(parts) > 1:
        tasks = [(part, part.measured(proxy), part.study.task) for part in parts]
        _transport(rows, studies, proxy, "task", Scope(), tasks, data.settings)
    for part in parts:
        families = [
            (part, part.measured(proxy) & (part.study.family == number), name)
            for number, name in enumerate(part.study.family_names)
        ]
        families = [entry for entry in families if entry[1].sum() > 1]
        if len(families) > 1:
            _transport(rows, studies, proxy, "family", Scope(part.study.task), families, data.settings)


def _transport(
    rows: Rows,
    studies: StudySet,
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
    models = studies.models(proxy, scope)
    for name, replicates in zip(NAMES, values):
        rows.add_range(proxy, f"transport_{kind}_{name}", replicates, models, scope)
