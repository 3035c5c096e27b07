"""How many networks each score leaves out, and why."""

from __future__ import annotations

from gapbench_leaderboard.scoring.accounting import left_out
from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import Estimator, for_all_proxies
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope

LEFT_OUT = Estimator(
    "left_out", "Networks that the scores leave out for the reason.", form="count", each="reason"
)


@for_all_proxies(LEFT_OUT, position=60)
def left_out_rows(rows: Rows, data: ScoringData) -> None:
    """The count of each reason by task and family, by task, and over all."""
    tables = data.tables
    counted = left_out(tables.population, tables.measurements, data.target, tables.ranked_status)
    coarser = [["task", "proxy", "reason"], ["proxy", "reason"]]
    if "family" not in tables.population.columns:
        del coarser[0]
    sums = [counted.groupby(keys, sort=True)["models"].sum().reset_index() for keys in coarser]
    for table in (counted, *sums):
        for row in table.to_dict("records"):
            scope = Scope(row.get("task", ""), row.get("family", ""))
            rows.add(row["proxy"], f"{LEFT_OUT.name}:{row['reason']}", row["models"], 0, scope)
