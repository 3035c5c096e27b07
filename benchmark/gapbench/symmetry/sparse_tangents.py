"""The tangents of rescalings, shifts and null directions at once, and their Gram matrix, factored.

Each parameter is moved by few of them, so that T and T'T are sparse; T'T is factored once. Where only rescalings
and shifts act on a large network T'T is a Laplacian of its channels, solved by conjugate gradients, which never
touch the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import torch
from torch import Tensor

from gapbench.symmetry.groups.columns import side_by_side
from gapbench.symmetry.groups.gram import gram
from gapbench.symmetry.groups.null_directions import ReaderNulls, WriterNulls
from gapbench.symmetry.groups.rescaling import Rescaling
from gapbench.symmetry.groups.shifts import Shifts

SPARSE = Rescaling | Shifts | WriterNulls | ReaderNulls
LISTED = 80_000_000  # entries of T that are listed one by one, at most
LARGEST_FACTORED = 7000  # rescalings and shifts whose Gram matrix is factored where nothing else acts
RIDGE = 1e-12  # of the Gram matrix with ones on its diagonal; what it leaves is removed by a second pass
PASSES = 12

Solve = Callable[[Tensor], Tensor]


class SparseTangents:
    """T of the groups, and projections on its complement; coordinates (size,): the groups', one after another."""

    def __init__(self, groups: Sequence[SPARSE], d: int, device: torch.device):
        groups = [g for g in groups if g.size]
        self.groups, self.d, self.device = groups, d, device
        self.sizes = [g.size for g in self.groups]
        self.size = sum(self.sizes)
        self._solve: Solve | None = None
        pure = [g for g in self.groups if isinstance(g, Rescaling | Shifts)]
        self.columns = None
        if self.groups and (len(pure) < len(self.groups) or self.size <= LARGEST_FACTORED):
            self.columns = side_by_side([g.all_columns() for g in self.groups])
        self._pure = pure

    def add_to(self, out: Tensor, c: Tensor) -> None:
        """Add T c to out (d,)."""
        if self.columns is not None:
            self.columns.add_to(out, c)
            return
        for group, part in zip(self.groups, torch.split(c, self.sizes)):
            group.add_to(out, part)

    def cotangent(self, z: Tensor) -> Tensor:
        """T' z (size,)."""
        if self.columns is not None:
            return self.columns.cotangent(z)
        return torch.cat([g.cotangent(z) for g in self.groups])

    def solve(self, right: Tensor) -> Tensor:
        """c with T'T c = right, up to what the ridge changes."""
        if self._solve is None:
            if self.columns is not None:
                total = (self.columns.matrix.T @ self.columns.matrix).tocsc()
                self._solve = _factored(total, self.device)
            else:
                self._solve = _iterated(gram(self._pure), self.device)
        return self._solve(right)

    def remove(self, z: Tensor) -> None:
        """Subtract from z (d,) its component along T, once."""
        if self.size:
            self.add_to(z, -self.solve(self.cotangent(z)))

    def left(self, z: Tensor) -> float:
        """The squared norm of the component of z (d,) along T."""
        if not self.size:
            return 0.0
        right = self.cotangent(z)
        return max(0.0, float(right @ self.solve(right)))

    def project(self, z: Tensor, within: float) -> tuple[Tensor, float, int]:
        """The component of z (d,) orthogonal to T.

        Returns:
            It, the norm of what it still has along T, and how often a correction was taken off: until that norm was
            at most `within` times that of z, or it could not be lowered.
        """
        out, scale = z.clone(), float(z.norm())
        if not self.size:
            return out, 0.0, 0
        right = self.cotangent(out)
        error = before = float("inf")
        for corrections in range(PASSES + 1):
            c = self.solve(right)
            error = max(0.0, float(right @ c)) ** 0.5
            if error <= within * scale or error > 0.5 * before or corrections == PASSES:
                break
            before = error
            self.add_to(out, -c)
            right = self.cotangent(out)
        return out, error, corrections


def listable(groups: Sequence[SPARSE]) -> bool:
    """Whether T is small enough to be listed, or need not be."""
    nulls = [g for g in groups if isinstance(g, WriterNulls | ReaderNulls)]
    if not nulls:
        return True
    entries = sum(g.index.numel() for g in nulls)
    for group in groups:
        if isinstance(group, Rescaling):
            entries += 2 * sum(math.prod(w.shape) for w in group.weights)
    return entries <= LISTED


def _scaled(total: sp.spmatrix) -> tuple[sp.csc_matrix, np.ndarray]:
    scale = 1.0 / np.sqrt(np.maximum(total.diagonal(), 1e-300))
    return (sp.diags(scale) @ total @ sp.diags(scale)).tocsc(), scale


def _factored(total: sp.spmatrix, device: torch.device) -> Solve:
    scaled, scale = _scaled(total)
    lu = spl.splu(
        scaled + RIDGE * sp.identity(len(scale), format="csc"),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def solve(right: Tensor) -> Tensor:
        return torch.from_numpy(lu.solve(right.cpu().numpy() * scale) * scale).to(device)

    return solve


def _iterated(total: sp.spmatrix, device: torch.device) -> Solve:
    scaled, scale = _scaled(total)
    rows = scaled.tocsr()

    def solve(right: Tensor) -> Tensor:
        found, _ = spl.cg(rows, right.cpu().numpy() * scale, rtol=1e-13, maxiter=5000)
        return torch.from_numpy(found * scale).to(device)

    return solve
