"""Where a network's training stands, kept so that it can be taken up there again, number by number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

OptimizerState = dict[str, dict[str, Tensor]]
"""What torch's optimizers keep of every parameter, by the parameter's name."""


@dataclass(frozen=True)
class Moment:
    """The state of one network's training between two steps.

    Attributes:
        values: parameters and buffers by name; `optimizer` its state likewise.
        steps: steps taken; `random` the states of the course's generators.
        dropout: the states of torch's own generators, of the CPU and of the device.
        order: the order of the examples in the epoch under way, where it is one.
        loss: the training loss by which training stops, in nats; None where it was not evaluated.
    """

    values: Mapping[str, Tensor]
    optimizer: OptimizerState
    steps: int
    random: tuple[Any, ...]
    dropout: tuple[Tensor, ...]
    order: Tensor | None = None
    loss: float | None = None


def values_of(model: nn.Module) -> dict[str, Tensor]:
    """Copies of a network's parameters and buffers, by name."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach().clone() for name, tensor in named}


def give_values(model: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Set a network's parameters and buffers."""
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            tensor.copy_(values[name])


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> OptimizerState:
    """A copy of what an optimizer keeps of a network's parameters."""
    return {
        name: {key: value.clone() for key, value in optimizer.state[parameter].items() if value is not None}
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
    }


def give_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: OptimizerState) -> None:
    """Let an optimizer go on from a state of `optimizer_state`."""
    for name, parameter in model.named_parameters():
        if name in state:
            optimizer.state[parameter] = {key: value.clone() for key, value in state[name].items()}


def random_states(device: torch.device) -> tuple[Tensor, ...]:
    """States of torch's generators, from which dropout draws."""
    if device.type == "cuda":
        return torch.get_rng_state(), torch.cuda.get_rng_state(device)
    return (torch.get_rng_state(),)


def give_random_states(states: tuple[Tensor, ...], device: torch.device) -> None:
    """Set torch's generators to states of `random_states`."""
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
