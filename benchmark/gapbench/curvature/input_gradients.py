"""Gradients in the inputs, tested by differences before they are believed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gapbench.computation.copies import copied
from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.derivatives import Functional, examine
from gapbench.curvature.loss import Landscape
from gapbench_base.errors import NotDefined

EXAMINED = 8  # examples on which derivatives are tested
ASIDE = (1e-2, 1e-1)  # how far from them, relative to their size: they may lie at a kink
Scalars = Callable[[Tensor, Tensor], Tensor]  # outputs, targets -> (n, k): k scalars of each example


def squared_input_gradients(landscape: Landscape, scalars: Scalars) -> tuple[Tensor, Tensor]:
    """k scalars of each example's outputs, and the squared norms of their gradients in the example's input.

    Returns:
        Both (n, k) in float64.

    Raises:
        NotDefined: inputs that are whole numbers, examples that meet, lower precision inside, or gradients that are
            not derivatives.
    """
    if not landscape.inputs.is_floating_point():
        raise NotDefined("inputs that are whole numbers (token ids) have no gradient")
    if landscape.mixed is not None:
        raise NotDefined(f"gradients in single inputs are not defined: {landscape.mixed}")
    landscape.require_precision()
    landscape.remembered("input gradients", lambda: _require_right(landscape))
    values, squares = [], []
    for x, y in landscape.chunks():
        with torch.enable_grad(), plain_kernels(landscape.dtype):
            source = x.detach().clone().requires_grad_()
            found = scalars(landscape.model(source.clone()), y)  # a network may write to its inputs
            columns = [
                _gradient(landscape, found[:, k].sum(), source, y, scalars, k) for k in range(found.shape[1])
            ]
        values.append(found.detach().double())
        squares.append(torch.stack([_squared_norms(g) for g in columns], dim=1))
    return torch.cat(values), torch.cat(squares)


def _squared_norms(gradient: Tensor) -> Tensor:
    return gradient.double().reshape(len(gradient), -1).pow(2).sum(1)


def _gradient(
    landscape: Landscape, scalar: Tensor, source: Tensor, y: Tensor, scalars: Scalars, k: int
) -> Tensor:
    """d scalar / d source; by a plain backward pass where reentrant checkpointing allows no other."""
    if not scalar.requires_grad:
        return torch.zeros_like(source)
    try:
        (found,) = torch.autograd.grad(
            scalar, source, retain_graph=True, allow_unused=True, materialize_grads=True
        )
    except RuntimeError as error:
        if "heckpoint" not in str(error):
            raise
        source = source.detach().clone().requires_grad_()
        scalars(landscape.model(source.clone()), y)[:, k].sum().backward()
        for p in landscape.model.parameters():
            p.grad = None
        found = torch.zeros_like(source) if source.grad is None else source.grad
    return found


def _require_right(landscape: Landscape) -> None:
    few = landscape.inputs[torch.linspace(0, len(landscape.inputs) - 1, EXAMINED).long().unique()]
    network, inputs = landscape.model, few
    try:
        fine = copied(landscape.model).double()
        with torch.no_grad(), plain_kernels(torch.float64):
            fine(few.double())
        network, inputs = fine, few.double()
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a network that only runs in its own type is tested there
        pass
    generator = torch.Generator().manual_seed(2)
    for size in ASIDE:
        scale = size * (float(inputs.double().pow(2).mean().sqrt()) + 1e-3)
        noise = torch.randn(inputs.shape, generator=generator, dtype=torch.float64)
        moved = inputs + (scale * noise).to(inputs)
        found = examine(*_described(network, moved), moved.reshape(-1), [moved.numel()], tensors=False)
        if found.gradient is not None:
            raise NotDefined(found.gradient)
        if not found.kink:
            return
    raise NotDefined("kinks lie so close to each other that derivatives cannot be tested")


def _described(network: nn.Module, inputs: Tensor) -> tuple[Functional, Functional]:
    """A random combination of all outputs as a function of all inputs, twice."""

    @torch.no_grad()
    def outputs(flat: Tensor) -> Tensor:
        with plain_kernels(inputs.dtype):
            found: Tensor = network(flat.reshape(inputs.shape).clone())
        return found.reshape(-1)

    base = outputs(inputs.reshape(-1))
    generator = torch.Generator().manual_seed(7)
    weights = (torch.rand(base.shape, generator=generator, dtype=torch.float64) + 0.5).to(base)

    def gradient(flat: Tensor) -> Tensor:
        source = flat.detach().clone().requires_grad_()
        with torch.enable_grad(), plain_kernels(inputs.dtype):
            total = (network(source.reshape(inputs.shape).clone()).reshape(-1) * weights).sum()
            if not total.requires_grad:
                return torch.zeros_like(flat)
            try:
                (found,) = torch.autograd.grad(total, source, allow_unused=True, materialize_grads=True)
            except RuntimeError as error:
                if "heckpoint" not in str(error):
                    raise
                (network(source.reshape(inputs.shape).clone()).reshape(-1) * weights).sum().backward()
                for p in network.parameters():
                    p.grad = None
                found = torch.zeros_like(flat) if source.grad is None else source.grad
        return found.detach()

    def product(vector: Tensor) -> Tensor:
        raise NotDefined("second derivatives in the inputs are not asked for")

    functional = Functional(outputs, weights, gradient, product)
    return functional, functional
