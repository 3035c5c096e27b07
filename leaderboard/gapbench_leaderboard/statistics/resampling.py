"""Bootstrap over configurations: multiplicities, named generators, Holm's correction."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FEW_CONFIGURATIONS = 30
"""Below this many configurations an interval is marked unreliable."""
SIGNIFICANCE = 0.05
"""Of a difference, after Holm's correction."""
MOST_DELETIONS = 300
"""Deletions of the jackknife within one task."""


def generator(seed: int, *names: str) -> np.random.Generator:
    """A generator for named dimensions: another task or proxy in the table changes no other's numbers."""
    return np.random.default_rng([seed, *(zlib.crc32(name.encode()) for name in names)])


def draw_configurations(count: int, replicates: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Bootstrap multiplicities of configurations.

    Configurations are drawn with replacement, as many as there are.

    Returns:
        shape (replicates + 1, count); row 0 is the original.
    """
    drawn = np.ones((replicates + 1, count), dtype=np.int64)
    if count:
        drawn[1:] = random.multinomial(count, np.full(count, 1.0 / count), size=replicates)
    return drawn


def deletion_numbers(count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """The number of the deletion that takes each configuration out.

    One for each; beyond 300 configurations they are deleted in 300 groups of random members.

    Returns:
        shape (count,).
    """
    if count <= MOST_DELETIONS:
        return np.arange(count)
    return random.permutation(np.arange(count) % MOST_DELETIONS)


def deletions(numbers: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Multiplicities with one deletion each, shape (total, count): 0 for the configurations deleted, else 1."""
    multiplicities: NDArray[np.int64] = (np.arange(total)[:, None] != numbers).astype(np.int64)
    return multiplicities


def draw_multiplicities(
    configuration: NDArray[np.int64], replicates: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Multiplicities of networks: all seeds stay with their configuration.

    Args:
        configuration: shape (networks,), the number of each network's configuration.
        replicates: bootstrap samples.
        random: draws them.

    Returns:
        shape (replicates + 1, networks); row 0 is the original.
    """
    codes, member = np.unique(configuration, return_inverse=True)
    return draw_configurations(len(codes), replicates, random)[:, member.reshape(-1)]


def holm(p_values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """p-values adjusted by Holm's step-down method (Holm 1979); NaN stays NaN and counts for nothing."""
    p = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    defined = np.flatnonzero(np.isfinite(p))
    order = defined[np.argsort(p[defined], kind="stable")]
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors))
    return adjusted
