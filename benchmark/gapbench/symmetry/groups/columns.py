"""Sparse columns of parameter changes, of which few rows are not zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gapbench.symmetry.classes import Ids
from gapbench.symmetry.groups.group import ids
from gapbench.symmetry.structure import place


class Columns:
    """A matrix (d, size) as its `rows` that are not empty, sorted, and their entries (len(rows), size)."""

    def __init__(self, rows: Ids, matrix: sp.csr_matrix, d: int, device: torch.device):
        self.rows, self.matrix, self.d, self.device = rows, matrix, d, device
        self.size = int(matrix.shape[1])
        where = place(rows)
        self.where = where if isinstance(where, slice) else ids(where, device)
        self._sparse: Tensor | None = None
        self._transposed: Tensor | None = None

    @classmethod
    def of_entries(
        cls, positions: Ids, columns: Ids, values: np.ndarray, shape: tuple[int, int], device: torch.device
    ) -> Columns:
        """The matrix of this `shape` whose entries are sums of `values` at `positions` and `columns`."""
        rows, at = _compact(positions, shape[0])
        entries = sp.coo_matrix((values, (at, columns)), shape=(len(rows), shape[1]))
        return cls(rows, entries.tocsr(), shape[0], device)

    def scaled(self, factors: np.ndarray) -> Columns:
        """Each row multiplied by its factor (len(rows),)."""
        return Columns(self.rows, (sp.diags(factors) @ self.matrix).tocsr(), self.d, self.device)

    def at(self, positions: Ids) -> sp.csr_matrix:
        """The rows (len(positions), size) at given positions, zero where there are none."""
        found = np.searchsorted(self.rows, positions)
        inside = found < len(self.rows)
        inside[inside] = self.rows[found[inside]] == positions[inside]
        hits = np.flatnonzero(inside)
        pick = sp.csr_matrix(
            (np.ones(len(hits)), (hits, found[hits])), shape=(len(positions), len(self.rows))
        )
        return (pick @ self.matrix).tocsr()

    def times(self, c: Tensor) -> Tensor:
        """The rows' entries times c (size,)."""
        if self.device.type == "cpu":
            return torch.from_numpy(self.matrix @ c.numpy())
        if self._sparse is None:
            self._sparse = _to_torch(self.matrix, self.device)
        return self._sparse @ c

    def add_to(self, out: Tensor, c: Tensor) -> None:
        """Add the matrix times c (size,) to out (d,)."""
        if not self.size or not len(self.rows):
            return
        if isinstance(self.where, slice):
            out[self.where] += self.times(c)
        else:
            out.index_add_(0, self.where, self.times(c))

    def cotangent(self, z: Tensor) -> Tensor:
        """The transpose times z (d,)."""
        part = z[self.where] if isinstance(self.where, slice) else z.index_select(0, self.where)
        if self.device.type == "cpu":
            return torch.from_numpy(self.matrix.T @ part.numpy())
        if self._transposed is None:
            self._transposed = _to_torch(self.matrix.T.tocsr(), self.device)
        return self._transposed @ part


def side_by_side(parts: Sequence[Columns]) -> Columns:
    """All columns of several such matrices (d, ...), one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    positions, columns, values, start = [], [], [], 0
    for part in parts:
        entries = part.matrix.tocoo()
        positions.append(part.rows[entries.row])
        columns.append(entries.col.astype(np.int64) + start)
        values.append(entries.data)
        start += part.size
    return Columns.of_entries(
        np.concatenate(positions),
        np.concatenate(columns),
        np.concatenate(values),
        (first.d, start),
        first.device,
    )


def _compact(positions: Ids, d: int) -> tuple[Ids, Ids]:
    """The positions that occur, sorted, and where among them each one is."""
    if len(positions) < d // 8:
        found, at = np.unique(positions, return_inverse=True)
        return found.astype(np.int64), at.reshape(-1).astype(np.int64)
    seen = np.zeros(d, bool)
    seen[positions] = True
    rows: Ids = np.flatnonzero(seen)
    number = np.zeros(d, np.int64)
    number[rows] = np.arange(len(rows))
    return rows, number[positions]


def _to_torch(matrix: sp.csr_matrix, device: torch.device) -> Tensor:
    """The matrix as a coalesced sparse tensor in float64."""
    matrix = matrix.tocsr()
    matrix.sum_duplicates()  # and sorts, as a coalesced tensor is
    entries = matrix.tocoo()
    index = torch.from_numpy(np.stack([entries.row, entries.col]).astype(np.int64))
    data = torch.from_numpy(entries.data.astype(np.float64))
    return torch.sparse_coo_tensor(
        index, data, matrix.shape, check_invariants=False, is_coalesced=True, device=device
    )
