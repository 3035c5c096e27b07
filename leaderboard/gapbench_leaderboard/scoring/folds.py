"""Folds of cross-fitted estimators."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.replicates import Replicates
from gapbench_leaderboard.scoring.settings import Settings
from gapbench_leaderboard.statistics.incremental import FOLDS
from gapbench_leaderboard.statistics.regression import folds_of
from gapbench_leaderboard.statistics.resampling import generator


def folds(part: Replicates, settings: Settings) -> NDArray[np.int64]:
    """The folds of a study's networks, blocked by configuration, the same for all proxies and targets."""
    return folds_of(part.study.configuration, FOLDS, generator(settings.seed, "folds", part.study.task))
