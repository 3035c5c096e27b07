"""What every group can do, and index tensors that they share."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


class Group(Protocol):
    """A group of transformations of theta (d,) with `size` coordinates, in float64.

    `tangent(c)` is the derivative along c (size,) of the finite transformation at the identity; `cotangent(z)` is
    its transpose.
    """

    size: int

    def tangent(self, c: Tensor) -> Tensor:
        """T c (d,)."""

    def cotangent(self, z: Tensor) -> Tensor:
        """T' z (size,)."""


def ids(values: np.ndarray, device: torch.device) -> Tensor:
    """Whole numbers, or real ones, as a tensor on `device`."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)


def place(index: np.ndarray, device: torch.device) -> slice | Tensor:
    """A slice where the positions are consecutive, else the positions."""
    flat = index.reshape(-1)
    if len(flat) and flat[-1] - flat[0] == len(flat) - 1 and (np.diff(flat) == 1).all():
        return slice(int(flat[0]), int(flat[-1]) + 1)
    return ids(flat, device)


def to_torch(matrix: sp.csr_matrix, device: torch.device) -> Tensor:
    """The matrix as a coalesced sparse tensor in float64."""
    matrix = matrix.tocsr()
    matrix.sum_duplicates()  # and sorts, as a coalesced tensor is
    entries = matrix.tocoo()
    index = torch.from_numpy(np.stack([entries.row, entries.col]).astype(np.int64))
    data = torch.from_numpy(entries.data.astype(np.float64))
    return torch.sparse_coo_tensor(
        index, data, matrix.shape, check_invariants=False, is_coalesced=True, device=device
    )
