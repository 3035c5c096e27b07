"""Counts of concordant, discordant and tied pairs, for many bootstrap replicates at once.

A bootstrap sample is the original sample with integer multiplicities m_i. Pairs are counted with weight
m_i m_j over *different* members i != j: a network never pairs with its own copy. The sort orders therefore
are computed once; a Fenwick tree over the ranks of y, walked in the order of x, holds one lane per replicate.
All counts are exact integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._compile import compiled

LANES = 32
"""Replicates that are counted side by side."""

_LARGEST_INT32_TOTAL = 60_000  # total weight N with N^2 / 2 below 2^31


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
        return len(self.starts) - 1


def order_of(values: ArrayLike) -> Order:
    """The sort order of a finite vector of shape (n,)."""
    vector = np.asarray(values)
    levels, rank = np.unique(vector, return_inverse=True)
    rank = rank.reshape(-1)
    members = np.argsort(rank, kind="stable")
    starts = np.zeros(len(levels) + 1, dtype=np.int32)
    np.cumsum(np.bincount(rank, minlength=len(levels)), out=starts[1:])
    return Order(rank.astype(np.int32), members.astype(np.int32), starts)


@dataclass(frozen=True)
class Multiplicities:
    """How often each of n members occurs in each replicate, laid out in lanes."""

    blocks: NDArray[Any]
    """Shape (ceil(replicates / LANES), n, LANES), int32 or int64; lanes beyond the last replicate are 0."""
    replicates: int

    @property
    def members(self) -> int:
        return int(self.blocks.shape[1])

    def select(self, index: NDArray[np.intp]) -> Multiplicities:
        """The same replicates for a part of the members."""
        return Multiplicities(np.ascontiguousarray(self.blocks[:, index, :]), self.replicates)

    def matrix(self) -> NDArray[np.int64]:
        """Shape (replicates, n)."""
        flat = self.blocks.transpose(0, 2, 1).reshape(-1, self.members)
        return flat[: self.replicates].astype(np.int64)

    def pairs(self) -> NDArray[np.int64]:
        """Weight of all pairs of different members, shape (replicates,)."""
        wide = self.blocks.astype(np.int64)
        total, square = wide.sum(axis=1), (wide**2).sum(axis=1)
        return ((total**2 - square) // 2).reshape(-1)[: self.replicates]


def lay_out(multiplicities: ArrayLike) -> Multiplicities:
    """Arrange non-negative integer multiplicities of shape (replicates, n) in lanes.

    Raises:
        ValueError: if the array is not two-dimensional or holds negative numbers.
    """
    matrix = np.asarray(multiplicities)
    if matrix.ndim != 2:
        raise ValueError(f"multiplicities must have the shape (replicates, members), not {matrix.shape}")
    if matrix.size and matrix.min() < 0:
        raise ValueError("multiplicities must not be negative")
    replicates, members = matrix.shape
    largest = int(matrix.sum(axis=1).max()) if matrix.size else 0
    kind = np.int32 if largest < _LARGEST_INT32_TOTAL else np.int64
    count = -(-replicates // LANES)
    padded = np.zeros((count * LANES, members), dtype=kind)
    padded[:replicates] = matrix
    blocks = padded.reshape(count, LANES, members).transpose(0, 2, 1)
    return Multiplicities(np.ascontiguousarray(blocks), replicates)


def once(members: int) -> Multiplicities:
    """The original sample as the only replicate."""
    return lay_out(np.ones((1, members), dtype=np.int64))


def count_pairs(x: Order, y: Order, multiplicities: Multiplicities) -> PairCounts:
    """Count pairs of two vectors of the same n members in every replicate: O(n log n) each."""
    replicates = multiplicities.replicates
    pairs = multiplicities.pairs()
    return PairCounts(
        difference=concordance(x, y, multiplicities),
        untied_x=pairs - tied_pairs(x, multiplicities),
        untied_y=pairs - tied_pairs(y, multiplicities),
        pairs=pairs[:replicates],
    )


def concordance(x: Order, y: Order, multiplicities: Multiplicities) -> NDArray[np.int64]:
    """Concordant minus discordant pairs in every replicate, shape (replicates,)."""
    result = _concordance(x.members, x.starts, y.rank, y.levels, multiplicities.blocks)
    return result.reshape(-1)[: multiplicities.replicates]


def tied_pairs(order: Order, multiplicities: Multiplicities) -> NDArray[np.int64]:
    """Pairs of different members with equal values in every replicate, shape (replicates,)."""
    if order.levels == len(order.rank):
        return np.zeros(multiplicities.replicates, dtype=np.int64)
    result = _tied_pairs(order.members, order.starts, multiplicities.blocks)
    return result.reshape(-1)[: multiplicities.replicates]


def _ratio(numerator: NDArray[np.int64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    result = np.full(numerator.shape, np.nan)
    np.divide(numerator, denominator, out=result, where=denominator > 0)
    return result


@compiled
def _concordance(members, starts, y_rank, y_levels, blocks):  # type: ignore[no-untyped-def]
    count = blocks.shape[0]
    result = np.zeros((count, LANES), dtype=np.int64)
    tied = y_levels < y_rank.shape[0]
    tree = np.empty((y_levels + 1, LANES), dtype=blocks.dtype)
    below = np.empty(LANES, dtype=blocks.dtype)
    inserted = np.empty(LANES, dtype=blocks.dtype)
    total = np.empty(LANES, dtype=blocks.dtype)
    for block in range(count):
        weight = blocks[block]
        tree[:] = 0
        inserted[:] = 0
        total[:] = 0
        for level in range(starts.shape[0] - 1):
            for position in range(starts[level], starts[level + 1]):
                member = members[position]
                # `below` becomes (weight with smaller y) - (weight with larger y), among smaller x
                for lane in range(LANES):
                    below[lane] = -inserted[lane]
                node = y_rank[member]
                if tied:
                    while node > 0:
                        for lane in range(LANES):
                            below[lane] += tree[node, lane]
                        node &= node - 1
                    node = y_rank[member] + 1
                    while node > 0:
                        for lane in range(LANES):
                            below[lane] += tree[node, lane]
                        node &= node - 1
                else:
                    while node > 0:
                        for lane in range(LANES):
                            below[lane] += 2 * tree[node, lane]
                        node &= node - 1
                for lane in range(LANES):
                    total[lane] += weight[member, lane] * below[lane]
            for position in range(starts[level], starts[level + 1]):
                member = members[position]
                for lane in range(LANES):
                    inserted[lane] += weight[member, lane]
                node = y_rank[member] + 1
                while node <= y_levels:
                    for lane in range(LANES):
                        tree[node, lane] += weight[member, lane]
                    node += node & -node
        for lane in range(LANES):
            result[block, lane] = total[lane]
    return result


@compiled
def _tied_pairs(members, starts, blocks):  # type: ignore[no-untyped-def]
    count = blocks.shape[0]
    result = np.zeros((count, LANES), dtype=np.int64)
    group = np.empty(LANES, dtype=np.int64)
    for block in range(count):
        for level in range(starts.shape[0] - 1):
            if starts[level + 1] - starts[level] < 2:
                continue
            group[:] = 0
            for position in range(starts[level], starts[level + 1]):
                for lane in range(LANES):
                    w = np.int64(blocks[block, members[position], lane])
                    result[block, lane] += group[lane] * w
                    group[lane] += w
    return result
