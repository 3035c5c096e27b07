"""tau given family and number of parameters, and tau with the width itself."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.matching import partial as matched_tau
from gapbench_leaderboard.scoring.over_tasks import estimate_row, mean_row
from gapbench_leaderboard.scoring.registry import (
    DIGITS,
    MARKDOWN,
    MIRROR,
    PAGE,
    RANKING,
    SCORE,
    SUBMIT,
    Estimator,
    Mark,
    for_each_proxy,
)
from gapbench_leaderboard.scoring.replicates import mean_estimate
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope

LIKE_WIDTH = 0.8
"""|tau| with the width within families, from which a proxy is marked: its order is much that of the width."""

PARTIAL = Estimator(
    "tau_partial",
    "tau among networks of equal problem, family and (nearly) equal number of parameters: by pairs over the "
    "problems of a family, families equally.",
    interval="confidence",
    heading="partial",
    headings={"digits": "partial tau"},
    shown_in=(MARKDOWN, DIGITS, PAGE, RANKING, MIRROR, SCORE),
    notes={"score": "among rows that match on the columns given"},
    column="partial",
    order=30,
)
WITH_WIDTH = Estimator(
    "tau_with_width",
    "tau-b between the proxy and the width itself, within problem and family as the headline. Near 1 or -1 the "
    "proxy orders networks "
    "as their width does, and its score is that of the width, or of its reverse.",
    interval="confidence",
    heading="with width",
    headings={"digits": "tau with width", "submit": "with the width itself"},
    shown_in=(MARKDOWN, DIGITS, PAGE, RANKING, MIRROR, SCORE, SUBMIT),
    notes={"score": "tau with the width itself: near 1 or -1 the measure orders rows as their width does"},
    column="with_width",
    order=40,
    mark=Mark(
        "w",
        "width",
        f"orders networks much as their width does (|tau| of {LIKE_WIDTH} or more): it may be the width",
        "Orders the networks of a family much as their width does "
        f"(tau of {LIKE_WIDTH} or more either way): what it sees may be the width.",
        at_least=LIKE_WIDTH,
        of_baselines=False,
        submit="It orders the networks of a family much as their width does: what it sees may be the width.",
        score="much as the width orders them",
        order=30,
        order_in={"page": 15},
    ),
)


@for_each_proxy(PARTIAL, WITH_WIDTH, position=50)
def partial_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """Partial tau given problem, family and log parameters, and tau with the width within problem and family."""
    studies = data.studies
    partial, width = [], []
    for part in studies.having(proxy):
        scope = Scope(part.study.task)
        models, sampling = studies.models(proxy, scope), studies.sampling(scope)
        found = matched_tau(part, proxy) if part.measured(proxy).any() else None
        if found is not None:
            rows.add_coefficient(
                proxy,
                "tau_partial",
                found.values,
                models,
                scope,
                sampling,
                error=found.error,
                signs=found.signs,
            )
            partial.append(found)
        networks = part.study.networks
        if "width" in networks.columns and networks["width"].dtype.kind in "iuf":
            values, signs = part.against(proxy, networks["width"].to_numpy(dtype=np.float64))
            rows.add_coefficient(proxy, "tau_with_width", values, models, scope, sampling, signs=signs)
            width.append((values, signs))
    if partial:
        estimate_row(rows, studies, proxy, "tau_partial", mean_estimate(partial), Scope())
    mean_row(rows, studies, proxy, "tau_with_width", width)
