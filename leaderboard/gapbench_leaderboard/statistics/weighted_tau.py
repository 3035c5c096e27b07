"""tau-b of many pairs of vectors, each with its own values: where nothing can be planned in advance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.statistics._compile import Floats, Integers, compiled


def tau_b_rows(
    x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.int64]
) -> NDArray[np.float64]:
    """tau-b of each row of x with that of y, both of shape (rows, members), pairs weighing w_i w_j.

    The counts are exact integers, in O(n log n) by a Fenwick tree over the ranks of y (Knight 1966, Fenwick
    1994).

    Returns:
        shape (rows,); NaN where x or y is constant.
    """
    return _rows(np.ascontiguousarray(x), np.ascontiguousarray(y), weight.astype(np.int64))


@compiled
def _below(tree: Integers, node: np.int64) -> np.int64:
    """The mass at nodes 1..node of a Fenwick tree."""
    mass = np.int64(0)
    while node > 0:
        mass += tree[node]
        node -= node & -node
    return mass


@compiled
def _put(tree: Integers, node: np.int64, mass: np.int64) -> None:
    """Add mass at a node of a Fenwick tree."""
    while node < tree.shape[0]:
        tree[node] += mass
        node += node & -node


@compiled
def _rows(x: Floats, y: Floats, weight: Integers) -> Floats:
    rows, size = x.shape
    result = np.full(rows, np.nan)
    total = np.int64(0)
    squares = np.int64(0)
    for member in range(size):
        total += weight[member]
        squares += weight[member] * weight[member]
    pairs = (total * total - squares) // 2
    rank = np.empty(size, dtype=np.int64)
    tree = np.empty(size + 1, dtype=np.int64)
    for row in range(rows):
        by_y = np.argsort(y[row], kind="mergesort")
        tied_y = np.int64(0)
        level = 0
        mass = np.int64(0)
        for place in range(size):
            member = by_y[place]
            if place > 0 and y[row, member] != y[row, by_y[place - 1]]:
                level += 1
                mass = np.int64(0)
            rank[member] = level
            tied_y += mass * weight[member]
            mass += weight[member]
        by_x = by_y[np.argsort(x[row][by_y], kind="mergesort")]  # ties in x by y
        tree[:] = 0
        tied_x = np.int64(0)
        tied_both = np.int64(0)
        discordant = np.int64(0)
        before = np.int64(0)
        mass = np.int64(0)
        both = np.int64(0)
        for place in range(size):
            member = by_x[place]
            if place > 0:
                last = by_x[place - 1]
                if x[row, member] != x[row, last]:
                    mass = np.int64(0)
                    both = np.int64(0)
                elif rank[member] != rank[last]:
                    both = np.int64(0)
            w = weight[member]
            tied_x += mass * w
            tied_both += both * w
            mass += w
            both += w
            discordant += w * (before - _below(tree, rank[member] + 1))
            before += w
            _put(tree, rank[member] + 1, w)
        untied_x = pairs - tied_x
        untied_y = pairs - tied_y
        if untied_x > 0 and untied_y > 0:
            difference = pairs - tied_x - tied_y + tied_both - 2 * discordant
            result[row] = difference / np.sqrt(float(untied_x) * float(untied_y))
    return result
