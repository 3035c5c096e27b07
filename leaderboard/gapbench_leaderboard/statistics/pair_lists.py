"""Kendall coefficients over a chosen list of pairs, in every bootstrap replicate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.statistics._compile import Integers, Whole, compiled
from gapbench_leaderboard.statistics.dyads import Dyads
from gapbench_leaderboard.statistics.pairs import LANES, Multiplicities, PairCounts


@dataclass(frozen=True)
class PairList:
    """Unordered pairs of members, each array of shape (pairs,)."""

    first: NDArray[np.int32]
    second: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.first)


def count_listed(
    x: NDArray[np.float64], y: NDArray[np.float64], pairs: PairList, multiplicities: Multiplicities
) -> PairCounts:
    """Weighted counts over the listed pairs; a pair weighs m_i m_j."""
    dx = np.sign(x[pairs.first] - x[pairs.second]).astype(np.int8)
    dy = np.sign(y[pairs.first] - y[pairs.second]).astype(np.int8)
    sums = _sums(pairs.first, pairs.second, dx, dy, multiplicities.blocks)
    flat = sums.transpose(1, 0, 2).reshape(4, -1)[:, : multiplicities.replicates]
    return PairCounts(difference=flat[0], untied_x=flat[1], untied_y=flat[2], pairs=flat[3])


def count_dyads(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    pairs: PairList,
    dyads: Dyads,
    configurations: Multiplicities,
) -> PairCounts:
    """`count_listed`, where all seeds share the multiplicity of their configuration.

    Pairs between the same two configurations have the same weight and are added up once.

    Returns:
        Counts of shape (replicates,).
    """
    dx = np.sign(x[pairs.first] - x[pairs.second])
    dy = np.sign(y[pairs.first] - y[pairs.second])
    sums = np.stack(
        [
            np.bincount(dyads.dyad, values, len(dyads.first)).astype(np.int64)
            for values in (dx * dy, np.abs(dx), np.abs(dy), np.ones(len(dx)))
        ],
        axis=1,
    )
    counted = _dyad_sums(dyads.first, dyads.second, sums, configurations.narrow)
    flat = counted.transpose(1, 0, 2).reshape(4, -1)[:, : configurations.replicates]
    return PairCounts(difference=flat[0], untied_x=flat[1], untied_y=flat[2], pairs=flat[3])


@compiled
def _dyad_sums(first: Whole, second: Whole, sums: Integers, weights: Whole) -> Integers:
    result = np.zeros((weights.shape[0], 4, LANES), dtype=np.int64)
    for block in range(weights.shape[0]):
        part = result[block]
        for dyad in range(first.shape[0]):
            one = weights[block, first[dyad]]
            other = weights[block, second[dyad]]
            for lane in range(LANES):
                w = np.int64(one[lane]) * np.int64(other[lane])
                part[0, lane] += sums[dyad, 0] * w
                part[1, lane] += sums[dyad, 1] * w
                part[2, lane] += sums[dyad, 2] * w
                part[3, lane] += sums[dyad, 3] * w
    return result


@compiled
def _sums(first: Whole, second: Whole, dx: Whole, dy: Whole, blocks: Whole) -> Integers:
    result = np.zeros((blocks.shape[0], 4, LANES), dtype=np.int64)
    part = np.zeros((4, LANES), dtype=blocks.dtype)
    for block in range(blocks.shape[0]):
        part[:] = 0
        for pair in range(first.shape[0]):
            sign = dx[pair] * dy[pair]
            in_x = dx[pair] * dx[pair]
            in_y = dy[pair] * dy[pair]
            for lane in range(LANES):
                w = blocks[block, first[pair], lane] * blocks[block, second[pair], lane]
                part[0, lane] += sign * w
                part[1, lane] += in_x * w
                part[2, lane] += in_y * w
                part[3, lane] += w
        for row in range(4):
            for lane in range(LANES):
                result[block, row, lane] = part[row, lane]
    return result
