"""Any networks of one architecture, several at a time, by `torch.func.vmap` over parameters and buffers."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from gapbench.population.stacked_parameters import StackedParameters, Unsuitable


class VmapStack:
    """Networks of equal architecture in training mode, with parameters and buffers stacked."""

    def __init__(self, models: Sequence[nn.Module], inputs: Tensor):
        """`inputs` (b, c, h, w): examples on which it is seen whether the network draws random numbers."""
        if draws(models[0], inputs):
            raise Unsuitable("the network draws random numbers while it trains, each for itself")
        self.parameters = StackedParameters(models)
        self.buffers = {
            name: torch.stack([dict(model.named_buffers())[name] for model in models])
            for name, _ in models[0].named_buffers()
        }
        self._module = copy.deepcopy(models[0]).train()  # its forward alone is used, never its values
        self._losses = vmap(self._loss, in_dims=(0, 0, 0, 0), randomness="error")

    def keep(self, rows: Tensor) -> None:
        """Drop all networks but these."""
        self.parameters.keep(rows)
        self.buffers = {name: values[rows].contiguous() for name, values in self.buffers.items()}

    def write(self, index: int, model: nn.Module) -> None:
        """Give `model` the state of network `index`."""
        self.parameters.write(index, model)
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                buffer.copy_(self.buffers[name][index])

    def values(self, index: int) -> dict[str, Tensor]:
        """Copies of the parameters and buffers of network `index`, by name."""
        buffers = {name: values[index].clone() for name, values in self.buffers.items()}
        return self.parameters.values(index) | buffers

    def gradient(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and their gradients; inputs (count, b, ...), targets of `stacking.Stack`.

        Returns:
            (count,) and (count, size).
        """
        flat = self.parameters.flat.detach().requires_grad_()
        with torch.enable_grad():
            losses = self._losses(self.parameters.views(flat), self.buffers, inputs, targets)
            (gradient,) = torch.autograd.grad(losses.sum(), flat)
        return losses.detach(), gradient

    def losses(self, rows: Tensor, inputs: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
        """Not told: batch normalisation is re-estimated first, one network at a time."""

    def _loss(
        self, values: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Tensor, targets: Tensor
    ) -> Tensor:
        logits = functional_call(self._module, (values, buffers), (inputs,))
        return nn.functional.cross_entropy(logits, targets)


def draws(model: nn.Module, inputs: Tensor) -> bool:
    """Whether a forward pass in training mode draws random numbers. Buffers and the random state are kept."""
    device = inputs.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.no_grad():
        before = _random_state(device)
        training = model.training
        model.train()
        functional_call(model, {name: b.clone() for name, b in model.named_buffers()}, (inputs,))
        model.train(training)
        return not torch.equal(before, _random_state(device))


def _random_state(device: torch.device) -> Tensor:
    if device.type == "cuda":
        return torch.cat([torch.get_rng_state(), torch.cuda.get_rng_state(device)])
    return torch.get_rng_state()
