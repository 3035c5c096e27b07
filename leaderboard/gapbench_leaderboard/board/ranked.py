"""The ranking of one scope with the numbers that stand beside the headline."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from gapbench_leaderboard.board.numbers import TableRow, rounded
from gapbench_leaderboard.board.trained import trained_networks
from gapbench_leaderboard.scores import BASELINES, MEASURED_BASELINES, TableError, ranking
from gapbench_leaderboard.scoring.registry import (
    DIGITS,
    HEADLINE,
    MARKDOWN,
    RANKING,
    TERMINAL,
    Estimator,
    estimators,
)


@dataclass(frozen=True)
class Ranked:
    """`table`: one row per proxy in the order of the board."""

    table: pd.DataFrame
    ceilings: dict[str, tuple[float, float, float]]
    """`network` and `configuration` -> value, low, high."""

    @property
    def told_apart(self) -> bool:
        """Whether any proxy is significantly better than another."""
        return bool((self.table["rank_low"] > 1).any())

    @property
    def best(self) -> list[str]:
        """The proxies that may be the best: no other is significantly better."""
        return [str(name) for name in self.table.loc[self.table["rank_low"] == 1, "proxy"]]

    def filled(self, columns: Sequence[Estimator]) -> list[Estimator]:
        """The columns without optional ones that no proxy has a value in."""
        return [shown for shown in columns if not shown.optional or self.table[shown.key].notna().any()]

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
    """The ranking of a scope with the columns that stand beside the headline.

    Returns:
        The columns of `scores.ranking` and, for every estimator that a ranking shows or marks, its `key`,
        `<key>_low` and `<key>_high`; `baseline` is True also for measured baselines; `trained` counts all networks
        of the scope. None where the scores hold nothing for that scope.
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
    for estimator in _beside(table.columns):
        own, key = everywhere if estimator.whole else scope, estimator.key
        rows = own[own["estimator"] == estimator.name].drop_duplicates("proxy").set_index("proxy")
        for name, source in ((key, "value"), (f"{key}_low", "low"), (f"{key}_high", "high")):
            table[name] = rows[source].reindex(table["proxy"]).to_numpy(dtype=float)
    table["baseline"] = table["proxy"].isin([*BASELINES, *baselines])
    table = table.sort_values("baseline", kind="stable").reset_index(drop=True)
    trained = trained_networks(scores, target, task, family)
    table.insert(list(table.columns).index("models") + 1, "trained", math.nan if trained is None else trained)
    ceilings = {}
    for name in ("network", "configuration"):
        row = scope[(scope["proxy"] == "") & (scope["estimator"] == f"ceiling_{name}")]
        if len(row):
            first = row.iloc[0]
            ceilings[name] = (float(first["value"]), float(first["low"]), float(first["high"]))
    return Ranked(table, ceilings)


def _beside(known: Collection[str]) -> list[Estimator]:
    """The estimators that some ranking shows or marks, without those that it has already."""
    shown = (RANKING, TERMINAL, MARKDOWN, DIGITS)
    return [
        estimator
        for estimator in estimators()
        if (estimator.mark or any(place in estimator.shown_in for place in shown))
        and estimator.name != HEADLINE
        and estimator.name not in known
    ]


def rank_text(row: TableRow, suffix: str = "") -> str:
    """A rank with the set that it lies in, "3 (1-6)"; a dash where there is none.

    `suffix`: of the columns, such as `_before`.

    Returns:
        The text.
    """
    rank, low, high = (row.get(f"{name}{suffix}", math.nan) for name in ("rank", "rank_low", "rank_high"))
    if rank != rank or rank is None:
        return "–"
    return f"{int(rank)}" + (f" ({int(low)}-{int(high)})" if low == low and high == high else "")


def text_of(estimator: Estimator, value: object) -> str:
    """A value of an estimator, rounded as its form asks for."""
    return rounded(value, 0 if estimator.form == "count" else 3)
