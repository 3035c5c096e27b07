"""What the networks are worth that a proxy would select."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import Estimator, for_each_proxy
from gapbench_leaderboard.scoring.replicates import mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope
from gapbench_leaderboard.statistics.pairs import order_of
from gapbench_leaderboard.statistics.selection import selection_replicates

BEST_SHARE = 0.1

PRECISION = Estimator(
    f"precision_at_{100 * BEST_SHARE:.0f}pct",
    "Share of the best tenth of the networks that are among the tenth that the proxy prefers.",
    interval="range",
)
REGRET = Estimator(
    "regret_at_1", "Target of the proxy's first choice, less the smallest target.", interval="range"
)


@for_each_proxy(PRECISION, REGRET, position=100)
def selection_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """Precision among the 10 % smallest targets, and regret of the first choice, per task and averaged."""
    studies = data.studies
    over_tasks: dict[str, list[NDArray[np.float64]]] = {PRECISION.name: [], REGRET.name: []}
    for part in studies.having(proxy):
        mask = part.measured(proxy)
        if mask.sum() < 2:
            continue
        x, y = part.study.proxies[proxy][mask], part.study.target[mask]
        draws = part.draws[: data.settings.pair_replicates + 1, part.study.configuration[mask]]
        values = selection_replicates(order_of(x), order_of(y), y, draws, BEST_SHARE)
        scope = Scope(part.study.task)
        for (name, tasks), found in zip(over_tasks.items(), values):
            rows.add_range(proxy, name, found, int(mask.sum()), scope)
            tasks.append(found)
    for name, tasks in over_tasks.items():
        if tasks:
            rows.add_range(proxy, name, mean_of(tasks), studies.models(proxy, Scope()), Scope())
