"""Derivatives of each example's loss along one direction of the parameters, and degrees of homogeneity."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.backward import gradient_of, with_parameters_of
from gapbench.curvature.heads import per_example_loss
from gapbench.curvature.loss import Landscape
from gapbench_base.errors import NotDefined

AGREEMENT = {torch.float64: 1e-8, torch.float32: 1e-3}
HOMOGENEOUS = {torch.float64: 1e-9, torch.float32: 1e-4}


def losses_along(landscape: Landscape, direction: Tensor) -> Tensor:
    """d l_i(theta + t `direction`) / dt at t = 0 for each example i.

    By differentiating the gradient of sum_i u_i l_i, which is linear in u, along `direction` (d,); where that fails
    or its sum is not the derivative of the sum, by one gradient an example.

    Returns:
        (n,) float64.
    """
    landscape.findings.require_gradient()
    found = []
    for x, y in landscape.chunks():
        part = _at_once(landscape, x, y, direction)
        found.append(_one_by_one(landscape, x, y, direction) if part is None else part)
    return torch.cat(found)


def _losses(landscape: Landscape, network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return per_example_loss(network(x.clone()), y, landscape.loss)


def _at_once(landscape: Landscape, x: Tensor, y: Tensor, direction: Tensor) -> Tensor | None:
    parameters = [p.detach().clone().requires_grad_() for p in landscape.model.parameters()]
    vectors = list(landscape.unflatten(direction).values())

    def differentiated(network: nn.Module) -> Tensor | None:
        losses = _losses(landscape, network, x, y)
        if not losses.requires_grad:
            return torch.zeros_like(losses)
        weights = torch.ones_like(losses, requires_grad=True)
        gradients = torch.autograd.grad(
            losses, parameters, weights, create_graph=True, allow_unused=True, materialize_grads=True
        )
        total = sum((g.double() * v.double()).sum() for g, v in zip(gradients, vectors))
        assert isinstance(total, Tensor)
        if not total.requires_grad:
            return None
        (each,) = torch.autograd.grad(total, weights, allow_unused=True, materialize_grads=True)
        scale = float(each.abs().sum())
        agree = abs(float(each.detach().sum()) - float(total.detach())) <= AGREEMENT[landscape.dtype] * scale
        return each.detach() if agree else None

    with torch.enable_grad(), plain_kernels(landscape.dtype):
        try:
            return with_parameters_of(landscape.model, dict(zip(landscape.names, parameters)), differentiated)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # a backward pass that cannot be differentiated, or checkpointing
            return None


def _one_by_one(landscape: Landscape, x: Tensor, y: Tensor, direction: Tensor) -> Tensor:
    """One gradient for each example; where examples meet, each time with all of them."""
    together = landscape.mixed is not None
    found = []
    for i in range(len(x)):
        theta = landscape.theta().requires_grad_()
        rows = slice(None) if together else slice(i, i + 1)

        def loss(network: nn.Module, i: int = i, rows: slice = rows) -> Tensor:
            return _losses(landscape, network, x[rows], y[rows])[i if together else 0]

        def gradient(network: nn.Module, theta: Tensor = theta, loss=loss) -> Tensor:  # type: ignore[no-untyped-def]
            return gradient_of(loss(network), theta, lambda: loss(network))

        with torch.enable_grad(), plain_kernels(landscape.dtype):
            slope = with_parameters_of(landscape.model, landscape.unflatten(theta), gradient)
        found.append(slope.double() @ direction.double())
    return torch.stack(found)


@torch.no_grad()
def degree(landscape: Landscape) -> int:
    """The k with f(c theta) = c^k f(theta) for all outputs and examples, c = 1/2 and 2.

    Returns:
        A whole number of at least 1.

    Raises:
        NotDefined: there is none (biases, normalisation, shortcuts, other activations than ReLU), or all outputs
            are zero.
    """
    theta = landscape.theta()

    def outputs(at: Tensor) -> Tensor:
        def evaluated(network: nn.Module) -> Tensor:
            return torch.cat([network(x.clone()).double() for x, _ in landscape.chunks()])

        with plain_kernels(landscape.dtype):
            return with_parameters_of(landscape.model, landscape.unflatten(at), evaluated)

    base, twice, half = outputs(theta), outputs(2.0 * theta), outputs(0.5 * theta)
    if not float(base.norm()) > 0:
        raise NotDefined("all outputs are zero")
    exponent = math.log2(float(twice.norm() / base.norm())) if float(twice.norm()) > 0 else 0.0
    k = round(exponent)
    allowed = HOMOGENEOUS[landscape.dtype] * float(base.norm())
    same = all(
        float((found / 2.0**power - base).norm()) <= allowed for found, power in ((twice, k), (half, -k))
    )
    if k < 1 or not same:
        raise NotDefined(
            "the outputs are not homogeneous in the parameters (biases, normalisation, shortcuts, or an activation "
            "that is not)"
        )
    return k


def output_slopes(landscape: Landscape) -> Tensor:
    """<d l_i / d f, f_i> for each example i, f its outputs.

    Returns:
        (n,) float64.
    """
    found = []
    for x, y in landscape.chunks():
        with torch.no_grad(), plain_kernels(landscape.dtype):
            outputs = landscape.model(x.clone()).double()
        outputs.requires_grad_(True)
        with torch.enable_grad():
            loss = per_example_loss(outputs, y, landscape.loss).sum()
            (slope,) = torch.autograd.grad(loss, outputs)
        found.append((slope * outputs.detach()).reshape(len(x), -1).sum(1))
    return torch.cat(found)
