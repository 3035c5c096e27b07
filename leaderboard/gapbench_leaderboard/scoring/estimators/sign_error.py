"""The robust sign error."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import MIRROR, SCORE, Estimator, for_each_proxy
from gapbench_leaderboard.scoring.replicates import mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope
from gapbench_leaderboard.scoring.study import FRACTIONS
from gapbench_leaderboard.statistics.sign_error import environments, summary, summary_replicates

SIGN_ERROR = Estimator(
    "sign_error",
    "Share of pairs that differ in one axis whose sign the proxy mistakes, as far as test noise lets tell, "
    "averaged over environments (Dziugaite et al. 2020).",
    interval="range",
    heading="sign error",
    shown_in=(MIRROR, SCORE),
    order=76,
    each="axis",
)
PERCENTILE = Estimator(
    "sign_error_p90", "90th percentile of the sign error over environments.", interval="range"
)
MAXIMUM = Estimator("sign_error_maximum", "Sign error of the worst environment.", interval="range")
ENVIRONMENTS = Estimator(
    "sign_error_environments", "Environments that have enough pairs for a sign error.", form="count"
)


@for_each_proxy(SIGN_ERROR, PERCENTILE, MAXIMUM, ENVIRONMENTS, position=90)
def sign_error_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """Robust sign error (mean, 90th percentile, maximum, per axis) with resampling ranges."""
    studies = data.studies
    means = []
    for part in studies.having(proxy):
        study, scope = part.study, Scope(part.study.task)
        mask = part.measured(proxy)
        if study.target_name not in FRACTIONS or study.test_size is None or not mask.any():
            continue
        index = np.flatnonzero(mask)
        configurations, first, row_of = np.unique(
            study.configuration[index], return_index=True, return_inverse=True
        )
        codes = part.grid_codes(index[first])
        found = environments(
            study.proxies[proxy][index],
            study.target[index],
            row_of.reshape(-1).astype(np.int64),
            codes,
            study.test_size,
        )
        models = len(index)
        values = summary(found, ["family", *part.grid_axes])
        rows.add(proxy, "sign_error_environments", values.environments, models, scope)
        if not values.environments:
            continue
        drawn = summary_replicates(found, part.draws[: data.settings.pair_replicates + 1, configurations])
        for name, replicates in drawn.items():
            label = "sign_error" if name == "mean" else f"sign_error_{name}"
            rows.add_range(proxy, label, replicates, models, scope)
        for axis, value in values.per_axis.items():
            if np.isfinite(value):
                rows.add(proxy, f"sign_error:{axis}", value, models, scope)
        means.append(drawn["mean"])
    if means:
        rows.add_range(proxy, "sign_error", mean_of(means), studies.models(proxy, Scope()), Scope())
