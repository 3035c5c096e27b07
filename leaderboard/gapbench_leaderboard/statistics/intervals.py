"""Percentile intervals from bootstrap replicates, with bias and excess of spread taken off.

Pairs of networks carry the weight m_i m_j. Its variance has a second-order part that the variance of the
coefficient itself does not have, which makes plain percentile intervals too wide for few configurations; and
two seeds of one configuration have the expected weight 2 - 1/n where others have 1 - 1/n, which shifts
coefficients within small strata. The replicates therefore are centred on the original value, and scaled to
the part of their variance that is linear in the multiplicities: the infinitesimal jackknife (Efron 2014, as a
regression on the multiplicities). Two factors for few configurations n: n / (n - 1) for the variance, because
n configurations drawn out of themselves vary less than n new ones, and the quantile of Student's t over that
of the normal distribution, with a degree of freedom for each configuration less one per task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

NAN_INTERVAL = (float("nan"), float("nan"))
_LEAST_REPLICATES = 2
"""Replicates per configuration from which the linear part is estimated; below, it is taken to be all."""
_SMALLEST_PART = 0.25


@dataclass(frozen=True)
class LinearPart:
    """Orthonormal basis of the centred multiplicities of all configurations drawn, shape (replicates, k)."""

    basis: NDArray[np.float64] | None
    freedom: int
    """Configurations less tasks."""

    @classmethod
    def of(cls, multiplicities: Sequence[NDArray[np.int64]]) -> LinearPart:
        """From the multiplicities of configurations, shape (replicates + 1, configurations) per task."""
        count = sum(matrix.shape[1] for matrix in multiplicities)
        freedom = count - sum(matrix.shape[1] > 0 for matrix in multiplicities)
        replicates = multiplicities[0].shape[0] - 1 if multiplicities else 0
        if not count or replicates < _LEAST_REPLICATES * count:
            return cls(None, freedom)
        independent = [
            matrix[1:, :-1] if np.ptp(matrix.sum(axis=1)) == 0 else matrix[1:] for matrix in multiplicities
        ]
        joined = np.concatenate(independent, axis=1).astype(np.float64)
        if not joined.shape[1]:
            return cls(None, freedom)
        basis, _ = np.linalg.qr(joined - joined.mean(axis=0))
        return cls(basis, freedom)

    def share(self, replicates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of the replicates' variance that is linear in the multiplicities (adjusted R^2).

        Args:
            replicates: shape (..., replicates); NaN counts as the mean.

        Returns:
            shape (...,).
        """
        if self.basis is None:
            return np.ones(replicates.shape[:-1])
        defined = np.isfinite(replicates)
        number = np.maximum(defined.sum(axis=-1, keepdims=True), 1)
        mean = np.where(defined, replicates, 0.0).sum(axis=-1, keepdims=True) / number
        centred = np.where(defined, replicates - mean, 0.0)
        total = (centred**2).sum(axis=-1)
        explained = ((centred @ self.basis) ** 2).sum(axis=-1)
        rows, columns = self.basis.shape
        part = np.divide(explained, total, out=np.ones_like(total), where=total > 0)
        adjusted = 1.0 - (1.0 - part) * (rows - 1) / (rows - 1 - columns)
        return np.clip(adjusted, _SMALLEST_PART, 1.0)

    def factor(self, replicates: NDArray[np.float64], removed: float = 1.0) -> NDArray[np.float64]:
        """Factor for the standard deviation of replicates: less the fraction `removed` of the part of their
        variance that is not linear, and n / (n - 1).
        """
        small = (self.freedom + 1) / self.freedom if self.freedom > 0 else 1.0
        return np.sqrt(small * (1.0 - removed * (1.0 - self.share(replicates))))

    def standard_error(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Infinitesimal-jackknife standard error of values of shape (..., 1 + replicates), original first."""
        drawn = values[..., 1:]
        defined = np.isfinite(drawn)
        number = defined.sum(axis=-1)
        total = np.where(defined, drawn, 0.0).sum(axis=-1, keepdims=True)
        mean = total / np.maximum(number, 1)[..., None]
        squares = np.where(defined, (drawn - mean) ** 2, 0.0).sum(axis=-1)
        variance = np.divide(squares, number - 1, out=np.full(squares.shape, np.nan), where=number > 1)
        return np.sqrt(variance) * self.factor(drawn)


WHOLE = LinearPart(None, 0)
"""No correction of the spread."""


def interval(
    values: NDArray[np.float64],
    linear: LinearPart = WHOLE,
    bounded: bool = True,
    level: float = 0.95,
    recentre: bool = True,
    removed: float = 1.0,
) -> tuple[float, float]:
    """Bootstrap interval of a coefficient.

    Args:
        values: entry 0 is the original value, the others are replicates; undefined ones (NaN) are left out.
        linear: the draws; without it the spread is not corrected.
        bounded: clip to [-1, 1], the range of a correlation.
        recentre: on the original value; False leaves the replicates at their mean.
        removed: fraction of the non-linear part of the variance that is taken off.

    Returns:
        (low, high), which contain the value; NaN for both where the value or more than half of the
        replicates are undefined.
    """
    value, replicates = float(values[0]), values[1:]
    drawn = replicates[np.isfinite(replicates)]
    if not np.isfinite(value) or len(drawn) < 2 or 2 * len(drawn) < len(replicates):
        return NAN_INTERVAL
    centre = drawn.mean()
    tails = np.percentile(drawn, [50 * (1 - level), 50 * (1 + level)]) - centre
    factor = float(linear.factor(replicates, removed))
    if linear.freedom > 0:
        factor *= _student_factor(level, linear.freedom)
    low, high = (value if recentre else centre) + factor * tails
    low, high = min(low, value), max(high, value)
    if bounded:
        low, high = max(-1.0, low), min(1.0, high)
    return float(low), float(high)


@lru_cache(maxsize=1024)
def _student_factor(level: float, freedom: int) -> float:
    chance = 0.5 * (1 + level)
    return float(stats.t.ppf(chance, freedom) / stats.norm.ppf(chance))


def resampling_range(values: NDArray[np.float64], level: float = 0.95) -> tuple[float, float]:
    """Percentiles of the replicates, without a claim of coverage (for maxima, percentiles, minima)."""
    drawn = values[1:][np.isfinite(values[1:])]
    if len(drawn) < 2 or 2 * len(drawn) < len(values) - 1:
        return NAN_INTERVAL
    low, high = np.percentile(drawn, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)


def two_sided_p(values: NDArray[np.float64], linear: LinearPart) -> NDArray[np.float64]:
    """p-values that values of shape (..., 1 + replicates) are zero, original first; shape (...,).

    Value over its standard error, with the spread of `interval`, against Student's t: the tails of a
    bootstrap cannot go below 2 / replicates, which after Holm's correction for hundreds of pairs could never
    be significant.
    """
    value, error = values[..., 0], linear.standard_error(values)
    if linear.freedom < 1:
        return np.full(value.shape, np.nan)
    ratio = np.divide(np.abs(value), error, out=np.full(value.shape, np.inf), where=error > 0)
    p = 2.0 * stats.t.sf(ratio, linear.freedom)
    p = np.where((error == 0) & (value == 0), 1.0, p)
    return np.where(np.isfinite(value) & np.isfinite(error), p, np.nan)
