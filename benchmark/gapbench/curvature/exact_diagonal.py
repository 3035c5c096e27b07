"""The exact diagonal of the loss Hessian, where it can be had: by squared gradients, or by Hessian products."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from gapbench.computation.copies import holding
from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.backward import with_parameters_of
from gapbench.curvature.diagonal import hessian_diagonal
from gapbench.curvature.layer_forms import HELD
from gapbench.curvature.loss import Landscape
from gapbench.curvature.trace import exact_is_cheap, gauss_newton_trace, why_not_gauss_newton
from gapbench_base.errors import NotDefined

AGREEMENT = {torch.float64: 1e-8, torch.float32: 1e-3}  # of the diagonal's sum with the trace


def exact_diagonal(landscape: Landscape) -> Tensor:
    """diag H at the network's parameters, once for all who ask.

    For networks that are piecewise affine in each parameter tensor that of the Gauss-Newton matrix, by squared
    gradients of single examples; otherwise by d Hessian products where these are cheap.

    Returns:
        (d,) in float64.

    Raises:
        NotDefined: neither is possible, or the gradient is not the derivative of the loss.
    """
    landscape.findings.require_gradient()
    obstacle = landscape.remembered("why not Gauss-Newton", lambda: why_not_gauss_newton(landscape))
    if obstacle is None:
        return landscape.remembered("Gauss-Newton diagonal", lambda: gauss_newton_diagonal(landscape))
    if not exact_is_cheap(landscape):
        raise NotDefined(
            f"the Hessian's diagonal takes {landscape.dimension:,} Hessian products, which are too many, and there "
            f"is no shorter way because of {obstacle}"
        )
    found = landscape.remembered("Hessian diagonal", lambda: hessian_diagonal(landscape))
    return found.double()


def gauss_newton_diagonal(landscape: Landscape) -> Tensor:
    """diag G, G = mean_i J_i' A_i J_i, as the sum of squared gradients of `Landscape.scalars`.

    Returns:
        (d,) in float64.

    Raises:
        NotDefined: its sum is not the trace that is found by layers.
    """
    total = torch.zeros(landscape.dimension, dtype=torch.float64, device=landscape.device)
    for x, _ in landscape.chunks():
        part = _at_once(landscape, x)
        total += _one_by_one(landscape, x) if part is None else part
    total /= len(landscape.inputs)
    trace, found = gauss_newton_trace(landscape), float(total.sum())
    if abs(found - trace) > AGREEMENT.get(landscape.dtype, 0.01) * max(abs(trace), abs(found)):
        raise NotDefined("gradients of single examples could not be told apart")
    return total


def _count(landscape: Landscape, x: Tensor) -> int:
    with torch.no_grad(), plain_kernels(landscape.dtype):
        return int(landscape.scalars(landscape.model(x[:1])).shape[1])


def _at_once(landscape: Landscape, x: Tensor) -> Tensor | None:
    """Sums of squares (d,) over the examples `x` and all scalars, several examples at once; None if that fails."""
    network = landscape.model
    parameters = {name: p.detach() for name, p in network.named_parameters()}
    group = max(1, min(len(x), int(HELD // landscape.dimension)))

    def scalar(values: dict[str, Tensor], example: Tensor, index: Tensor) -> Tensor:
        with holding(network, values):
            outputs = network(example[None])
        return landscape.scalars(outputs)[0].gather(0, index[None])[0]

    total = torch.zeros(landscape.dimension, dtype=torch.float64, device=landscape.device)
    with torch.no_grad(), plain_kernels(landscape.dtype):
        for k in range(_count(landscape, x)):
            index = torch.tensor(k, device=landscape.device)
            for examples in torch.split(x, group):
                try:
                    found = vmap(grad(scalar), in_dims=(None, 0, None))(parameters, examples, index)
                except torch.OutOfMemoryError:
                    raise
                except RuntimeError:
                    return None
                total += torch.cat([found[name].pow(2).sum(0).reshape(-1) for name in parameters]).double()
    return total


def _one_by_one(landscape: Landscape, x: Tensor) -> Tensor:
    leaves = {name: p.detach().clone().requires_grad_() for name, p in landscape.model.named_parameters()}
    total = torch.zeros(landscape.dimension, dtype=torch.float64, device=landscape.device)
    for example in torch.split(x, 1):

        def squares(network: nn.Module, example: Tensor = example) -> Tensor:
            found = torch.zeros(landscape.dimension, dtype=torch.float64, device=landscape.device)
            for value in landscape.scalars(network(example))[0]:
                gradients = torch.autograd.grad(
                    value, list(leaves.values()), retain_graph=True, allow_unused=True, materialize_grads=True
                )
                found += torch.cat([g.pow(2).reshape(-1) for g in gradients]).double()
            return found

        with torch.enable_grad(), plain_kernels(landscape.dtype):
            total += with_parameters_of(landscape.model, leaves, squares)
    return total
