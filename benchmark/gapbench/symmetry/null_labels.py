"""Null directions: what a layer may add to all its outputs alike, followed until something sees it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gapbench.symmetry.classes import Ids, distinct


class NullDirections:
    """Atoms are sums of the null directions of layers; atom 0 is none.

    `spoiled` collects the writers (nodes) whose direction is seen somewhere.
    """

    def __init__(self, spoiled: set[int]):
        self.spoiled = spoiled
        self.count = 1
        self._sums: dict[frozenset[int], int] = {}
        self._leaves: list[frozenset[int]] = [frozenset()]
        self._writer: dict[int, int] = {}

    def source(self, node: int, positions: int) -> Tensor:
        """Fresh atoms (positions,) written by `node`."""
        found = torch.arange(self.count, self.count + positions)
        self.count += positions
        self._leaves += [frozenset([int(atom)]) for atom in found]
        self._writer.update((int(atom), node) for atom in found)
        return found

    def spoil(self, null: Tensor) -> None:
        """Something sees every part of these."""
        for atom in distinct(null.numpy()):
            self.spoiled |= {self._writer[leaf] for leaf in self._leaves[atom]}

    def over_sets(self, null: Tensor) -> None:
        """(m, n): what is common to a whole set vanishes; writers of anything else are seen."""
        mixed = null[(null != null[:, :1]).any(dim=1)]
        for row in np.unique(np.sort(mixed.numpy(), axis=1), axis=0):
            leaves = [self._leaves[atom] for atom in distinct(row)]
            common = frozenset.intersection(*leaves)
            for leaf in frozenset().union(*leaves) - common:
                self.spoiled.add(self._writer[leaf])

    def add(self, left: Tensor, right: Tensor) -> Tensor:
        """left + right, elementwise on tensors of one shape."""
        scale = self.count + 1
        low, high = torch.minimum(left, right), torch.maximum(left, right)
        codes, back = np.unique((low * scale + high).numpy(), return_inverse=True)
        found: Ids = np.array([self.atom(int(c) // scale, int(c) % scale) for c in codes], np.int64)
        return torch.from_numpy(found)[torch.from_numpy(back.reshape(left.shape))]

    def atom(self, *parts: int) -> int:
        """The sum of null directions, less those whose writers are known to be seen somewhere."""
        kept = [p for p in parts if p]
        if not kept:
            return 0
        leaves = frozenset().union(*(self._leaves[p] for p in kept))
        alive = frozenset(leaf for leaf in leaves if self._writer[leaf] not in self.spoiled)
        if not alive:
            return 0
        if len(kept) == 1 and alive == leaves:
            return kept[0]
        if alive not in self._sums:
            self._sums[alive] = self.count
            self._leaves.append(alive)
            self.count += 1
        return self._sums[alive]
