"""Maps that copy entries: padding, cropping, indexing, permuting, repeating."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

ROUNDING = 4e-15  # of a product and a quotient of numbers below 2


@dataclass(frozen=True)
class Selection:
    """`index`, shaped as the result: 1 + the flat position of the entry that is copied, 0 where it is zero.

    `units` counts the entries that are copied from.
    """

    index: Tensor
    units: int

    @property
    def copies(self) -> Tensor:
        """How often each of the `units` is copied."""
        return torch.bincount(self.index.flatten(), minlength=self.units + 1)[1:]

    @property
    def norm(self) -> float:
        """The operator norm: the copies of different entries are orthogonal."""
        root: float = float(self.copies.max()) ** 0.5
        return root

    @property
    def injective(self) -> bool:
        """Whether no entry is copied more than once."""
        return int(self.copies.max()) <= 1

    @property
    def has_zeros(self) -> bool:
        """Whether some outputs are zero whatever the input."""
        return bool((self.index == 0).any())


def selection_of(
    apply: Callable[[Tensor], Tensor], shape: tuple[int, ...], device: torch.device
) -> Selection | None:
    """Whether a linear `apply` only selects entries of its input of `shape`.

    Decided on random distinct numbers, of which no combination but a copy gives another exactly.

    Returns:
        The selection; None for anything else.
    """
    count = int(torch.Size(shape).numel())
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(count, generator=generator, dtype=torch.float64).to(device) + 1.0
    image = apply(drawn.reshape(shape))
    values, order = drawn.sort()
    if count > 1 and bool((values[1:] == values[:-1]).any()):
        return None
    place = torch.searchsorted(values, image.contiguous()).clamp_max(count - 1)
    zero, copied = image == 0, values[place] == image
    if not bool((zero | copied).all()):
        return None
    return Selection(torch.where(zero, 0, order[place] + 1), count)


def scaled_selection_of(
    apply: Callable[[Tensor], Tensor], shape: tuple[int, ...], device: torch.device
) -> tuple[Selection, Tensor] | None:
    """The selection without repetition, and the factors after it, that a linear `apply` is; None for other maps."""
    count = int(torch.Size(shape).numel())
    generator = torch.Generator().manual_seed(1)
    drawn = torch.rand(count, generator=generator, dtype=torch.float64).to(device) + 1.0
    factors = apply(torch.ones(shape, dtype=torch.float64, device=device))
    image = apply(drawn.reshape(shape))
    zero = factors == 0
    if bool((image[zero] != 0).any()):
        return None
    ratio = torch.where(zero, 1.5, image / torch.where(zero, 1.0, factors))
    values, order = drawn.sort()
    after = torch.searchsorted(values, ratio.contiguous()).clamp_max(count - 1)
    before = (after - 1).clamp_min(0)
    place = torch.where((values[after] - ratio).abs() < (values[before] - ratio).abs(), after, before)
    if not bool((zero | ((values[place] - ratio).abs() <= ROUNDING)).all()):
        return None
    selection = Selection(torch.where(zero, 0, order[place] + 1), count)
    return (selection, factors) if selection.injective else None


def fold_dense(selection: Selection, features: int) -> Tensor:
    """For one example of `features` entries: which distinct source each has, 0 for none."""
    first = selection.index.reshape(-1, features)[0]
    numbered: Tensor = torch.unique(torch.cat([first.new_zeros(1), first]), return_inverse=True)[1]
    return numbered[1:]


def spatial_plane(selection: Selection) -> Tensor | None:
    """For maps (n, c, ...) that act alike on each channel: sources within a channel.

    Returns:
        (...), 0 for none; None if channels share a source or differ.
    """
    first = selection.index[0].flatten(1)
    patterns, seen = [], 0
    for channel in first:
        sources, inverse = torch.unique(torch.cat([channel.new_zeros(1), channel]), return_inverse=True)
        seen += len(sources) - 1
        patterns.append(inverse[1:])
    if seen != len(torch.unique(first[first > 0])) or any(not torch.equal(p, patterns[0]) for p in patterns):
        return None
    pattern: Tensor = patterns[0]
    return pattern.reshape(selection.index.shape[2:])
