"""Jiang's K in every bootstrap replicate, counted for all sets of axes at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.statistics._compile import Floats, Integers, Whole, compiled
from gapbench_leaderboard.statistics.configurations import group_codes
from gapbench_leaderboard.statistics.pairs import LANES, Multiplicities
from gapbench_leaderboard.statistics.pairs_of_cells import RankedPairs, quicker, ranked_pairs

MOST_LEVELS = 512
"""Joint levels of two axes beyond which nothing is left to condition on, and memory would run out."""
MOST_LOGARITHMS = 1_000_000
"""Kept in a table."""
MOST_KEPT = 64 << 20
"""Bytes of the counts that measures share."""


@dataclass
class TargetPairs:
    """Counts of pairs by the target alone, which measures on the same networks share, as far as memory suffices."""

    found: dict[tuple[tuple[int, ...], int], Whole] = field(default_factory=dict)
    size: int = 0

    def keep(self, key: tuple[tuple[int, ...], int], counts: Whole) -> None:
        """Keep what was counted for a pair of axes and a block of replicates."""
        if self.size + counts.nbytes <= MOST_KEPT:
            self.found[key] = counts
            self.size += counts.nbytes


def k_replicates(
    codes: NDArray[np.int64],
    measure: NDArray[np.float64],
    target: NDArray[np.float64],
    multiplicities: Multiplicities,
    target_pairs: TargetPairs | None = None,
) -> NDArray[np.float64]:
    """Jiang's K of every replicate; pairs of configurations weigh m_i m_j.

    Sets of one axis and the empty set are sums over the counts of a pair of axes, so pairs of configurations
    are walked once per pair of axes.

    Args:
        codes: levels of the axes, shape (configurations, axes).
        measure: means over seeds, shape (configurations,).
        target: likewise.
        multiplicities: of the configurations.
        target_pairs: what was counted for other measures with the same codes, target and multiplicities.

    Returns:
        shape (replicates,).

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
    ranked: RankedPairs | None = None
    table = _plogp_table(max((int(block.sum(axis=0).max()) for block in blocks), default=0) ** 2)
    best = np.full((len(blocks), LANES), np.inf)
    for carrier, subsets in carriers.items():
        cell = group_codes(codes[:, list(carrier)])
        groups = int(cell.max()) + 1 if len(cell) else 0
        if groups > MOST_LEVELS:
            raise ValueError(f"{groups} joint levels of two axes are too many to condition on")
        first = np.unique(cell, return_index=True)[1]
        merged = [group_codes(codes[first][:, list(subset)]) for subset in subsets]
        if ranked is None and quicker(len(cell), groups):
            ranked = ranked_pairs(measure, target)
        sorted_first = ranked if quicker(len(cell), groups) else None
        for number, weight in enumerate(blocks):
            if sorted_first is not None:
                used = min(LANES, multiplicities.replicates - LANES * number)
                known = None if target_pairs is None else target_pairs.found.get((carrier, number))
                if known is None and target_pairs is not None:
                    known = sorted_first.above_in_target(cell, groups, weight[:, :used])
                    target_pairs.keep((carrier, number), known)
                counts = sorted_first.counts(cell, groups, weight[:, :used], known)
            else:
                counts = _count(cell, groups, measure, target, weight)
            for groups_of_subset in merged:
                best[number] = np.fmin(best[number], _information(counts, groups_of_subset, table))
    values = best.reshape(-1)[: multiplicities.replicates]
    constant = len(measure) > 1 and np.ptp(measure) == 0
    return np.where(np.isinf(values), 0.0 if constant else np.nan, values)


def _information(
    counts: NDArray[np.float64], merged: NDArray[np.int64], table: NDArray[np.float64]
) -> NDArray[np.float64]:
    """I / H of each lane after merging cells; counts has the shape (groups, groups, 4, LANES)."""
    size = int(merged.max()) + 1 if len(merged) else 0
    return _merged_information(counts, merged, size, table)


def _plogp_table(most: int) -> NDArray[np.float64]:
    """n log n of all counts up to the greatest, or of the first million: looking up is quicker than a logarithm."""
    return _logarithms(min(most, MOST_LOGARITHMS) + 1)


@compiled
def _logarithms(size: int) -> Floats:
    found = np.zeros(size)
    for n in range(1, size):
        found[n] = np.float64(n) * np.log(np.float64(n))
    return found


@compiled
def _plogp(value: float, table: Floats) -> float:
    """Of a count, which is a whole number."""
    if value < table.shape[0]:
        return float(table[int(value)])
    return float(value * np.log(value))


@compiled
def _merged_information(counts: Floats, merged: Integers, size: int, logs: Floats) -> Floats:
    groups = counts.shape[0]
    table = np.zeros((size, size, 4, LANES))
    for i in range(groups):
        for j in range(groups):
            cell = table[merged[i], merged[j]]
            for code in range(4):
                for lane in range(LANES):
                    cell[code, lane] += counts[i, j, code, lane]
    total, entropy, information = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    informative = np.zeros(LANES, dtype=np.bool_)
    for i in range(size):
        for j in range(size):
            for lane in range(LANES):
                a = table[i, j, 0, lane]
                b = table[i, j, 1, lane]
                c = table[i, j, 2, lane]
                d = table[i, j, 3, lane]
                whole = a + b + c + d
                if whole == 0:
                    continue
                total[lane] += whole
                rest = _plogp(whole, logs) - _plogp(a + c, logs) - _plogp(b + d, logs)
                entropy[lane] += rest
                information[lane] += _plogp(a, logs) + _plogp(b, logs) + _plogp(c, logs) + _plogp(d, logs)
                information[lane] += rest - _plogp(a + b, logs) - _plogp(c + d, logs)
                if a + b > 0 and c + d > 0 and a + c > 0 and b + d > 0:
                    informative[lane] = True
    result = np.full(LANES, np.nan)
    for lane in range(LANES):
        if entropy[lane] > 1e-12 * total[lane]:
            result[lane] = max(information[lane], 0.0) / entropy[lane] if informative[lane] else 0.0
    return result


@compiled
def _count(cell: Integers, groups: int, measure: Floats, target: Floats, weight: Whole) -> Floats:
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
