"""Bootstrap over configurations: multiplicities, intervals, p-values, Holm's correction."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

FEW_CONFIGURATIONS = 30
"""Below this many configurations an interval is marked unreliable."""


def generator(seed: int, *names: str) -> np.random.Generator:
    """A generator for named dimensions: another task or proxy in the table changes no other's numbers."""
    return np.random.default_rng([seed, *(zlib.crc32(name.encode()) for name in names)])


def draw_multiplicities(
    configuration: NDArray[np.int64], replicates: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Bootstrap multiplicities of networks, shape (replicates + 1, networks); row 0 is the original sample.

    Configurations are drawn with replacement, as many as there are; all seeds stay with their configuration.

    Args:
        configuration: shape (networks,), the number of each network's configuration.
    """
    codes, member = np.unique(configuration, return_inverse=True)
    count = len(codes)
    drawn = np.ones((replicates + 1, count), dtype=np.int64)
    if count:
        drawn[1:] = random.multinomial(count, np.full(count, 1.0 / count), size=replicates)
    return drawn[:, member.reshape(-1)]


def percentile_interval(replicates: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of bootstrap replicates; undefined replicates (NaN) are left out.

    Returns (NaN, NaN) where fewer than half of the replicates are defined.
    """
    values = np.asarray(replicates, dtype=np.float64)
    defined = values[np.isfinite(values)]
    if len(defined) < 2 or 2 * len(defined) < len(values):
        return float("nan"), float("nan")
    low, high = np.percentile(defined, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)


def two_sided_p(replicates: NDArray[np.float64], configurations: int) -> float:
    """p-value that a value is zero, from its bootstrap standard error and Student's t.

    The tails of a bootstrap cannot go below 2 / replicates, which after Holm's correction for hundreds of
    comparisons could never be significant; value over standard error can.

    Args:
        replicates: entry 0 is the original value, the others are bootstrap replicates; NaN is left out.
        configurations: number of configurations drawn; one less is the degrees of freedom.
    """
    value, drawn = float(replicates[0]), replicates[1:][np.isfinite(replicates[1:])]
    if not np.isfinite(value) or len(drawn) < 2 or configurations < 2:
        return float("nan")
    error = float(drawn.std(ddof=1))
    if error == 0.0:
        return 1.0 if value == 0.0 else 0.0
    return float(2.0 * stats.t.sf(abs(value) / error, configurations - 1))


def holm(p_values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """p-values adjusted by Holm's step-down method (Holm 1979); NaN stays NaN and counts for nothing."""
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    defined = np.flatnonzero(np.isfinite(p))
    order = defined[np.argsort(p[defined], kind="stable")]
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return adjusted
