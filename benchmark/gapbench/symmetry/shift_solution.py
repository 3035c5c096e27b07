"""Solves the linear relations between shifts: which shifts are free, and what the others are in terms of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from gapbench.symmetry.classes import Ids, distinct
from gapbench.symmetry.expressions import Expressions

LARGEST_DENSE = 2000  # unknowns of a component of relations that is solved densely
TOLERANCE = 1e-10


@dataclass(frozen=True)
class ShiftSolution:
    """Expression x = `values`[x] @ c for free parameters c (count,). `unsolved` components were set to zero.

    `constant`: the relations, and so the solution, do not depend on the network's parameters.
    """

    values: sp.csr_matrix
    count: int
    unsolved: int
    constant: bool = True


def solve(expressions: Expressions) -> ShiftSolution:
    """All solutions of the relations among `expressions`.

    Ties are resolved by union; sums that tie more variables follow until nothing changes. Then unknowns that
    occur in one relation only are eliminated with it, again and again; what remains is small and dense.

    Returns:
        The values of all expressions in terms of free parameters.
    """
    sums = np.concatenate([*expressions.sums, np.zeros((0, 3), np.int64)]).astype(np.int64)
    representative, sign = _close(expressions, sums)
    rows = _matrix(expressions, sums, representative, sign)
    active = distinct(representative)
    active = active[active != 0]
    column = np.full(expressions.tied.count, -1, np.int64)
    column[active] = np.arange(len(active))
    matrix = rows[:, active].tocsr()
    matrix.eliminate_zeros()
    basis, unsolved = _null_space(matrix)
    # Expand from representatives to all variables.
    kept = np.flatnonzero(representative != 0)
    expand = sp.csr_matrix(
        (sign[kept].astype(float), (kept, column[representative[kept]])),
        shape=(expressions.tied.count, len(active)),
    )
    values = (expand @ basis).tocsr()
    values.eliminate_zeros()
    return ShiftSolution(values, basis.shape[1], unsolved, not expressions.weighted)


def _close(expressions: Expressions, sums: np.ndarray) -> tuple[Ids, np.ndarray]:
    """Resolve ties, adding those that follow from the sums."""
    tied = expressions.tied
    while True:
        representative, sign = tied.resolve()
        if not len(sums):
            return representative, sign
        terms, signs = representative[sums], sign[sums] * np.array([1, -1, -1])
        before = len(tied._left)
        zero = terms == 0
        count = 3 - zero.sum(axis=1)
        one = count == 1
        tied.fix(terms[one][~zero[one]])
        two = count == 2
        if two.any():
            pair = terms[two][~zero[two]].reshape(-1, 2)
            pair_signs = signs[two][~zero[two]].reshape(-1, 2)
            equal = pair_signs[:, 0] != pair_signs[:, 1]
            tied.tie(pair[equal, 0], pair[equal, 1])
            opposite = ~equal
            same = pair[:, 0] == pair[:, 1]
            tied.fix(pair[opposite & same, 0])
            tied.tie(pair[opposite & ~same, 0], pair[opposite & ~same, 1], sign=-1)
        three = count == 3
        for i, j, k in ((0, 1, 2), (0, 2, 1), (1, 2, 0)):
            a, b, c = (terms[three][:, q] for q in (i, j, k))
            sa, sb, sc = (signs[three][:, q] for q in (i, j, k))
            cancel = (a == b) & (sa != sb)
            tied.fix(c[cancel])
            # Rows with the same two terms: the third is the same.
            flip = sa * sc, sb * sc
            key = np.stack([a * 2 + (flip[0] > 0), b * 2 + (flip[1] > 0)], axis=1)
            if len(key):
                _, first, back = np.unique(key, axis=0, return_index=True, return_inverse=True)
                others = c[first][back.reshape(-1)]
                differ = others != c
                tied.tie(c[differ], others[differ])
        if len(tied._left) == before:
            return representative, sign


def _matrix(
    expressions: Expressions, sums: np.ndarray, representative: Ids, sign: np.ndarray
) -> sp.csr_matrix:
    """All remaining relations, one a row, in terms of representatives."""
    resolved = np.concatenate([representative[sums], sign[sums]], axis=1)
    _, first = np.unique(resolved, axis=0, return_index=True)  # many sums say the same
    sums = sums[first]
    data = [np.broadcast_to(np.array([1.0, -1.0, -1.0]), sums.shape).reshape(-1)]
    columns = [sums.reshape(-1)]
    lengths = [np.full(len(sums), 3)]
    for row in expressions.rows:
        data.append(np.asarray(row.coefficients, float))
        columns.append(row.variables)
        lengths.append(np.array([len(row.variables)]))
    coefficient, variable = np.concatenate(data), np.concatenate(columns).astype(np.int64)
    index = np.repeat(np.arange(sum(map(len, lengths))), np.concatenate(lengths))
    matrix = sp.csr_matrix(
        (coefficient * sign[variable], (index, representative[variable])),
        shape=(int(index.max(initial=-1)) + 1, expressions.tied.count),
    )
    matrix.sum_duplicates()
    matrix.data[np.abs(matrix.data) < 1e-14] = 0.0
    matrix.eliminate_zeros()
    return matrix[np.diff(matrix.indptr) > 0]


def _null_space(matrix: sp.csr_matrix) -> tuple[sp.csr_matrix, int]:
    """A sparse basis (n, k) of the null space and the number of components left unsolved."""
    n = matrix.shape[1]
    rounds, left = _eliminations(matrix)
    free = np.ones(n, bool)
    for _, pivots in rounds:
        free[pivots] = False
    blocks, unsolved = _dense_null_spaces(matrix[left], free)
    free_columns = np.flatnonzero(free)
    count = len(free_columns)
    parts = [(free_columns, np.arange(count), np.ones(count))]
    for members, null in blocks:
        grid = np.meshgrid(members, np.arange(count, count + null.shape[1]), indexing="ij")
        parts.append((grid[0].ravel(), grid[1].ravel(), null.ravel()))
        count += null.shape[1]
    place_rows, place_columns, data = (np.concatenate([p[i] for p in parts]) for i in range(3))
    solution = sp.csr_matrix((data, (place_rows, place_columns)), shape=(n, count))
    for chosen_rows, pivots in reversed(rounds):
        solution = solution + _pivot_values(matrix[chosen_rows].tocsr(), pivots, solution)
    return solution.tocsr(), unsolved


def _eliminations(matrix: sp.csr_matrix) -> tuple[list[tuple[Ids, Ids]], Ids]:
    """Eliminate unknowns that occur in one remaining row only, in rounds.

    Returns:
        (rows, their pivots) of each round, in order, and the rows that are left.
    """
    rounds: list[tuple[Ids, Ids]] = []
    alive = np.ones(matrix.shape[0], bool)
    rows, columns = matrix.nonzero()
    while True:
        keep = alive[rows]
        counts = np.bincount(columns[keep], minlength=matrix.shape[1])
        single = keep & (counts[columns] == 1)
        if not single.any():
            return rounds, np.flatnonzero(alive)
        chosen_rows, first = np.unique(rows[single], return_index=True)
        rounds.append((chosen_rows, columns[single][first]))
        alive[chosen_rows] = False


def _dense_null_spaces(residual: sp.csr_matrix, free: np.ndarray) -> tuple[list[tuple[Ids, np.ndarray]], int]:
    """(unknowns (m,), basis (m, k)) of each component of relations; unknowns met lose their mark in `free`."""
    blocks: list[tuple[Ids, np.ndarray]] = []
    unsolved = 0
    if not residual.shape[0]:
        return blocks, unsolved
    touched = distinct(residual.nonzero()[1])
    small = residual[:, touched]
    _, component = connected_components(abs(small).T @ abs(small), directed=False)
    order = np.argsort(component, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
        free[touched[members]] = False
        if len(members) > LARGEST_DENSE:
            unsolved += 1
            continue
        part = small[:, members]
        null = _dense_null_space(part[np.diff(part.indptr) > 0].toarray())
        if null.shape[1]:
            blocks.append((touched[members], null))
    return blocks, unsolved


def _dense_null_space(dense: np.ndarray) -> np.ndarray:
    """Orthonormal basis (m, k) of the null space of (n, m)."""
    if len(dense) > 4 * dense.shape[1]:
        values, vectors = np.linalg.eigh(dense.T @ dense)
        return vectors[:, values < 1e-12 * values.max()]
    _, values, right = np.linalg.svd(dense, full_matrices=True)
    rank = int((values > TOLERANCE * values.max(initial=0.0)).sum())
    return right[rank:].T


def _pivot_values(part: sp.csr_matrix, pivots: Ids, solution: sp.csr_matrix) -> sp.csr_matrix:
    """The pivots' rows (n, k) from the other unknowns of their relations `part`."""
    entries = part.tocoo()
    own = entries.col == pivots[entries.row]
    diagonal = np.zeros(len(pivots))
    diagonal[entries.row[own]] = entries.data[own]
    others = sp.csr_matrix((entries.data[~own], (entries.row[~own], entries.col[~own])), shape=part.shape)
    values = sp.diags(-1.0 / diagonal) @ (others @ solution)
    shape = (solution.shape[0], len(pivots))
    return sp.csr_matrix((np.ones(len(pivots)), (pivots, np.arange(len(pivots)))), shape=shape) @ values
