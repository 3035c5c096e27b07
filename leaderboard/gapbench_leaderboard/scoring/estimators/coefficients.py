"""Rank coefficients pooled over all networks of a task, and within each family."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.over_tasks import mean_row
from gapbench_leaderboard.scoring.registry import BOARDS, SUBMIT, Estimator, for_each_proxy
from gapbench_leaderboard.scoring.replicates import Replicates
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope

TAU_A = Estimator(
    "tau_a",
    "Kendall's tau-a over all networks of a task together: ties count 0 (Kendall 1938).",
    interval="confidence",
)
TAU_B = Estimator(
    "tau_b",
    "tau-b over all networks of a task together, families and widths mixed, averaged over tasks. Easily "
    "misleading: compare it with the two columns before.",
    interval="confidence",
    heading="pooled",
    headings={"digits": "pooled tau"},
    shown_in=(*BOARDS, SUBMIT),
    note="all networks of a task together",
    column="pooled",
    order=20,
)
SPEARMAN = Estimator(
    "spearman",
    "Pearson's correlation of mid-ranks over all networks of a task together (Spearman 1904).",
    interval="confidence",
)


@for_each_proxy(TAU_A, TAU_B, SPEARMAN, position=30)
def coefficient_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """tau-a, tau-b and Spearman's rho pooled per task and within each family; their means over tasks."""
    studies = data.studies
    for name in ("tau_a", "tau_b", "spearman"):
        pooled = []
        for part in studies.having(proxy):
            mask = part.measured(proxy)
            if not mask.any():
                continue
            for scope, values in _coefficients(part, proxy, name).items():
                models, sampling = studies.models(proxy, scope), studies.sampling(scope)
                family = part.study.family_names.index(scope.family) if scope.family else None
                signs = part.signs("family" if scope.family else "task", mask, family)
                rows.add_coefficient(proxy, name, values, models, scope, sampling, signs=signs)
                if not scope.family:
                    pooled.append((values, signs))
        mean_row(rows, studies, proxy, name, pooled)


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
