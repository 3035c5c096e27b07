"""How much of a target's variance each axis, and the seed, explains.

The share of an axis is its first-order Sobol index under the design: the variance over the sampled configurations
of the axis's own effect, over the variance of one network. The effect is that of an additive fit of all axes to
the means over seeds, so that an unbalanced sample gives no axis what belongs to another; its square is too large
by what chance adds to it, which is taken off exactly (as omega squared does in the balanced one-way layout): an
axis without any effect has a share of 0 on average, sometimes below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NAN = float("nan")
LEAST_FREEDOM = 0.25
"""Share of the configurations that the additive fit must leave as freedom, else axes are fitted alone."""


@dataclass(frozen=True)
class VarianceShares:
    """Shares of the variance of one network."""

    total: float
    """The variance itself."""
    seeds: float
    """What differs between seeds of one configuration, test noise included; NaN without such."""
    axes: tuple[float, ...]
    """Of each axis; NaN where it takes one value, or nothing tells its effect from chance."""
    configurations: int


@dataclass(frozen=True)
class _Means:
    """Means over seeds: `inverse` is 1 / seeds, `seed` the variance between seeds (NaN without any)."""

    value: NDArray[np.float64]
    inverse: NDArray[np.float64]
    seed: float


def variance_shares(
    values: NDArray[np.float64],
    configuration: NDArray[np.int64],
    levels: NDArray[np.int64],
    fraction: float | None = None,
) -> VarianceShares:
    """Shares of the variance of `values` that axes and seeds explain.

    The error of an axis's effect is that of seeds, and that of interactions as far as configurations are a sample
    of all combinations: a complete grid (`fraction` 1) averages over the other axes exactly. Without seeds
    interactions cannot be told from chance, and all that the additive fit leaves is taken for it. An axis that the
    fit cannot tell from others, or that has too few configurations for it, is fitted alone.

    Args:
        values: finite, shape (networks,).
        configuration: number of each network's configuration, shape (networks,).
        levels: of every axis, shape (networks, axes); the same for all networks of a configuration.
        fraction: share of all combinations that the configurations are; of those of `levels` if not given.

    Returns:
        The shares; all NaN with fewer than two configurations or without any variance.
    """
    codes, first, row_of = np.unique(configuration, return_index=True, return_inverse=True)
    number, axes = len(codes), levels.shape[1]
    nothing = VarianceShares(NAN, NAN, (NAN,) * axes, number)
    if number < 2:
        return nothing
    found = _over_seeds(values, row_of.reshape(-1).astype(np.int64), number)
    own = levels[first]
    share = _fraction(own) if fraction is None else min(1.0, fraction)
    known = np.isfinite(found.seed)
    share = share if known else 0.0
    seed = found.seed if known else 0.0
    between = float(found.value.var(ddof=1)) - seed * float(found.inverse.mean())
    total = between * (1 - share / number) + seed
    if not total > 0:
        return nothing
    parts = [_block(own[:, axis]) for axis in range(axes)]
    return VarianceShares(
        total=total,
        seeds=seed / total if known else NAN,
        axes=tuple(_axis(parts, axis, found, share) / total for axis in range(axes)),
        configurations=number,
    )


def _over_seeds(values: NDArray[np.float64], row_of: NDArray[np.int64], number: int) -> _Means:
    count = np.bincount(row_of, minlength=number)
    mean = values.mean() + np.bincount(row_of, values - values.mean(), number) / count
    freedom = len(values) - number
    squares = float(((values - mean[row_of]) ** 2).sum())
    return _Means(mean, 1.0 / count, squares / freedom if freedom else NAN)


def _fraction(levels: NDArray[np.int64]) -> float:
    """Share of all combinations of the levels that occur."""
    every = np.prod([float(len(np.unique(levels[:, axis]))) for axis in range(levels.shape[1])])
    return min(1.0, len(np.unique(levels, axis=0)) / float(every)) if levels.shape[1] else 1.0


def _block(levels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Indicators of all levels but the first, less their means, shape (configurations, levels - 1)."""
    codes = np.unique(levels, return_inverse=True)[1].reshape(-1)
    indicators = (codes[:, None] == np.arange(1, codes.max() + 1)).astype(np.float64)
    centred: NDArray[np.float64] = indicators - indicators.mean(axis=0)
    return centred


def _axis(parts: Sequence[NDArray[np.float64]], axis: int, found: _Means, fraction: float) -> float:
    """Variance of the effect of an axis; NaN where it cannot be estimated."""
    width, number = parts[axis].shape[1], len(found.value)
    if not width:
        return NAN
    whole = np.hstack(list(parts))
    rank = 1 + _rank(whole)
    others = np.hstack([np.zeros((number, 1)), *(part for k, part in enumerate(parts) if k != axis)])
    told = rank - 1 - _rank(others) == width
    exact = fraction == 1 and np.isfinite(found.seed)
    if told and (exact or number - rank >= max(1.0, LEAST_FREEDOM * number)):
        start = sum(part.shape[1] for part in parts[:axis])
        return _corrected(whole, slice(start, start + width), found, fraction)
    # alone, the other axes are chance like any other: their combinations are a sample in any case
    return _corrected(parts[axis], slice(0, width), found, fraction if len(parts) == 1 else 0.0)


def _rank(design: NDArray[np.float64]) -> int:
    """The rank of a matrix of many rows and few columns."""
    return int(np.linalg.matrix_rank(design.T @ design, hermitian=True))


def _corrected(design: NDArray[np.float64], own: slice, found: _Means, fraction: float) -> float:
    """Mean square of the effect of the columns `own` of a centred design, less what chance adds to it."""
    number = len(found.value)
    inverse = np.linalg.pinv(design)
    leverage = (design * inverse.T).sum(axis=1) + 1.0 / number
    freedom = number - round(float(leverage.sum()))
    left = 1 - leverage
    rest = found.value - found.value.mean() - design @ (inverse @ found.value)
    block = inverse[own]
    gram = design[:, own].T @ design[:, own]
    weight = (block * (gram @ block)).sum(axis=0)  # what the square of each mean adds to that of the effect
    if np.isfinite(found.seed):
        if freedom < 1 and fraction < 1:
            return NAN
        chance = float((rest**2).sum() - found.seed * (left * found.inverse).sum())
        interactions = chance / freedom if freedom >= 1 else 0.0
        error = (1 - fraction) * interactions + found.seed * found.inverse
    elif freedom >= 1:
        error = np.full(number, float((rest**2).sum()) / freedom)
    else:
        return NAN
    effect = design[:, own] @ (block @ found.value)
    return float(((effect**2).sum() - (weight * error).sum()) / number)
