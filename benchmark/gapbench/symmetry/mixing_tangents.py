"""The tangents of all mixings of a network at once: matrices of one shape are multiplied together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gapbench.symmetry.groups.mixing import Mixing


@dataclass(frozen=True)
class Batch:
    """b slots of one shape: `matrices` says where A (or A') of each is among all matrices, flat (b * n * n,).

    `x` (b, n, m) with the sign of the slot; `weights` (b, n, 1) or (b, n, m) multiply the result.
    """

    matrices: Tensor
    x: Tensor
    weights: Tensor | None
    sizes: tuple[int, int, int]


class MixingTangents:
    """T and T' of several mixings; the coordinates (size,) are those of the mixings one after the other."""

    def __init__(self, mixings: Sequence[Mixing], d: int, device: torch.device):
        self.mixings, self.d, self.device = mixings, d, device
        self.sizes = [m.size for m in mixings]
        self.size = sum(self.sizes)
        self.entries = sum(m.n**2 for m in mixings)
        found: dict[tuple[int, ...], list[tuple[Tensor, Tensor, Tensor, Tensor | None]]] = defaultdict(list)
        start = 0
        for mixing in mixings:
            n = mixing.n
            own = torch.arange(start, start + n * n, device=device).reshape(n, n)
            start += n * n
            for index, x, dual, factors in mixing.parts():
                weights = factors if dual or factors is None else 1.0 / factors
                key = (*x.shape, 0 if weights is None else weights.shape[1])
                found[key].append((own.T if dual else own, index, -x if dual else x, weights))
        self.batches: list[Batch] = []
        positions = [torch.zeros(0, dtype=torch.int64, device=device)]
        for key, slots in found.items():
            scales = [w for *_, w in slots if w is not None]
            self.batches.append(
                Batch(
                    torch.stack([m for m, *_ in slots]).reshape(-1),
                    torch.stack([x for _, _, x, _ in slots]),
                    torch.stack(scales) if scales else None,
                    (len(slots), key[0], key[1]),
                )
            )
            positions.append(torch.stack([i for _, i, _, _ in slots]).reshape(-1))
        self.positions = torch.cat(positions)
        self.plain = all(m.space.algebra == "gl" for m in mixings)

    def add_to(self, out: Tensor, c: Tensor) -> None:
        """Add T c to out (d,)."""
        matrices = c
        if not self.plain:
            parts = zip(self.mixings, torch.split(c, self.sizes))
            matrices = torch.cat([m.matrix(part).reshape(-1) for m, part in parts])
        changes = []
        for batch in self.batches:
            b, n, _ = batch.sizes
            change = torch.bmm(matrices.index_select(0, batch.matrices).reshape(b, n, n), batch.x)
            changes.append((change if batch.weights is None else change.mul_(batch.weights)).reshape(-1))
        out.index_add_(0, self.positions, torch.cat(changes))

    def cotangent(self, z: Tensor) -> Tensor:
        """T' z (size,)."""
        total = torch.zeros(self.entries, dtype=torch.float64, device=self.device)
        moved = torch.split(z.index_select(0, self.positions), [b.x.numel() for b in self.batches])
        for batch, part in zip(self.batches, moved):
            part = part.reshape(batch.x.shape)
            part = part if batch.weights is None else part * batch.weights
            total.index_add_(0, batch.matrices, torch.bmm(part, batch.x.transpose(1, 2)).reshape(-1))
        if self.plain:
            return total
        parts = torch.split(total, [m.n**2 for m in self.mixings])
        return torch.cat([m.coordinates(p.reshape(m.n, m.n)) for m, p in zip(self.mixings, parts)])
