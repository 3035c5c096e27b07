"""The long form of scores: one row per task, family, target, proxy and estimator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.scope import Scope
from gapbench_leaderboard.statistics.intervals import Sampling, interval, resampling_range
from gapbench_leaderboard.statistics.signs import Signs

COLUMNS = ["task", "family", "target", "proxy", "estimator", "value", "low", "high", "models"]
NAN = float("nan")
POPULATION = ""
"""In the column `proxy`: a number of the population, not of a proxy."""


@dataclass
class Rows:
    """Collects rows for one target. An empty task or family means: over all of them."""

    target: str
    rows: list[tuple[str, str, str, str, str, float, float, float, int]] = field(default_factory=list)

    def add(
        self, proxy: str, estimator: str, value: float, models: int, scope: Scope,
        limits: tuple[float, float] = (NAN, NAN),
    ) -> None:  # fmt: skip
        """One number with the interval given."""
        low, high = limits
        self.rows.append(
            (scope.task, scope.family, self.target, proxy, estimator, float(value), low, high, int(models))
        )

    def add_coefficient(
        self, proxy: str, estimator: str, values: NDArray[np.float64], models: int, scope: Scope,
        sampling: Sampling, bounded: bool = True, error: float | None = None, signs: Signs | None = None,
        counted: bool = False,
    ) -> None:  # fmt: skip
        """An estimator whose entry 0 is the original sample; with its interval.

        `counted`: how many pairs it rests on is a row of its own, `pairs:<estimator>`.
        """
        limits = interval(values, sampling, error=error, bounded=bounded, signs=signs)
        self.add(proxy, estimator, values[0], models, scope, limits)
        if counted and signs is not None and np.isfinite(values[0]):
            self.add(proxy, f"pairs:{estimator}", signs.total, models, scope)

    def add_range(
        self, proxy: str, estimator: str, values: NDArray[np.float64], models: int, scope: Scope
    ) -> None:
        """An estimator with a resampling range, without a claim of coverage."""
        self.add(proxy, estimator, values[0], models, scope, resampling_range(values))

    def extend(self, other: Iterable[Rows]) -> None:
        """Take over the rows of others, in their order."""
        for rows in other:
            self.rows.extend(rows.rows)

    def frame(self) -> pd.DataFrame:
        """The rows as a table with the columns `COLUMNS`."""
        return pd.DataFrame(self.rows, columns=COLUMNS)
