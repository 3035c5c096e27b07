"""The headlines of two proxies against each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.scope import Scope, StudySet


def paired_difference(studies: StudySet, first: str, second: str, scope: Scope) -> NDArray[np.float64]:
    """Headline of `first` minus that of `second` on the networks that both measured; (entries,)."""
    return studies.headline(first, scope, second) - studies.headline(second, scope, first)
