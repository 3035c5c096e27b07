"""Baseline rows that need the configuration, so that no proxy could compute them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.study import Study, identifying
from gapbench_leaderboard.statistics.configurations import group_codes
from gapbench_leaderboard.statistics.regression import cross_fitted, design, folds_of
from gapbench_leaderboard.statistics.resampling import generator

WIDTH = "width"
HYPERPARAMETER_ORACLE = "hyperparameter_oracle"
NOISY_ORACLE = "noisy_oracle"
NAMES = (WIDTH, HYPERPARAMETER_ORACLE, NOISY_ORACLE)
MEASURED = ("random", "parameter_count", "train_loss")
"""Baselines that are measured like proxies, by name."""
FOLDS = 10
NOISE = 0.5
RESOLUTION = 1e-9
"""Of predictions, in standard deviations of the target."""


def baselines(study: Study, seed: int) -> dict[str, NDArray[np.float64]]:
    """Values of the baseline rows.

    width: the width multiplier, where the table has one.
    hyperparameter_oracle: ridge regression of the target on family, width and all axes with pairwise
        products, cross-fitted over 10 folds blocked by configuration: it never saw the configuration that it
        predicts.
    noisy_oracle: the target plus Gaussian noise of half its standard deviation within the network's problem and
        family, whatever the order of the rows.

    Returns:
        Name -> values, each of shape (networks,).
    """
    rows: dict[str, NDArray[np.float64]] = {}
    if WIDTH in study.networks.columns and pd.api.types.is_numeric_dtype(study.networks[WIDTH]):
        rows[WIDTH] = study.networks[WIDTH].to_numpy(dtype=np.float64, na_value=np.nan)
    random = generator(seed, "baselines", study.task, study.target_name)
    columns = identifying(study.networks, study.axes)
    fold = folds_of(study.configuration, FOLDS, random)
    if columns and len(np.unique(fold)) > 1:
        predicted = cross_fitted(design(study.networks, columns), study.target, fold)
        rows[HYPERPARAMETER_ORACLE] = _exact_ties(predicted, study)
    if study.size:
        spread = _spread_within(study)
        noise = np.empty(study.size)
        noise[np.lexsort((study.target, study.configuration))] = random.standard_normal(study.size)
        rows[NOISY_ORACLE] = study.target + NOISE * spread * noise
    return rows


def _spread_within(study: Study) -> NDArray[np.float64]:
    """Standard deviation of the target within each network's problem and family, shape (networks,)."""
    group = group_codes(np.column_stack([study.problem, study.family]))
    spread = np.array([study.target[group == number].std() for number in range(int(group.max()) + 1)])
    return spread[group]


def _exact_ties(predicted: NDArray[np.float64], study: Study) -> NDArray[np.float64]:
    """Predictions that differ by rounding alone (the seeds of a configuration; a fit of no slope) as equal ones."""
    spread = float(study.target.std())
    if spread == 0:
        return np.full(study.size, study.target.mean())
    first = np.unique(study.configuration, return_index=True)[1]
    quantum = RESOLUTION * spread
    return (np.round(predicted[first] / quantum) * quantum)[study.configuration]
