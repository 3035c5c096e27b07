"""Training augmentation: the group that the loss of each input is averaged over, sampled once per step."""

from __future__ import annotations

import torch
from torch import Tensor

from gapbench_base.errors import GapbenchError
from gapbench_tasks.rotation import rotate, rotate_quarters


def augment(inputs: Tensor, kind: str, black: Tensor, generator: torch.Generator) -> Tensor:
    """One random element g of the group for each input (n, c, h, w) of a batch.

    `none`: the identity; `rot4`: multiples of 90 degrees; `rotate`: any angle, uniformly. So the expected
    training loss is (1/N) sum_i mean_g l(f(g x_i), y_i). `black` (c,) is the preprocessed value of a zero
    pixel, which fills what a rotation uncovers. `generator` lives on the CPU.

    Returns:
        Inputs of the same shape.

    Raises:
        GapbenchError: for an unknown `kind`, and for `rot4` on images that are not square.
    """
    if kind == "none":
        return inputs
    if kind == "rot4":
        if inputs.shape[-1] != inputs.shape[-2]:
            raise GapbenchError(f"Augmentation rot4 needs square inputs, not {tuple(inputs.shape[-2:])}.")
        quarters = torch.randint(0, 4, (len(inputs),), generator=generator)
        return rotate_quarters(inputs, quarters.to(inputs.device))
    if kind == "rotate":
        degrees = torch.rand(len(inputs), generator=generator) * 360.0
        level = black.reshape(1, -1, 1, 1)
        return rotate(inputs - level, degrees.to(inputs.device)) + level
    raise GapbenchError(f"There is no augmentation {kind!r}.")
