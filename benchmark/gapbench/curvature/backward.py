"""Evaluate a network at other parameters, and differentiate what it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from gapbench.computation.copies import holding

Result = TypeVar("Result")


def with_parameters_of(
    network: nn.Module, parameters: dict[str, Tensor], function: Callable[[nn.Module], Result]
) -> Result:
    """function(network) while `network` has `parameters`.

    What the function differentiates it should differentiate inside: checkpointed parts run again during the
    backward pass, and then have to see the same parameters.

    Returns:
        What the function does.
    """
    with holding(network, parameters):
        return function(network)


def gradient_of(loss: Tensor, theta: Tensor, again: Callable[[], Tensor]) -> Tensor:
    """d loss / d theta; by a plain backward pass where reentrant checkpointing allows no other."""
    if not loss.requires_grad:
        return torch.zeros_like(theta)
    try:
        (found,) = torch.autograd.grad(loss, theta, allow_unused=True, materialize_grads=True)
    except RuntimeError as error:
        if "heckpoint" not in str(error):
            raise
        theta.grad = None
        again().backward()
        found = torch.zeros_like(theta) if theta.grad is None else theta.grad.clone()
        theta.grad = None
    return found
