"""Mixings that move nothing, counted from the ranks of the matrices that they meet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gapbench.symmetry.groups.mixing import Mixing


def kernels(mixings: list[Mixing], void: dict[str, int], free: np.ndarray) -> list[int]:
    """Dimension of the mixings of each space that move nothing, beyond what null directions explain.

    A space mixed by A with writers X and readers Y: A X = 0 and A' Y = 0 leave (n - rank X)(n - rank Y). Where
    a layer joins two spaces both act on it; along a chain of linear layers the kernel is counted over the
    interval decomposition of the chain (a representation of a quiver of type A), in full at its first space.

    Args:
        mixings: the mixings of all spaces.
        void: name of a slot's void (as in `Slot.void`) -> directions of its matrix that null directions cover.
        free: (d,) whether a bias moves along a shift of its own output.

    Returns:
        One number for each mixing; that of a chain stands at its first.
    """
    result = [0] * len(mixings)
    general = [i for i, m in enumerate(mixings) if m.space.algebra == "gl"]
    for i, mixing in enumerate(mixings):
        if mixing.space.algebra != "gl":
            result[i] = _rotation_kernel(mixing)
    joins = _joins(mixings, general)
    settled: set[int] = set()
    while True:
        changed = False
        for i in general:
            if i in settled:
                continue
            primal, dual = _framing(mixings[i], void, free, set(joins[i]) - settled, joins[i])
            if (mixings[i].n - primal) * (mixings[i].n - dual) == 0:
                settled.add(i)
                changed = True
        if not changed:
            break
    pending = [i for i in general if i not in settled]
    for chain in _chains(pending, joins):
        found = _chain_kernel(mixings, chain, joins, void, free) if len(chain) > 1 else None
        if found is None:  # an upper bound: the rank is then a lower bound
            for i in chain:
                primal, dual = _framing(mixings[i], void, free, set(joins[i]), joins[i])
                result[i] = (mixings[i].n - primal) * (mixings[i].n - dual)
        else:
            result[chain[0]] = found
    return result


def _joins(mixings: list[Mixing], members: list[int]) -> dict[int, dict[int, list[tuple[int, int]]]]:
    """i -> j -> pairs (slot of i, slot of j) that are the same parameters."""
    where: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for i in members:
        for number, slot in enumerate(mixings[i].space.slots):
            key = (int(slot.index.min()), int(slot.index.max()), slot.index.size)
            where.setdefault(key, []).append((i, number))
    joins: dict[int, dict[int, list[tuple[int, int]]]] = {i: {} for i in members}
    for entries in where.values():
        for i, a in entries:
            for j, b in entries:
                if (i, a) != (j, b):
                    joins[i].setdefault(j, []).append((a, b))
    return joins


def _framing(
    mixing: Mixing,
    void: dict[str, int],
    free: np.ndarray,
    pending: set[int],
    joins: dict[int, list[tuple[int, int]]],
) -> tuple[int, int]:
    """Ranks of the writers and readers that end at something that is not mixed."""
    open_slots = {a for j in pending for a, _ in joins.get(j, [])}
    ranks = []
    parts = mixing.parts()
    for wanted in (False, True):
        matrices, missing = [], 0
        for number, (slot, (_, x, dual, _)) in enumerate(zip(mixing.space.slots, parts)):
            if (
                dual is wanted
                and number not in open_slots
                and not (slot.void == "bias" and free[slot.index].all())
            ):
                matrices.append(x)
                missing += void.get(slot.void, 0)
        if not matrices:
            ranks.append(0)
            continue
        stacked = torch.cat(matrices, dim=1)
        ranks.append(min(_rank(stacked), max(0, stacked.shape[1] - missing)))
    return ranks[0], ranks[1]


def _rank(matrix: Tensor) -> int:
    if not matrix.numel():
        return 0
    if matrix.shape[1] > 4 * matrix.shape[0]:  # the rank of a wide matrix from its triangular factor
        matrix = torch.linalg.qr(matrix.T, mode="r").R
    return int(torch.linalg.matrix_rank(matrix, rtol=1e-11))


def _rotation_kernel(mixing: Mixing) -> int:
    stacked = torch.cat([x for _, x, _, _ in mixing.parts()], dim=1)
    if mixing.frame is not None:
        stacked = mixing.frame.T @ stacked
    missing = mixing.inner - _rank(stacked)
    return missing * (missing - 1) // 2


def _chains(pending: list[int], joins: dict[int, dict[int, list[tuple[int, int]]]]) -> list[list[int]]:
    """Connected groups of spaces."""
    groups, left = [], set(pending)
    while left:
        stack, group = [min(left)], []
        while stack:
            i = stack.pop()
            if i in left:
                left.remove(i)
                group.append(i)
                stack += [j for j in joins[i] if j in left]
        groups.append(group)
    return groups


def _chain_kernel(
    mixings: list[Mixing],
    group: list[int],
    joins: dict[int, dict[int, list[tuple[int, int]]]],
    void: dict[str, int],
    free: np.ndarray,
) -> int | None:
    """Kernel of a chain of spaces with writers only at its start and readers only at its end; None otherwise."""
    following: dict[int, tuple[int, int]] = {}
    for i in group:
        for j, pairs in joins[i].items():
            if j not in group:
                continue
            if j == i or len(pairs) != 1:
                return None
            a, b = pairs[0]
            if mixings[i].space.slots[a].weight is not None or mixings[j].space.slots[b].weight is not None:
                return None
            if mixings[i].space.slots[a].dual:  # i is read by the layer that writes j
                if i in following:
                    return None
                following[i] = (j, a)
    starts = set(group) - {j for j, _ in following.values()}
    if len(starts) != 1:
        return None
    order = [starts.pop()]
    while order[-1] in following:
        order.append(following[order[-1]][0])
    if len(order) != len(group):
        return None
    members = set(group)
    links: list[Tensor] = []
    for position, i in enumerate(order):
        if any(slot.void in void for slot in mixings[i].space.slots):
            return None
        primal, dual = _framing(mixings[i], void, free, members, joins[i])
        if (position > 0 and primal) or (position < len(order) - 1 and dual):
            return None
        if position < len(order) - 1:
            links.append(_joining_matrix(mixings, i, order[position + 1], following[i][1]))
    first, last = mixings[order[0]], mixings[order[-1]]
    start = _frame_matrix(first, False, free, members, joins[order[0]])
    end = _frame_matrix(last, True, free, members, joins[order[-1]])
    maps = [start, *links, end.T]
    dims = [start.shape[1], *[mixings[i].n for i in order], end.shape[1]]
    return _intertwiners(maps, dims)


def _intertwiners(maps: Sequence[Tensor], dims: Sequence[int]) -> int:
    """Dimension of the maps of a chain of spaces to itself that vanish at both of its ends.

    A chain of maps is a sum of intervals [a, b], as many of each as the ranks of its composed maps say; maps
    between intervals are scalars where the second begins and ends no later than the first.

    Returns:
        The dimension.
    """
    total = len(dims)
    rank = np.zeros((total + 1, total + 1), np.int64)  # rank[a + 1, b]: of the map from a to b
    for a in range(total):
        rank[a + 1, a] = dims[a]
        product: Tensor | None = None
        for b in range(a + 1, total):
            product = maps[b - 1] if product is None else maps[b - 1] @ product
            rank[a + 1, b] = _rank(product)

    def r(a: int, b: int) -> int:
        return int(rank[a + 1, b]) if 0 <= a <= b < total else 0

    count = {
        (a, b): r(a, b) - r(a - 1, b) - r(a, b + 1) + r(a - 1, b + 1)
        for a in range(total)
        for b in range(a, total)
    }
    kernel = 0
    for (a, b), m in count.items():
        for (c, d), other in count.items():
            if c <= a <= d <= b and a >= 1 and d <= total - 2:
                kernel += m * other
    return kernel


def _frame_matrix(
    mixing: Mixing,
    dual: bool,
    free: np.ndarray,
    members: set[int],
    joins: dict[int, list[tuple[int, int]]],
) -> Tensor:
    open_slots = {a for j in members for a, _ in joins.get(j, [])}
    found = [
        x
        for number, (slot, (_, x, d, _)) in enumerate(zip(mixing.space.slots, mixing.parts()))
        if d is dual and number not in open_slots and not (slot.void == "bias" and free[slot.index].all())
    ]
    return torch.cat(found, dim=1) if found else torch.zeros(mixing.n, 0, dtype=torch.float64)


def _joining_matrix(mixings: list[Mixing], i: int, j: int, slot: int) -> Tensor:
    """W (n_j, n_i * taps) of the layer that reads space i and writes space j."""
    index = mixings[i].indices[slot]  # (n_i, M) with M = n_j for a dense layer
    x = mixings[i].theta[index]
    order = torch.argsort(torch.as_tensor(_row_of(mixings[j], index)))
    return x.T[order]


def _row_of(mixing: Mixing, index: Tensor) -> np.ndarray:
    """Which channel of `mixing` each column of `index` (n_i, n_j) belongs to."""
    wanted = set(index.reshape(-1).tolist())
    for slot in mixing.space.slots:
        if not slot.dual and set(slot.index.reshape(-1).tolist()) == wanted:
            channel = {int(p): c for c, row in enumerate(slot.index) for p in row}
            return np.array([channel[int(p)] for p in index[0].tolist()])
    raise AssertionError("the spaces are not joined")
