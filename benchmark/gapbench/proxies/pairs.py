"""Pairs of training examples of one class."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def pairs_within_classes(classes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Places of examples, each with the next in a random order within its class, the last with the first.

    Classes (n,) of a single example are left out.

    Returns:
        Both places, which are empty where no class has two examples.
    """
    import torch

    first, second = [], []
    for label in classes.unique().tolist():
        members = (classes == label).nonzero()[:, 0]
        if len(members) > 1:
            order = members[torch.randperm(len(members), generator=generator).to(members.device)]
            first.append(order)
            second.append(order.roll(-1))
    nothing = classes.new_zeros(0)
    return torch.cat(first) if first else nothing, torch.cat(second) if second else nothing
