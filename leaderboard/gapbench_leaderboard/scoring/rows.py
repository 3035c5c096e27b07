"""The long form of scores: one row per task, family, target, proxy and estimator."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.resampling import percentile_interval

COLUMNS = ["task", "family", "target", "proxy", "estimator", "value", "low", "high", "models"]
NAN = float("nan")


@dataclass
class Rows:
    """Collects rows for one target. An empty task or family means: over all of them."""

    target: str
    rows: list[tuple[str, str, str, str, str, float, float, float, int]] = field(default_factory=list)

    def add(
        self,
        proxy: str,
        estimator: str,
        value: float,
        models: int,
        *,
        task: str = "",
        family: str = "",
        low: float = NAN,
        high: float = NAN,
    ) -> None:
        """One number with the interval given."""
        self.rows.append((task, family, self.target, proxy, estimator, float(value), low, high, int(models)))

    def add_replicates(
        self,
        proxy: str,
        estimator: str,
        values: NDArray[np.float64],
        models: int,
        *,
        task: str = "",
        family: str = "",
    ) -> None:
        """An estimator whose entry 0 is the original sample and the others bootstrap replicates."""
        low, high = percentile_interval(values[1:]) if np.isfinite(values[0]) else (NAN, NAN)
        self.add(proxy, estimator, values[0], models, task=task, family=family, low=low, high=high)

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows, columns=COLUMNS)
