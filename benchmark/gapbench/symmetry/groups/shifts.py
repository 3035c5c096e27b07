"""Shifts of activations: straight lines in the biases."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gapbench.symmetry.groups.columns import Columns
from gapbench.symmetry.shift_solution import ShiftSolution
from gapbench.symmetry.structure import Findings


class Shifts:
    """All free shifts at once; straight lines: theta + columns c."""

    def __init__(self, theta: Tensor, found: Findings, solution: ShiftSolution):
        self.size, self.device = solution.count, theta.device
        self.kinds: list[str] | None = None  # of each column, once asked for
        values, numbers = solution.values, theta.cpu().numpy()
        parts: list[tuple[np.ndarray, sp.csr_matrix]] = []
        for use in found.linear:
            kept = use.bias >= 0
            if not kept.any():
                continue
            out = values[use.shift_out[kept]]
            if use.shift_in.any():
                totals = use.values(numbers).sum(axis=3)
                blocks = [
                    sp.csr_matrix(totals[g][kept[g]]) @ values[use.shift_in[g]] for g in range(len(totals))
                ]
                out = out - sp.vstack(blocks)
            parts.append((use.bias[kept], out.tocsr()))
        for b in found.batch_norms:
            if (b.bias >= 0).all():
                moved = values[b.shift_out] - sp.diags(b.gain(numbers)) @ values[b.shift_in]
                parts.append((b.bias, moved.tocsr()))
        for norm in found.norms:
            if (norm.bias >= 0).all():
                parts.append((norm.bias, values[norm.shift_out]))
        for additive in found.additive:
            parts.append((additive.parameters, values[additive.shifts]))
        rows = np.concatenate([p for p, _ in parts] + [np.zeros(0, np.int64)])
        stacked = sp.vstack([m for _, m in parts]) if parts else sp.csr_matrix((0, self.size))
        entries = stacked.tocoo()
        self.columns = Columns.of_entries(
            rows[entries.row], entries.col, entries.data, (len(theta), self.size), self.device
        )
        self.d = len(theta)

    def all_columns(self) -> Columns:
        """All tangents."""
        return self.columns

    def tangent(self, c: Tensor) -> Tensor:
        """The change (d,) of the biases for the free shifts c (size,)."""
        out = torch.zeros(self.d, dtype=torch.float64, device=self.device)
        self.add_to(out, c)
        return out

    def add_to(self, out: Tensor, c: Tensor) -> None:
        """Add the change along c (size,) to out (d,)."""
        self.columns.add_to(out, c)

    def cotangent(self, z: Tensor) -> Tensor:
        """The transpose of `tangent`: (d,) -> (size,)."""
        if not self.size:
            return torch.zeros(0, dtype=torch.float64, device=self.device)
        return self.columns.cotangent(z)
