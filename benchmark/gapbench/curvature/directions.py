"""Random directions that are the same each time they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

KEPT = 2**28
"""Bytes of directions that are held at once; more are drawn again each time."""


class FixedDirections:
    """`count` vectors (d,) that `draw` makes one after the other from a generator of that seed."""

    def __init__(self, draw: Callable[[torch.Generator], Tensor], seed: int, count: int):
        self.draw, self.seed, self.count = draw, seed, count
        self._kept: list[Tensor] | None = []
        self._generator = torch.Generator().manual_seed(seed)

    def some(self, positions: range) -> Iterator[Tensor]:
        """Those at `positions`, in order; the first call of all decides by their size whether they are kept."""
        if self._kept is not None:
            yield from self._from_kept(positions)
            return
        generator = torch.Generator().manual_seed(self.seed)
        for position in range(positions.stop):
            direction = self.draw(generator)
            if position >= positions.start:
                yield direction

    def _from_kept(self, positions: range) -> Iterator[Tensor]:
        assert self._kept is not None
        for position in range(positions.stop):
            if position == len(self._kept):
                direction = self.draw(self._generator)
                if self.count * direction.numel() * direction.element_size() > KEPT:
                    self._kept = None
                    yield from self.some(range(max(position, positions.start), positions.stop))
                    return
                self._kept.append(direction)
            if position >= positions.start:
                yield self._kept[position]
