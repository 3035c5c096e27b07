"""Chains of linear layers and ReLUs, several at a time, by batched products with a backward pass of our own.

On a CPU every network gets the numbers that it would get alone, to the last bit: a batched product treats its
slices one by one, with the kernel that a product alone would take where slices are aligned alike (see
`StackedParameters`). `gapbench.population.engines` looks whether that is so before this engine is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gapbench.population.stacked_parameters import StackedParameters, Unsuitable, padded

PART = 500
"""Examples that are evaluated at once."""
LARGEST_OUTPUT = 1e3
"""Rounding in single precision moves outputs up to this, and so the losses' logarithms, by far less than 0.01."""
FEW_PRODUCTS = 400
"""Batched products of fewer multiplications run in a loop of torch's own, which rounds in another order."""


@dataclass(frozen=True)
class Layer:
    """One linear layer of a chain: names of its parameters, and whether a ReLU follows."""

    weight: str
    bias: str | None
    relu: bool


@dataclass
class _Work:
    """Buffers for one size of batch: outputs and their gradients by layer, and gradients of log-probabilities."""

    outputs: list[Tensor]
    gradients: list[Tensor]
    seed: Tensor


def layers_of(model: nn.Module) -> list[Layer]:
    """The chain that a network is: `nn.Sequential` of flatten, linear, ReLU and what does nothing, nested or not.

    Returns:
        Its linear layers.

    Raises:
        Unsuitable: for any other network, with what is in the way.
    """
    layers: list[Layer] = []
    for name, module in _modules(model, ""):
        kind = type(module)
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
            raise Unsuitable("a layer has hooks")
        if kind is nn.Linear:
            assert isinstance(module, nn.Linear)
            layers.append(Layer(f"{name}weight", None if module.bias is None else f"{name}bias", False))
        elif kind is nn.ReLU and layers:
            layers[-1] = Layer(layers[-1].weight, layers[-1].bias, True)
        elif not (_flattens(module) and not layers) and not _does_nothing(module):
            raise Unsuitable(f"{kind.__name__} is no part of a chain of linear layers and ReLUs")
    if not layers or layers[-1].relu:
        raise Unsuitable("a chain ends with a linear layer")
    return layers


def _flattens(module: nn.Module) -> bool:
    return type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1)


def _does_nothing(module: nn.Module) -> bool:
    return type(module) is nn.Identity or (type(module) is nn.Dropout and module.p == 0)


def _modules(module: nn.Module, name: str) -> list[tuple[str, nn.Module]]:
    if type(module) is not nn.Sequential:
        return [(name, module)]
    return [found for key, child in module.named_children() for found in _modules(child, f"{name}{key}.")]


