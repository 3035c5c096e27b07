"""Counts of pairs by the cells of their members, and by how two vectors order them, without walking all pairs.

How x and y order two members i and j is known from four numbers: the weights of pairs with x_i > x_j, with
y_i > y_j, with both, and of all. The first two are running sums over sorted members. Those with both are counted
in a tree over the members sorted by x: the members of a node are walked in the order of y, and each meets what was
passed of those children of the node that lie before its own. All numbers are whole, so they are those of the walk
over all pairs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.statistics._compile import Floats, Integers, Whole, compiled
from gapbench_leaderboard.statistics.pairs import LANES

FANOUT = 16
"""Children of a node at most."""
LEAF = 16
"""Members of a leaf, whose pairs are walked."""


@dataclass(frozen=True)
class RankedPairs:
    """How a measure and a target order n members, planned once for all cells and replicates.

    Attributes:
        by_x: members in the order of the measure; below, a member is its place here.
        x_starts: where each value of the measure begins.
        by_y: members in the order of the target, `y_starts` where each value begins, `y_rank` the number of each.
        spans: members of a leaf, and of a node of each level of the tree.
        order: of each level, the members of each node in the order of the target, shape (levels, n).
        child: the child of its node that each of them belongs to, shape (levels, n).
    """

    by_x: NDArray[np.int64]
    x_starts: NDArray[np.int64]
    by_y: NDArray[np.int64]
    y_starts: NDArray[np.int64]
    y_rank: NDArray[np.int64]
    spans: NDArray[np.int64]
    order: NDArray[np.int32]
    child: NDArray[np.int32]

    def above_in_target(self, cell: NDArray[np.int64], groups: int, weight: Whole) -> Whole:
        """Weights of pairs in which the target of i is the greater one, by their cells; the same for any measure.

        Returns:
            shape (groups, groups, lanes).
        """
        own, weight = cell[self.by_x], np.ascontiguousarray(weight[self.by_x])
        return _above(own, groups, self.by_y, self.y_starts, weight)

    def counts(
        self, cell: NDArray[np.int64], groups: int, weight: Whole, in_y: Whole | None = None
    ) -> NDArray[np.float64]:
        """Weights of ordered pairs of different members.

        Args:
            cell: of each member, below `groups`.
            groups: number of cells.
            weight: how often each member occurs, shape (n, lanes), at most LANES of them.
            in_y: `above_in_target` of these, if it is known.

        Returns:
            By the cells of i and j, and by 2 [x_i > x_j] + [y_i > y_j]; shape (groups, groups, 4, LANES), 0 in
            further lanes.
        """
        own, weight = cell[self.by_x], np.ascontiguousarray(weight[self.by_x])
        every = np.arange(len(own))
        in_x = _above(own, groups, every, self.x_starts, weight)
        if in_y is None:
            in_y = _above(own, groups, self.by_y, self.y_starts, weight)
        both = _above_in_both(own, groups, self.spans, self.order, self.child, self.y_rank, weight)
        return _by_code(own, groups, in_x, in_y, both, weight)


def quicker(members: int, groups: int) -> bool:
    """Whether counting by `RankedPairs` takes less work than walking all pairs, for so many cells."""
    levels = len(_spans(members)) - 1
    return levels * (groups + FANOUT // 2) + 2 * groups + LEAF < members // 2


def ranked_pairs(x: NDArray[np.float64], y: NDArray[np.float64]) -> RankedPairs:
    """Plan the counts of pairs of members with finite values x and y."""
    rank = np.unique(y, return_inverse=True)[1].reshape(-1).astype(np.int64)
    # Of equal x the greater y stands first: none before another then is below it in both.
    by_x = np.lexsort((-rank, x))
    values, rank = x[by_x], rank[by_x]
    by_y = np.argsort(rank, kind="stable")
    places = np.arange(len(x))
    spans = _spans(len(x))
    order, child = [], []
    for below, span in itertools.pairwise(spans):
        # Of equal y the last child stands first, so that it does not meet those before it.
        own = np.lexsort((-places, rank, places // span))
        order.append(own)
        child.append(own % span // below)
    shape = (len(order), len(x))
    return RankedPairs(
        by_x=by_x,
        x_starts=_starts(values),
        by_y=by_y,
        y_starts=_starts(rank[by_y]),
        y_rank=rank,
        spans=np.array(spans),
        order=np.array(order, dtype=np.int32).reshape(shape),
        child=np.array(child, dtype=np.int32).reshape(shape),
    )


def _spans(members: int) -> list[int]:
    """Members of a leaf, and of a node at each level, of which the highest has all."""
    levels, children = 0, 0
    while LEAF * children**levels < members:
        levels += 1
        children = 2
        while children < FANOUT and LEAF * children**levels < members:
            children += 1
    return [LEAF * children**level for level in range(levels + 1)]


def _starts(ascending: NDArray[np.generic]) -> NDArray[np.int64]:
    new = np.flatnonzero(ascending[1:] != ascending[:-1]) + 1
    return np.concatenate([[0], new, [len(ascending)]]).astype(np.int64)


@compiled
def _above(cell: Integers, groups: int, members: Integers, starts: Integers, weight: Whole) -> Whole:
    """Weights of pairs (i, j) by their cells in which the value of i is the greater one."""
    lanes = weight.shape[1]
    counts = np.zeros((groups, groups * lanes), dtype=weight.dtype)
    passed = np.zeros(groups * lanes, dtype=weight.dtype)
    tile = np.zeros(groups * lanes, dtype=weight.dtype)
    for value in range(starts.shape[0] - 1):
        for place in range(starts[value], starts[value + 1]):
            row = weight[members[place]]
            _spread(row, groups, tile)
            _add_product(counts[cell[members[place]]], tile, passed)
        for place in range(starts[value], starts[value + 1]):
            row = weight[members[place]]
            first = cell[members[place]] * lanes
            for lane in range(lanes):
                passed[first + lane] += row[lane]
    return counts.reshape(groups, groups, lanes)


@compiled
def _above_in_both(
    cell: Integers, groups: int, spans: Integers, order: Whole, child: Whole, rank: Integers, weight: Whole
) -> Whole:
    """The same with both values of i the greater ones."""
    size, lanes = weight.shape
    counts = np.zeros((groups, groups * lanes), dtype=weight.dtype)
    tile = np.zeros(groups * lanes, dtype=weight.dtype)
    of_cells = counts.reshape(groups * groups, lanes)
    for start in range(0, size, spans[0]):
        for i in range(start, min(start + spans[0], size)):
            for j in range(start, i):
                if rank[j] < rank[i]:
                    _add_product(of_cells[cell[i] * groups + cell[j]], weight[i], weight[j])
    passed = np.zeros((FANOUT, groups * lanes), dtype=weight.dtype)
    of_children = passed.reshape(FANOUT * groups, lanes)
    for level in range(order.shape[0]):
        below, span = spans[level], spans[level + 1]
        for start in range(0, size, span):
            end = min(start + span, size)
            children = -(-(end - start) // below)
            passed[:children] = 0
            for place in range(start, end):
                member, number = order[level, place], child[level, place]
                row = weight[member]
                if number > 0:
                    _spread(row, groups, tile)
                    _add_product(counts[cell[member]], tile, passed[number])
                for later in range(number + 1, children):
                    after = of_children[later * groups + cell[member]]
                    for lane in range(lanes):
                        after[lane] += row[lane]
    return counts.reshape(groups, groups, lanes)


@compiled
def _spread(row: Whole, groups: int, tile: Whole) -> None:
    """The row once for each group, so that one long loop multiplies them all."""
    lanes = row.shape[0]
    for group in range(groups):
        for lane in range(lanes):
            tile[group * lanes + lane] = row[lane]


@compiled
def _add_product(sums: Whole, one: Whole, other: Whole) -> None:
    for place in range(sums.shape[0]):
        sums[place] += one[place] * other[place]


@compiled
def _by_code(cell: Integers, groups: int, in_x: Whole, in_y: Whole, both: Whole, weight: Whole) -> Floats:
    lanes = weight.shape[1]
    total = np.zeros((groups, lanes))
    squares = np.zeros((groups, lanes))
    for member in range(cell.shape[0]):
        for lane in range(lanes):
            value = np.float64(weight[member, lane])
            total[cell[member], lane] += value
            squares[cell[member], lane] += value * value
    counts = np.zeros((groups, groups, 4, LANES))
    for i in range(groups):
        for j in range(groups):
            for lane in range(lanes):
                pairs = total[i, lane] * total[j, lane]
                if i == j:
                    pairs -= squares[i, lane]
                x, y, xy = (
                    np.float64(in_x[i, j, lane]),
                    np.float64(in_y[i, j, lane]),
                    np.float64(both[i, j, lane]),
                )
                counts[i, j, 0, lane] = pairs - x - y + xy
                counts[i, j, 1, lane] = y - xy
                counts[i, j, 2, lane] = x - xy
                counts[i, j, 3, lane] = xy
    return counts
