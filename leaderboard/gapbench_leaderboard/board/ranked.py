"""The ranking of one scope with the numbers that stand beside the headline."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd

from gapbench_leaderboard.scores import BASELINES, MEASURED_BASELINES, TableError, ranking

BESIDE = {
    "within": "tau_within",
    "pooled": "tau_b",
    "partial": "tau_partial",
    "with_width": "tau_with_width",
    "repeatability": "repeatability",
    "true_gap": "tau_true_gap",
    "granulated": "granulated",
    "simpson": "simpson",
    "few_distinct": "few_distinct",
    "seconds": "seconds",
}
"""Columns beside the headline and their estimators."""
WHOLE = ("few_distinct", "seconds")
"""Estimators that are one number for all networks, in whatever scope they are shown."""


LIKE_WIDTH = 0.8
"""|tau| with the width within families, from which a proxy is marked: its order is much that of the width."""


@dataclass(frozen=True)
class Ranked:
    """`table`: one row per proxy in the order of the board; `networks`: how many could be ranked at all."""

    table: pd.DataFrame
    networks: int | None
    ceilings: dict[str, tuple[float, float, float]]
    """`network` and `configuration` -> value, low, high."""

    @property
    def told_apart(self) -> bool:
        """Whether any proxy is significantly better than another."""
        return bool((self.table["rank"] > 1).any())

    @property
    def competing(self) -> int:
        """Proxies that have a rank."""
        return int(self.table["rank"].notna().sum())


def ranked(
    scores: pd.DataFrame,
    *,
    target: str = "gap",
    task: str = "",
    family: str = "",
    baselines: Collection[str] = MEASURED_BASELINES,
) -> Ranked | None:
    """The ranking of a scope with the columns of `BESIDE` (and `within_low`, ... where intervals exist).

    None where the scores hold nothing for that scope. `baseline` is True also for measured baselines.
    """
    try:
        table = ranking(scores, target=target, task=task, family=family)
    except TableError:
        return None
    text = scores[["task", "family", "proxy"]].fillna("").astype(str)
    scope = scores[(scores["target"] == target) & (text["task"] == task) & (text["family"] == family)]
    scope = scope.assign(proxy=text.loc[scope.index, "proxy"])
    everywhere = scores[(scores["target"] == target) & (text["task"] == "") & (text["family"] == "")]
    everywhere = everywhere.assign(proxy=text.loc[everywhere.index, "proxy"])
    for column, estimator in BESIDE.items():
        own = everywhere if estimator in WHOLE else scope
        rows = own[own["estimator"] == estimator].drop_duplicates("proxy").set_index("proxy")
        for name, source in ((column, "value"), (f"{column}_low", "low"), (f"{column}_high", "high")):
            table[name] = rows[source].reindex(table["proxy"]).to_numpy(dtype=float)
    table["baseline"] = table["proxy"].isin([*BASELINES, *baselines])
    table = table.sort_values("baseline", kind="stable").reset_index(drop=True)
    measured = table[table["coverage"] > 0]
    networks = (measured["models"] / measured["coverage"]).round()
    ceilings = {}
    for name in ("network", "configuration"):
        row = scope[(scope["proxy"] == "") & (scope["estimator"] == f"ceiling_{name}")]
        if len(row):
            first = row.iloc[0]
            ceilings[name] = (float(first["value"]), float(first["low"]), float(first["high"]))
    return Ranked(table, int(networks.iloc[0]) if len(networks) else None, ceilings)
