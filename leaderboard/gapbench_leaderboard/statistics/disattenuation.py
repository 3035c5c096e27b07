"""Correction of tau for noise in the target."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEAST_CEILING = 0.1
"""A measured target that tells less about the true one than this tau is not corrected for: NaN."""


def disattenuated(tau: ArrayLike, ceiling: ArrayLike) -> NDArray[np.float64]:
    """tau against the true target, from tau against the measured one and the network ceiling.

    Greiner's relation tau = (2 / pi) asin(rho) turns both into correlations, where noise in the target is a
    factor (Spearman 1904): rho_true = rho_measured / rho_ceiling. Exact for elliptical copulas, and for any
    distribution at tau = 0 and at tau = ceiling. Values beyond the ceiling become +-1.

    Args:
        tau: against the measured target.
        ceiling: that of a predictor that knows the true target; broadcasts against `tau`.

    Returns:
        NaN where the ceiling is undefined or below 0.1.
    """
    measured = np.sin(np.pi / 2 * np.asarray(tau, dtype=np.float64))
    reliable = np.asarray(ceiling, dtype=np.float64)
    factor = np.where(reliable >= LEAST_CEILING, np.sin(np.pi / 2 * reliable), np.nan)
    return 2 / np.pi * np.arcsin(np.clip(measured / factor, -1.0, 1.0))
