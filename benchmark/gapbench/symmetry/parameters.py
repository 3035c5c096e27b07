"""A network's parameters as one flat vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gapbench.computation.copies import copied


def flat_parameters(network: nn.Module) -> Tensor:
    """All parameters (d,) in float64."""
    return torch.cat([p.detach().reshape(-1).double() for p in network.parameters()])


@torch.no_grad()
def write_parameters(network: nn.Module, theta: Tensor) -> None:
    """Overwrite the parameters by `theta` (d,)."""
    start = 0
    for p in network.parameters():
        p.copy_(theta[start : start + p.numel()].reshape(p.shape))
        start += p.numel()


def with_parameters(network: nn.Module, theta: Tensor) -> nn.Module:
    """A copy of `network` with the parameters `theta` (d,)."""
    result = copied(network)
    write_parameters(result, theta)
    return result