class LayerStack:
    """Networks that are chains, of equal shapes, with their parameters stacked."""

    def __init__(self, models: Sequence[nn.Module], inputs: Tensor):
        """`inputs` (b, c, h, w): examples on which the chain is compared with the networks themselves."""
        self.layers = layers_of(models[0])
        self.parameters = StackedParameters(models)
        self._bind()
        self._compare(models, inputs)

    def _bind(self) -> None:
        flat = self.parameters.flat
        self._gradient = torch.zeros_like(flat)
        values, gradients = self.parameters.views(flat), self.parameters.views(self._gradient)
        self._weights = [values[layer.weight] for layer in self.layers]
        self._turned = [weight.transpose(1, 2) for weight in self._weights]
        self._biases = [values[layer.bias].unsqueeze(1) if layer.bias else None for layer in self.layers]
        self._to_weights = [gradients[layer.weight] for layer in self.layers]
        self._to_biases = [gradients[layer.bias] if layer.bias else None for layer in self.layers]
        self._works: dict[int, _Work] = {}

    def _compare(self, models: Sequence[nn.Module], inputs: Tensor) -> None:
        count = len(models)
        rows = padded(inputs.expand(count, *inputs.shape).flatten(2))
        logits = self._forward(rows, self._work(rows.shape[1]).outputs)
        tolerance = 100 * torch.finfo(logits.dtype).eps
        with torch.no_grad():
            for index in {0, count - 1}:
                own = models[index](inputs)
                if own.shape != logits[index].shape:
                    raise Unsuitable("the network's outputs are not those of its layers in turn")
                if float((own - logits[index]).abs().max()) > tolerance * max(1.0, float(own.abs().max())):
                    raise Unsuitable("the network computes something else than its layers in turn")

    def keep(self, rows: Tensor) -> None:
        """Drop all networks but these."""
        self.parameters.keep(rows)
        self._bind()

    def write(self, index: int, model: nn.Module) -> None:
        """Give `model` the state of network `index`."""
        self.parameters.write(index, model)

    def values(self, index: int) -> dict[str, Tensor]:
        """Copies of the parameters of network `index`, by name."""
        return self.parameters.values(index)

    def gradient(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and their gradients; inputs (count, b, ...), targets of `stacking.Stack`.

        Returns:
            (count,) and (count, size).
        """
        inputs = inputs.flatten(2)
        work = self._work(inputs.shape[1])
        logs = torch.log_softmax(self._forward(inputs, work.outputs), 2)
        if targets.is_floating_point():
            losses = torch.stack([-(part * own).sum() / len(part) for part, own in zip(logs, targets)])
            torch.mul(targets, -1.0 / inputs.shape[1], out=work.seed)
        else:
            losses = _mean_losses(logs, targets)
            work.seed.zero_().scatter_(2, targets.unsqueeze(2), -1.0 / inputs.shape[1])
        back = work.gradients[-1]
        back.copy_(torch._log_softmax_backward_data(work.seed, logs, 2, logs.dtype))
        for index in range(len(self.layers) - 1, -1, -1):
            before = work.outputs[index - 1] if index else inputs
            product(back.transpose(1, 2), before, self._to_weights[index])
            to_bias = self._to_biases[index]
            if to_bias is not None:
                torch.sum(back, 1, out=to_bias)
            if index:
                following = work.gradients[index - 1]
                product(back, self._weights[index], following)
                if self.layers[index - 1].relu:
                    torch.ops.aten.threshold_backward.grad_input(following, before, 0, grad_input=following)
                back = following
        return losses, self._gradient

    def losses(self, rows: Tensor, inputs: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
        """Cross-entropies (k,) of networks `rows` (k,), each on its own inputs (n, c, h, w) and targets (n,).

        Right but for rounding, which may be another than that of the network itself.

        Returns:
            The means over all n, in double precision; nan where outputs are so large that rounding could matter.
        """
        weights = [weight[rows].transpose(1, 2) for weight in self._weights]
        biases = [None if bias is None else bias[rows] for bias in self._biases]
        same = all(one is inputs[0] for one in inputs)
        total = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
        for start in range(0, len(targets[0]), PART):
            parts = [one[start : start + PART].flatten(1) for one in (inputs[:1] if same else inputs)]
            values = parts[0].expand(len(rows), -1, -1) if same else torch.stack(parts)
            for weight, bias, layer in zip(weights, biases, self.layers):
                values = values @ weight if bias is None else torch.baddbmm(bias, values, weight)
                values = values.relu_() if layer.relu else values
            total[values.abs().amax((1, 2)) > LARGEST_OUTPUT] = torch.nan
            labels = torch.stack([one[start : start + PART] for one in targets])
            logs = torch.log_softmax(values.double(), 2)
            total -= logs.gather(2, labels.unsqueeze(2)).sum((1, 2))
        return total / len(targets[0])

    def _forward(self, inputs: Tensor, outputs: list[Tensor]) -> Tensor:
        for index, layer in enumerate(self.layers):
            product(inputs, self._turned[index], outputs[index], self._biases[index])
            inputs = torch.relu_(outputs[index]) if layer.relu else outputs[index]
        return inputs

    def _work(self, batch: int) -> _Work:
        if batch not in self._works:
            flat = self.parameters.flat
            sizes = [weight.shape[1] for weight in self._weights]

            def buffers() -> list[Tensor]:
                return [padded(flat.new_zeros(len(flat), batch, size)) for size in sizes]

            self._works[batch] = _Work(buffers(), buffers(), flat.new_zeros(len(flat), batch, sizes[-1]))
        return self._works[batch]


def product(left: Tensor, right: Tensor, out: Tensor, bias: Tensor | None = None) -> None:
    """left (k, a, b) times right (k, b, c), with a bias (k, 1, c) added to each row, into `out` (k, a, c)."""
    sizes = (left.shape[1], left.shape[2], right.shape[2])
    if min(sizes) == 1 or math.prod(sizes) < FEW_PRODUCTS:
        for index in range(len(left)):
            if bias is None:
                torch.mm(left[index], right[index], out=out[index])
            else:
                torch.addmm(bias[index, 0], left[index], right[index], out=out[index])
    elif bias is None:
        torch.bmm(left, right, out=out)
    else:
        torch.baddbmm(bias, left, right, out=out)


def _mean_losses(logs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropies (k,) of log-probabilities (k, b, c), each summed as `cross_entropy` does."""
    if logs.device.type != "cpu":
        return -logs.gather(2, targets.unsqueeze(2)).mean((1, 2))
    mean = torch.ops.aten.nll_loss_forward
    return torch.stack([mean(part, chosen, None, 1, -100)[0] for part, chosen in zip(logs, targets)])
