"""Kendall coefficients over a chosen list of pairs, in every bootstrap replicate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._compile import compiled
from .pairs import LANES, Multiplicities, PairCounts


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


@compiled
def _sums(first, second, dx, dy, blocks):  # type: ignore[no-untyped-def]
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
