"""Jiang's K in every bootstrap replicate, counted for all sets of axes at once."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ._compile import compiled
from .configurations import group_codes
from .mutual_information import plogp
from .pairs import LANES, Multiplicities

MOST_LEVELS = 512
"""Joint levels of two axes beyond which nothing is left to condition on, and memory would run out."""


def k_replicates(
    codes: NDArray[np.int64],
    measure: NDArray[np.float64],
    target: NDArray[np.float64],
    multiplicities: Multiplicities,
) -> NDArray[np.float64]:
    """Jiang's K of every replicate, shape (replicates,); pairs of configurations weigh m_i m_j.

    Sets of one axis and the empty set are sums over the counts of a pair of axes, so pairs of configurations
    are walked once per pair of axes.

    Args:
        codes: levels of the axes, shape (configurations, axes).
        measure, target: means over seeds, shape (configurations,).

    Raises:
        ValueError: if two axes have more joint levels than MOST_LEVELS.
    """
    axes = range(codes.shape[1])
    carriers: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    pending = {subset for size in (0, 1, 2) for subset in combinations(axes, size)}
    pairs: list[tuple[int, ...]] = [*combinations(axes, 2)]
    for carrier in pairs or [*combinations(axes, 1)] or [()]:
        served = [subset for subset in pending if set(subset) <= set(carrier)]
        pending -= set(served)
        carriers[carrier] = served
    blocks = multiplicities.blocks
    best = np.full((len(blocks), LANES), np.inf)
    for carrier, subsets in carriers.items():
        cell = group_codes(codes[:, list(carrier)])
        groups = int(cell.max()) + 1 if len(cell) else 0
        if groups > MOST_LEVELS:
            raise ValueError(f"{groups} joint levels of two axes are too many to condition on")
        first = np.unique(cell, return_index=True)[1]
        merged = [group_codes(codes[first][:, list(subset)]) for subset in subsets]
        for number, weight in enumerate(blocks):
            counts = _count(cell, groups, measure, target, weight)
            for groups_of_subset in merged:
                best[number] = np.fmin(best[number], _information(counts, groups_of_subset))
    values = best.reshape(-1)[: multiplicities.replicates]
    constant = len(measure) > 1 and np.ptp(measure) == 0
    return np.where(np.isinf(values), 0.0 if constant else np.nan, values)


def _information(counts: NDArray[np.float64], merged: NDArray[np.int64]) -> NDArray[np.float64]:
    """I / H of each lane after merging cells; counts has the shape (groups, groups, 4, LANES)."""
    size = int(merged.max()) + 1 if len(merged) else 0
    if size < len(merged):
        indicator = np.zeros((size, len(merged)))
        indicator[merged, np.arange(len(merged))] = 1.0
        counts = np.tensordot(indicator, counts, axes=(1, 0))
        counts = np.tensordot(indicator, counts, axes=(1, 1)).transpose(1, 0, 2, 3)
    table = counts.reshape(size * size, 2, 2, LANES)
    total = table.sum(axis=(1, 2))
    rows, columns = table.sum(axis=2), table.sum(axis=1)
    of_target = plogp(columns).sum(axis=(0, 1))
    whole = plogp(total).sum(axis=0)
    entropy = whole - of_target
    information = plogp(table).sum(axis=(0, 1, 2)) - plogp(rows).sum(axis=(0, 1)) - of_target + whole
    informative = ((rows > 0).all(axis=1) & (columns > 0).all(axis=1)).any(axis=0)
    defined = entropy > 1e-12 * total.sum(axis=0)
    result = np.full(LANES, np.nan)
    np.divide(np.maximum(information, 0.0), entropy, out=result, where=defined)
    return np.where(defined & ~informative, 0.0, result)


@compiled
def _count(cell, groups, measure, target, weight):  # type: ignore[no-untyped-def]
    """Counts of 2 [x_i > x_j] + [y_i > y_j] over ordered pairs in cells (cell_i, cell_j)."""
    counts = np.zeros((groups, groups, 4, LANES), dtype=weight.dtype)
    for i in range(cell.shape[0]):
        for j in range(i + 1, cell.shape[0]):
            forward = 2 * (measure[i] > measure[j]) + (target[i] > target[j])
            backward = 2 * (measure[j] > measure[i]) + (target[j] > target[i])
            one = counts[cell[i], cell[j], forward]
            other = counts[cell[j], cell[i], backward]
            for lane in range(LANES):
                w = weight[i, lane] * weight[j, lane]
                one[lane] += w
                other[lane] += w
    return counts.astype(np.float64)
