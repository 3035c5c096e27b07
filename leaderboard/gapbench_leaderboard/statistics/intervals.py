"""Intervals of coefficients: bootstrap percentiles with the spread of the jackknife.

Pairs of networks carry the weight m_i m_j. Its variance has a second-order part that the variance of the
coefficient itself does not have, which makes plain percentile intervals too wide for few configurations; and
two seeds of one configuration have the expected weight 2 - 1/n where others have 1 - 1/n, which shifts
coefficients within small strata. The percentiles therefore give the shape of an interval only: they are
centred on the original value and scaled to the standard error of the delete-one jackknife over configurations
(Efron and Stein 1981), with Student's t in place of the normal distribution. Coefficients that end at +-1 are
treated on Fisher's scale z = artanh, where their distribution is nearly normal (Fieller, Hartley, Pearson 1957).
Where a coefficient rests on few signs, and where all agree, its interval is exact instead (`signs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gapbench_leaderboard.statistics.signs import (
    Signs,
    exact_interval,
    exact_p,
    unanimous_interval,
    unanimous_p,
)

NAN_INTERVAL = (float("nan"), float("nan"))
_MOST_AT_THE_END = 0.01
"""Share of replicates at +-1, where Fisher's z is infinite, beyond which it is of no use."""


@dataclass(frozen=True)
class Sampling:
    """Where bootstrap replicates and deletions stand in arrays whose entry 0 is the original value.

    Entries 1 .. replicates are bootstrap replicates; in others one configuration (or one group of them) is
    deleted.
    """

    replicates: int
    deleted: NDArray[np.intp]
    """Entries of the deletions that concern the value."""
    factor: NDArray[np.float64]
    """(g - 1) / g for each deletion, where g is the number of deletions within its task."""
    freedom: int
    """Deletions less tasks."""

    @classmethod
    def of(cls, replicates: int, deletions: Sequence[NDArray[np.int64]]) -> Sampling:
        """From the number of the deletion of each configuration, an array for each task."""
        groups = [np.unique(numbers) for numbers in deletions if len(numbers)]
        none = np.zeros(0)
        return cls(
            replicates=replicates,
            deleted=1 + replicates + np.concatenate([none, *groups]).astype(np.intp),
            factor=np.concatenate([none, *(np.full(len(g), 1.0 - 1.0 / len(g)) for g in groups)]),
            freedom=sum(len(g) - 1 for g in groups),
        )

    def bootstrap(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The bootstrap replicates among values of shape (..., entries)."""
        return values[..., 1 : 1 + self.replicates]

    def standard_error(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Jackknife standard error of values of shape (..., entries) (Efron and Stein 1981).

        Returns:
            shape (...,); NaN where fewer than half of the deletions leave a defined value; otherwise the
            defined ones stand for all.
        """
        away = values[..., self.deleted] - values[..., :1]
        defined = np.isfinite(away)
        squares = (self.factor * np.where(defined, away, 0.0) ** 2).sum(axis=-1)
        number, whole = defined.sum(axis=-1), len(self.deleted)
        enough = (2 * number >= whole) & (number > 0)
        share = np.divide(whole, number, out=np.full(squares.shape, np.nan), where=enough)
        error: NDArray[np.float64] = np.sqrt(squares * share)
        return error


def interval(
    values: NDArray[np.float64],
    sampling: Sampling | None = None,
    *,
    error: float | None = None,
    bounded: bool = True,
    level: float = 0.95,
    signs: Signs | None = None,
) -> tuple[float, float]:
    """Interval of a coefficient; never of width 0.

    Args:
        values: entry 0 is the original value, the others as `sampling` says; undefined ones (NaN) are left out.
        sampling: without it all entries but the first are bootstrap replicates, whose percentiles are taken as
            they are.
        error: standard error, where it is known better than by the jackknife.
        bounded: the coefficient lies within [-1, 1]; otherwise it is a difference of two, within [-2, 2].
        signs: the signs that it is a mean of; with few of them the interval is exact.
        level: probability that the interval covers.

    Returns:
        (low, high), which contain the value; NaN for both where the value, its error or more than half of the
        replicates are undefined, and where replicates without a jackknife are all alike.
    """
    value, end = float(values[0]), 1.0 if bounded else 2.0
    if signs is not None and signs.few:
        return exact_interval(value, signs.disjoint, end, level) if np.isfinite(value) else NAN_INTERVAL
    replicates = values[1:] if sampling is None else sampling.bootstrap(values)
    drawn = replicates[np.isfinite(replicates)]
    if not np.isfinite(value) or len(drawn) < 2 or 2 * len(drawn) < len(replicates):
        return NAN_INTERVAL
    if sampling is None:
        low, high = np.percentile(drawn, _percents(level))
        low, high = min(float(low), value), max(float(high), value)
        return (low, high) if low < high else NAN_INTERVAL
    if sampling.freedom < 1:
        return NAN_INTERVAL if signs is None else exact_interval(value, signs.disjoint, end, level)
    spread = float(sampling.standard_error(values)) if error is None else error
    if not np.isfinite(spread):
        return NAN_INTERVAL
    disjoint = len(sampling.deleted) // 2 if signs is None else signs.disjoint
    if spread == 0:
        return unanimous_interval(value, disjoint, end, level)
    inside = np.abs(drawn) < 1
    if bounded and abs(value) < 1 and np.mean(~inside) <= _MOST_AT_THE_END:
        centre, tails = np.arctanh(value), _tails(np.arctanh(drawn[inside]), level, sampling.freedom)
        low, high = np.tanh(centre + tails * (spread / (1 - value**2)))
    else:
        low, high = value + _tails(drawn, level, sampling.freedom) * spread
    low, high = min(float(low), value), max(float(high), value)
    low, high = max(-end, low), min(end, high)
    return (low, high) if low < high else unanimous_interval(value, disjoint, end, level)


def _tails(drawn: NDArray[np.float64], level: float, freedom: int) -> NDArray[np.float64]:
    """Both ends of the interval in standard errors: the replicates' own, widened by Student's t."""
    deviation = drawn.std()
    if not deviation > 0:
        student = _normal_quantile(level) * _student_factor(level, freedom)
        return np.array([-student, student])
    shape: NDArray[np.float64] = (np.percentile(drawn, _percents(level)) - drawn.mean()) / deviation
    return shape * _student_factor(level, freedom)


def _percents(level: float) -> NDArray[np.float64]:
    return np.array([50 * (1 - level), 50 * (1 + level)])


@lru_cache(maxsize=16)
def _normal_quantile(level: float) -> float:
    return float(stats.norm.ppf(0.5 * (1 + level)))


@lru_cache(maxsize=1024)
def _student_factor(level: float, freedom: int) -> float:
    return float(stats.t.ppf(0.5 * (1 + level), freedom)) / _normal_quantile(level)


def resampling_range(values: NDArray[np.float64], level: float = 0.95) -> tuple[float, float]:
    """Percentiles of the replicates, without a claim of coverage (for maxima, percentiles, minima).

    Returns:
        (low, high); NaN where these are equal: that resampling changes nothing makes nothing certain.
    """
    drawn = values[1:][np.isfinite(values[1:])]
    if len(drawn) < 2 or 2 * len(drawn) < len(values) - 1:
        return NAN_INTERVAL
    low, high = np.percentile(drawn, _percents(level))
    return (float(low), float(high)) if low < high else NAN_INTERVAL


def two_sided_p(
    values: NDArray[np.float64],
    sampling: Sampling,
    reach: float = 1.0,
    signs: Signs | None = None,
) -> NDArray[np.float64]:
    """p-values that values are zero.

    Value over its standard error against Student's t: the tails of a bootstrap cannot go below
    2 / replicates, which after Holm's correction for hundreds of pairs could never be significant.

    Where no deletion changes the value v (a perfect order, or the difference of two that are perfect and
    constant), the jackknife knows no error, however few the configurations are. All pairs then say v. Of n
    configurations floor(n / 2) pairs are disjoint, so independent; were the mean 0, with pairs within
    [-reach, reach], each would say v with probability reach / (reach + v) at most (Markov), so that
    p <= 2 (reach / (reach + v))^floor(n / 2).

    Args:
        values: shape (..., entries), original first.
        sampling: how they are laid out; see `interval`.
        reach: 1 for a coefficient, 2 for a difference of two.
        signs: the signs that the values are means of, where they are known: with few of them the p-value is that
            of the sign test, and of those that all agree the disjoint ones count.

    Returns:
        shape (...,).
    """
    if signs is not None and (signs.few or sampling.freedom < 1):
        first = np.asarray(values[..., 0], dtype=np.float64)
        exact = [exact_p(v, signs.disjoint, reach) if np.isfinite(v) else np.nan for v in first.reshape(-1)]
        return np.array(exact).reshape(first.shape)
    value, error = values[..., 0], sampling.standard_error(values)
    if sampling.freedom < 1:
        return np.full(value.shape, np.nan)
    ratio = np.divide(np.abs(value), error, out=np.zeros(value.shape), where=error > 0)
    p = 2.0 * stats.t.sf(ratio, sampling.freedom)
    disjoint = len(sampling.deleted) // 2 if signs is None else signs.disjoint
    p = np.where(error == 0, unanimous_p(value, disjoint, reach), p)
    return np.where(np.isfinite(value) & np.isfinite(error), p, np.nan)
