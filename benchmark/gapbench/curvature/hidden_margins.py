"""Gradients of each example's margin in the activations that a network's layers take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.loss import Landscape
from gapbench_base.errors import NotDefined

Scalar = Callable[[Tensor, Tensor], Tensor]  # outputs, targets -> (n, 1): one scalar of each example


@dataclass(frozen=True)
class HiddenMargins:
    """One scalar of each example, and its gradient in what each layer takes, in order of execution.

    `names` of the layers, `values` (n,), `squares` (layers, n) squared Euclidean norms of gradients, `variances`
    the total variance over examples of each activation, the sum of the variances of its entries. float64.
    """

    names: list[str]
    values: Tensor
    squares: Tensor
    variances: list[float]

    def distances(self, layer: int) -> Tensor:
        """value / (|gradient| sqrt(total variance)) of each example (n,): infinite where the gradient is zero."""
        found = self.values / self.squares[layer].sqrt() / self.variances[layer] ** 0.5
        return torch.where(self.values == 0, 0.0, found)


class _Moments:
    """Sums of entries and of squares over examples, about the first example."""

    def __init__(self, first: Tensor):
        self.origin = first[0].double()
        self.sum = torch.zeros_like(self.origin)
        self.squares, self.count = 0.0, 0

    def add(self, part: Tensor) -> None:
        moved = part.double() - self.origin
        self.sum += moved.sum(dim=0)
        self.squares += float(moved.pow(2).sum())
        self.count += len(part)

    def variance(self) -> float:
        mean = self.sum / self.count
        return max(self.squares / self.count - float(mean.pow(2).sum()), 0.0)


def hidden_margins(landscape: Landscape, scalar: Scalar) -> HiddenMargins:
    """The gradients of `scalar` in the inputs of all linear layers and convolutions.

    Each activation is taken where the layer reads it: shortcuts from there on count.

    Returns:
        Them, on the landscape's examples.

    Raises:
        NotDefined: inputs that are whole numbers, examples that meet, no layer, an activation that is changed in
            place after a layer has read it or has not one row an example, or gradients that are not derivatives.
    """
    if not landscape.inputs.is_floating_point():
        raise NotDefined("inputs that are whole numbers (token ids) have no gradient")
    if landscape.mixed is not None:
        raise NotDefined(f"gradients of single examples are not defined: {landscape.mixed}")
    landscape.findings.require_gradient()
    values: list[Tensor] = []
    squares: list[Tensor] = []
    names: list[str] = []
    moments: list[_Moments] = []
    for x, y in landscape.chunks():
        part, calls, gradients = _one_chunk(landscape, x, y, scalar)
        if moments and names != [name for name, _ in calls]:
            raise NotDefined("not all examples go through the same layers")
        if not moments:
            names = [name for name, _ in calls]
            moments = [_Moments(taken) for _, taken in calls]
        for moment, (_, taken) in zip(moments, calls):
            if taken.shape[1:] != moment.origin.shape:
                raise NotDefined("activations have another shape in every batch")
            moment.add(taken)
        values.append(part)
        squares.append(torch.stack([g.double().reshape(len(x), -1).pow(2).sum(1) for g in gradients]))
    return HiddenMargins(
        names, torch.cat(values), torch.cat(squares, dim=1), [moment.variance() for moment in moments]
    )


def _one_chunk(
    landscape: Landscape, x: Tensor, y: Tensor, scalar: Scalar
) -> tuple[Tensor, list[tuple[str, Tensor]], list[Tensor]]:
    """The scalars (n,), names and inputs of the layers that were called, and gradients in these."""
    network = landscape.model
    calls: list[tuple[str, Tensor, int]] = []
    handles = []
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd):

            def remember(_: nn.Module, args: tuple[Tensor, ...], name: str = name) -> None:
                if args and isinstance(args[0], Tensor):
                    calls.append((name, args[0], args[0]._version))

            handles.append(module.register_forward_pre_hook(remember))
    try:
        with torch.enable_grad(), plain_kernels(landscape.dtype):
            source = x.detach().clone().requires_grad_()
            found = scalar(network(source.clone()), y)[:, 0]
            if not calls:
                raise NotDefined("the network calls no linear layer or convolution")
            for name, taken, version in calls:
                if taken._version != version:
                    raise NotDefined(f"what {name} takes is changed in place afterwards")
                if taken.dim() < 2 or len(taken) != len(x) or not taken.requires_grad:
                    raise NotDefined(f"what {name} takes has not one row an example")
            gradients = torch.autograd.grad(
                found.sum(), [taken for _, taken, _ in calls], allow_unused=True, materialize_grads=True
            )
    except RuntimeError as error:
        if "checkpoint" not in str(error).lower():
            raise
        raise NotDefined("activations inside checkpointed parts have no gradient of their own") from error
    finally:
        for handle in handles:
            handle.remove()
    return found.detach().double(), [(name, taken.detach()) for name, taken, _ in calls], list(gradients)
