"""The headline with networks that did not converge."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import Estimator, for_all_proxies
from gapbench_leaderboard.scoring.replicates import Replicates
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope, StudySet
from gapbench_leaderboard.scoring.study import studies

TRAINED_STATUS = ("converged", "not_converged")

NOT_CONVERGED = Estimator(
    "tau_with_not_converged", "The headline with networks kept that trained but did not converge."
)


@for_all_proxies(NOT_CONVERGED, position=50)
def not_converged_rows(rows: Rows, data: ScoringData) -> None:
    """The headline with networks kept that trained but did not converge, where there are any."""
    tables = data.tables
    kept = {*tables.ranked_status, *TRAINED_STATUS}
    extra = tables.population["status"].isin(list(kept - set(tables.ranked_status)))
    if not extra.any():
        return
    no_repeats = tables.values.iloc[:, :0]
    found = studies(
        tables.population, tables.values, no_repeats, data.target, tables.axes, kept, problem=tables.problem
    )
    everything = StudySet([Replicates(study, 1, data.settings.seed) for study in found])
    for proxy in tables.values.columns:
        for scope in (Scope(), *(Scope(study.task) for study in found)):
            value = everything.headline(proxy, scope)[0]
            if np.isfinite(value):
                rows.add(proxy, NOT_CONVERGED.name, value, everything.models(proxy, scope), scope)
