"""The granulated coefficient: tau along single axes of the grid."""

from __future__ import annotations

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.over_tasks import estimate_row
from gapbench_leaderboard.scoring.registry import MIRROR, RANKING, SCORE, Estimator, HeatMap, for_each_proxy
from gapbench_leaderboard.scoring.replicates import ReplicatedEstimate, mean_estimate
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope

GRANULATED = Estimator(
    "granulated",
    "tau-a over configurations that agree on all axes but one, averaged over such cells, and over the axes "
    "(Jiang et al. 2020).",
    interval="confidence",
    heading="granulated",
    notes={SCORE: "tau along one axis at a time, the others equal, averaged over the axes"},
    shown_in=(RANKING, MIRROR, SCORE),
    order=70,
    each="axis",
    counted=True,
    heat_maps=(
        HeatMap(
            "axis",
            "axis: granulated coefficient",
            "The granulated coefficient of one axis: tau among networks that differ in that axis alone, "
            "averaged over the rest of the grid. It says along which hyper-parameter a proxy follows the "
            "target.",
            columns="axis",
        ),
    ),
)


@for_each_proxy(GRANULATED, position=60)
def granulated_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """Granulated coefficient overall and per axis, per task and family, and its mean over tasks."""
    studies = data.studies
    over_tasks: dict[str, list[ReplicatedEstimate]] = {}
    for part in studies.having(proxy):
        names = part.study.family_names
        families: list[int | None] = [None, *range(len(names) if names != ("",) else 0)]
        for family in families:
            scope = Scope(part.study.task, "" if family is None else names[family])
            if not studies.models(proxy, scope):
                continue
            for axis, estimate in part.granulated(proxy, family).items():
                name = f"granulated:{axis}" if axis else "granulated"
                estimate_row(rows, studies, proxy, name, estimate, scope, counted=True)
                if family is None:
                    over_tasks.setdefault(name, []).append(estimate)
    for name, tasks in over_tasks.items():
        estimate_row(rows, studies, proxy, name, mean_estimate(tasks), Scope(), counted=True)
