"""How many values a proxy takes, and what they cost."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import (
    DIGITS,
    MARKDOWN,
    MIRROR,
    PAGE,
    RANKING,
    Estimator,
    Mark,
    for_each_proxy,
)
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope
from gapbench_leaderboard.statistics.configurations import numeric
from gapbench_leaderboard.statistics.pairs import order_of

FEW_VALUES = 0.05
"""Share of distinct values, among the networks measured, below which a proxy is flagged."""

DISTINCT = Estimator(
    "distinct_values", "Distinct values among the networks measured.", form="count", whole=True
)
FEW_DISTINCT = Estimator(
    "few_distinct",
    f"1 where fewer than {100 * FEW_VALUES:.0f} % of the values are distinct, or all are equal; else 0.",
    shown_in=(RANKING,),
    order=95,
    whole=True,
    mark=Mark(
        "d",
        "few values",
        "few distinct values",
        "Hardly any distinct values.",
        at_least=1,
        score="few distinct values",
        order=50,
    ),
)
SECONDS = Estimator(
    "seconds",
    "Mean seconds to measure it on one network, of all tasks and families whatever the filters. Submitted "
    "proxies are timed within their sandbox, which adds some hundredths.",
    heading="seconds",
    shown_in=(MARKDOWN, DIGITS, PAGE, RANKING, MIRROR),
    order=100,
    form="quantity",
    whole=True,
    ascending=True,
)


@for_each_proxy(DISTINCT, FEW_DISTINCT, SECONDS, position=130)
def description_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """Number of distinct values, the flag of few, and the mean cost where it is known; over all tasks."""
    values = np.concatenate([part.study.proxies[proxy] for part in data.studies.having(proxy)])
    values = values[np.isfinite(values)]
    distinct = order_of(values).levels
    rows.add(proxy, DISTINCT.name, distinct, len(values), Scope())
    few = distinct < max(2, FEW_VALUES * len(values))
    rows.add(proxy, FEW_DISTINCT.name, float(few), len(values), Scope())
    seconds = _seconds(data, proxy)
    if np.isfinite(seconds):
        rows.add(proxy, SECONDS.name, seconds, len(values), Scope())


def _seconds(data: ScoringData, proxy: str) -> float:
    """Mean seconds per network of the measurements that are `ok`; NaN where they were not recorded."""
    measurements = data.tables.measurements
    if "seconds" not in measurements.columns:
        return float("nan")
    own = measurements[(measurements["proxy"].astype(str) == proxy) & (measurements["status"] == "ok")]
    values = numeric(own, "seconds")
    return float(values[np.isfinite(values)].mean()) if np.isfinite(values).any() else float("nan")
