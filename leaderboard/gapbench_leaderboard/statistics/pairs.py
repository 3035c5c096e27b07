"""Counts of concordant, discordant and tied pairs, for many bootstrap replicates at once.

A bootstrap sample is the original sample with integer multiplicities m_i. Pairs are counted with weight
m_i m_j over *different* members i != j: a network never pairs with its own copy. The sort orders, and the
merges that count discordant pairs (Knight 1966), therefore are planned once and replayed for all replicates,
one lane each. All counts are exact integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapbench_leaderboard.statistics._compile import Integers, Whole, compiled

LANES = 32
"""Replicates that are counted side by side."""

BASE = 8
"""Members in the blocks that are planned pair by pair."""

_LARGEST_INT32_TOTAL = 60_000  # total weight N with N^2 / 2 below 2^31
_LARGEST_FLOAT32_TOTAL = 5_790  # total weight N with N^2 / 2 below 2^24


@dataclass(frozen=True)
class PairCounts:
    """Weighted counts over unordered pairs i < j, one number per replicate; arrays of shape (replicates,)."""

    difference: NDArray[np.int64]
    """Concordant minus discordant pairs."""
    untied_x: NDArray[np.int64]
    """Pairs that differ in x."""
    untied_y: NDArray[np.int64]
    """Pairs that differ in y."""
    pairs: NDArray[np.int64]
    """All pairs of different members."""

    def tau_a(self) -> NDArray[np.float64]:
        """tau-a of each replicate; NaN without a pair."""
        return _ratio(self.difference, self.pairs.astype(np.float64))

    def tau_b(self) -> NDArray[np.float64]:
        """tau-b of each replicate; NaN where x or y is constant."""
        return _ratio(self.difference, np.sqrt(self.untied_x.astype(np.float64) * self.untied_y))


@dataclass(frozen=True)
class Order:
    """Sort order of one vector: dense ranks 0..levels-1, members sorted by rank, start of each rank."""

    rank: NDArray[np.int32]
    members: NDArray[np.int32]
    starts: NDArray[np.int32]

    @property
    def levels(self) -> int:
        """Number of distinct values."""
        return len(self.starts) - 1


def order_of(values: ArrayLike) -> Order:
    """The sort order of a finite vector of shape (n,)."""
    vector = np.asarray(values)
    members = np.argsort(vector, kind="stable")
    ascending = vector[members]
    new = np.ones(len(vector), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    rank = np.empty(len(vector), dtype=np.int32)
    rank[members] = np.cumsum(new) - 1
    starts = np.append(np.flatnonzero(new), len(vector)).astype(np.int32)
    return Order(rank, members.astype(np.int32), starts)


@dataclass(frozen=True)
class Multiplicities:
    """How often each of n members occurs in each replicate, laid out in lanes."""

    narrow: NDArray[Any]
    """Shape (ceil(replicates / LANES), n, LANES), uint8 where that suffices; unused lanes are 0."""
    replicates: int

    @cached_property
    def blocks(self) -> NDArray[Any]:
        """The same as int32, or int64 where a product of two sums of weights would overflow."""
        largest = int(self.narrow.sum(axis=1, dtype=np.int64).max()) if self.narrow.size else 0
        return self.narrow.astype(np.int32 if largest < _LARGEST_INT32_TOTAL else np.int64)

    @cached_property
    def exact(self) -> type[np.floating[Any]]:
        """The shorter floating type in which counts of pairs are exact."""
        largest = int(self.narrow.sum(axis=1, dtype=np.int64).max()) if self.narrow.size else 0
        return np.float32 if largest < _LARGEST_FLOAT32_TOTAL else np.float64

    @property
    def members(self) -> int:
        """Number of members."""
        return int(self.narrow.shape[1])

    def select(self, index: NDArray[np.intp]) -> Multiplicities:
        """The same replicates for a part of the members."""
        if len(index) == self.members and (np.asarray(index) == np.arange(self.members)).all():
            return self
        return Multiplicities(np.ascontiguousarray(self.narrow[:, index, :]), self.replicates)

    def matrix(self) -> NDArray[np.int64]:
        """Shape (replicates, n)."""
        flat = self.narrow.transpose(0, 2, 1).reshape(-1, self.members)
        return flat[: self.replicates].astype(np.int64)

    @cached_property
    def _pairs(self) -> NDArray[np.int64]:
        result = _all_pairs(self.narrow)
        return result.reshape(-1)[: self.replicates]

    def pairs(self) -> NDArray[np.int64]:
        """Weight of all pairs of different members, shape (replicates,)."""
        return self._pairs


def lay_out(multiplicities: ArrayLike) -> Multiplicities:
    """Arrange non-negative integer multiplicities of shape (replicates, n) in lanes.

    Returns:
        The multiplicities in blocks of lanes, padded with zeros.

    Raises:
        ValueError: if the array is not two-dimensional or holds negative numbers.
    """
    matrix = np.asarray(multiplicities)
    if matrix.ndim != 2:
        raise ValueError(f"multiplicities must have the shape (replicates, members), not {matrix.shape}")
    if matrix.size and matrix.min() < 0:
        raise ValueError("multiplicities must not be negative")
    replicates, members = matrix.shape
    largest = int(matrix.max()) if matrix.size else 0
    kind = np.uint8 if largest < 256 else np.int64
    count = -(-replicates // LANES)
    padded = np.zeros((count * LANES, members), dtype=kind)
    padded[:replicates] = matrix
    blocks = padded.reshape(count, LANES, members).transpose(0, 2, 1)
    return Multiplicities(np.ascontiguousarray(blocks), replicates)


def once(members: int) -> Multiplicities:
    """The original sample as the only replicate."""
    return lay_out(np.ones((1, members), dtype=np.uint8))


def count_pairs(
    x: Order, y: Order, multiplicities: Multiplicities, tied_y: NDArray[np.int64] | None = None
) -> PairCounts:
    """Count pairs of two vectors of the same n members in every replicate: O(n log n) each.

    Knight's decomposition (1966): concordant minus discordant pairs are all pairs - pairs tied in x - tied in
    y + tied in both - 2 discordant ones.

    Args:
        x: order of the one vector.
        y: order of the other.
        multiplicities: of the members.
        tied_y: `tied_pairs(y, multiplicities)`, for many x with one y.

    Returns:
        Counts of shape (replicates,).
    """
    pairs = multiplicities.pairs()
    in_x = tied_pairs(x, multiplicities)
    in_y = tied_pairs(y, multiplicities) if tied_y is None else tied_y
    difference = pairs - in_x - in_y - 2 * discordant_pairs(x, y, multiplicities)
    if x.levels < len(x.rank) and y.levels < len(y.rank):
        both = order_of(x.rank.astype(np.int64) * y.levels + y.rank)
        difference += tied_pairs(both, multiplicities)
    return PairCounts(difference=difference, untied_x=pairs - in_x, untied_y=pairs - in_y, pairs=pairs)


def discordant_pairs(x: Order, y: Order, multiplicities: Multiplicities) -> NDArray[np.int64]:
    """Pairs that x and y order differently, ties in either excluded, in every replicate.

    Members are sorted by x, ties by y, so that a discordant pair is an inversion of y. The merges of a merge
    sort are planned once and replayed for all replicates: walking down y through two adjacent blocks, a
    member of the right block forms inversions with the left members passed before. Blocks of 8 are planned
    as lists of inverted pairs.

    Returns:
        shape (replicates,).
    """
    members = np.lexsort((y.rank, x.rank)).astype(np.int32)
    rank = y.rank[members]
    first, second = _base_inversions(rank)
    levels, right = _plan(rank)
    workspace = np.zeros((3, LANES), dtype=multiplicities.exact)
    counted = _replay(
        members[levels], right, members[first], members[second], multiplicities.narrow, workspace
    )
    return counted.reshape(-1)[: multiplicities.replicates]


def tied_pairs(order: Order, multiplicities: Multiplicities) -> NDArray[np.int64]:
    """Pairs of different members with equal values in every replicate, shape (replicates,)."""
    if order.levels == len(order.rank):
        return np.zeros(multiplicities.replicates, dtype=np.int64)
    workspace = np.zeros((2, LANES), dtype=multiplicities.exact)
    result = _tied_pairs(order.members, order.starts, multiplicities.narrow, workspace)
    return result.reshape(-1)[: multiplicities.replicates]


def _ratio(numerator: NDArray[np.int64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    result = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=result, where=denominator > 0)
    return result


@compiled
def _base_inversions(rank: Whole) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Positions i < j with rank[i] > rank[j] within blocks of BASE positions."""
    size = rank.shape[0]
    first = np.empty(size * BASE // 2, dtype=np.int32)
    second = np.empty(size * BASE // 2, dtype=np.int32)
    count = 0
    for start in range(0, size, BASE):
        for i in range(start, min(start + BASE, size)):
            for j in range(i + 1, min(start + BASE, size)):
                if rank[i] > rank[j]:
                    first[count] = i
                    second[count] = j
                    count += 1
    return first[:count], second[:count]


@compiled
def _plan(rank: Whole) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Merge order and right-hand marks of every level, shape (levels, n); ranks descend, ties right first."""
    size = rank.shape[0]
    depth = 0
    width = BASE
    while width < size:
        depth += 1
        width *= 2
    order = np.empty((depth, size), dtype=np.int32)
    right = np.zeros((depth, size), dtype=np.uint8)
    current = np.empty(size, dtype=np.int32)
    for start in range(0, size, BASE):  # insertion sort, descending
        for i in range(start, min(start + BASE, size)):
            place = i
            while place > start and rank[current[place - 1]] < rank[i]:
                current[place] = current[place - 1]
                place -= 1
            current[place] = i
    width = BASE
    for level in range(depth):
        for start in range(0, size, 2 * width):
            middle = min(start + width, size)
            end = min(start + 2 * width, size)
            i = start
            j = middle
            for place in range(start, end):
                if j < end and (i >= middle or rank[current[j]] >= rank[current[i]]):
                    order[level, place] = current[j]
                    right[level, place] = 1
                    j += 1
                else:
                    order[level, place] = current[i]
                    i += 1
        current[:] = order[level]
        width *= 2
    return order, right


@compiled
def _replay(
    levels: Whole, right: Whole, first: Whole, second: Whole, weights: Whole, workspace: Whole
) -> Integers:
    result = np.zeros((weights.shape[0], LANES), dtype=np.int64)
    size = levels.shape[1]
    passed = workspace[0]
    crossed = workspace[1]
    for block in range(weights.shape[0]):
        weight = weights[block]
        crossed[:] = 0
        for pair in range(first.shape[0]):
            one = weight[first[pair]]
            other = weight[second[pair]]
            for lane in range(LANES):
                crossed[lane] += workspace.dtype.type(one[lane]) * workspace.dtype.type(other[lane])
        for lane in range(LANES):
            result[block, lane] += np.int64(crossed[lane])
        width = 2 * BASE
        for level in range(levels.shape[0]):
            for start in range(0, size, width):
                passed[:] = 0
                crossed[:] = 0
                for place in range(start, min(start + width, size)):
                    row = weight[levels[level, place]]
                    mark = workspace.dtype.type(right[level, place])
                    for lane in range(LANES):
                        w = workspace.dtype.type(row[lane])
                        on_right = w * mark
                        crossed[lane] += on_right * passed[lane]
                        passed[lane] += w - on_right
                for lane in range(LANES):
                    result[block, lane] += np.int64(crossed[lane])
            width *= 2
    return result


@compiled
def _all_pairs(weights: Whole) -> Integers:
    result = np.zeros((weights.shape[0], LANES), dtype=np.int64)
    for block in range(weights.shape[0]):
        total = np.zeros(LANES, dtype=np.int64)
        for member in range(weights.shape[1]):
            for lane in range(LANES):
                w = np.int64(weights[block, member, lane])
                result[block, lane] += total[lane] * w
                total[lane] += w
    return result


@compiled
def _tied_pairs(members: Whole, starts: Whole, weights: Whole, workspace: Whole) -> Integers:
    result = np.zeros((weights.shape[0], LANES), dtype=np.int64)
    passed = workspace[0]
    tied = workspace[1]
    for block in range(weights.shape[0]):
        tied[:] = 0
        for level in range(starts.shape[0] - 1):
            if starts[level + 1] - starts[level] < 2:
                continue
            passed[:] = 0
            for place in range(starts[level], starts[level + 1]):
                row = weights[block, members[place]]
                for lane in range(LANES):
                    w = workspace.dtype.type(row[lane])
                    tied[lane] += passed[lane] * w
                    passed[lane] += w
        for lane in range(LANES):
            result[block, lane] = np.int64(tied[lane])
    return result
