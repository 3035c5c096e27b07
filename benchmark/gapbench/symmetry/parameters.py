"""A network's parameters as one flat vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gapbench.computation.copies import copied


@torch.no_grad()
def flat_parameters(network: nn.Module, theta: Tensor | None = None) -> Tensor:
    """All parameters (d,) in float64, written to `theta` if given."""
    parameters = list(network.parameters())
    if theta is None:
        size = sum(p.numel() for p in parameters)
        theta = torch.empty(size, dtype=torch.float64, device=parameters[0].device)
    for p, part in zip(parameters, views(network, theta).values()):
        part.copy_(p)
    return theta


def flattened(network: nn.Module, theta: Tensor | None = None) -> Tensor:
    """`flat_parameters` of a float64 network, of which its parameters become views."""
    theta = flat_parameters(network, theta)
    point_at(network, theta)
    return theta


def point_at(network: nn.Module, theta: Tensor) -> None:
    """Let the parameters of a float64 network be views of `theta` (d,)."""
    for p, part in zip(network.parameters(), views(network, theta).values()):
        p.data = part


def holds(network: nn.Module, theta: Tensor) -> bool:
    """Whether the parameters are those of `theta` (d,)."""
    pairs = zip(network.parameters(), views(network, theta).values())
    return all(bool((p.detach() == part).all()) for p, part in pairs)


def views(network: nn.Module, theta: Tensor) -> dict[str, Tensor]:
    """The parts of `theta` (d,) by the names of the network's parameters."""
    found, start = {}, 0
    for name, p in network.named_parameters():
        found[name] = theta[start : start + p.numel()].view(p.shape)
        start += p.numel()
    return found


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
