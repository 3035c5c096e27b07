"""Squared gradients of single examples by parameter, summed: the diagonal of the Gauss-Newton matrix."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from gapbench.computation.copies import holding
from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.backward import with_parameters_of
from gapbench.curvature.layer_forms import HELD
from gapbench.curvature.loss import Landscape
from gapbench.curvature.per_example import layer_passes, squared_gradient_norms
from gapbench_base.errors import NotDefined

DIAGONAL = "Gauss-Newton diagonal"
CHUNK = 32  # examples whose graphs are held at once: more do not stay near the processor
CHECKED = 2  # examples whose squared gradients are added up in another way, too
AGREEMENT = {torch.float64: 1e-8, torch.float32: 1e-3}  # of both sums


def gauss_newton_diagonal(landscape: Landscape) -> Tensor:
    """diag G, G = mean_i J_i' A_i J_i, as the sum of squared gradients of `Landscape.scalars`; once for all.

    Layers go by the products of their inputs and output gradients as in `per_example`, all other parameters by
    differentiating single examples. Examples must not meet in the network.

    Returns:
        (d,) in float64.

    Raises:
        NotDefined: on a few examples the sum is not that of the squared norms of their gradients, which take
            another way.
    """
    return landscape.remembered(DIAGONAL, lambda: _diagonal(landscape))


def _diagonal(landscape: Landscape) -> Tensor:
    network = landscape.model
    totals = {
        name: torch.zeros(p.numel(), dtype=torch.float64, device=landscape.device)
        for name, p in network.named_parameters()
    }
    first, others = landscape.inputs[:CHECKED], landscape.inputs[CHECKED:]
    for x in [first, *(torch.split(others, min(CHUNK, landscape.chunk)) if len(others) else ())]:
        found = _by_layers(landscape, x)
        rest = {name: p.detach() for name, p in network.named_parameters() if name not in found}
        if rest:
            at_once = _at_once(landscape, x, rest)
            found |= _one_by_one(landscape, x, rest) if at_once is None else at_once
        if x is first:
            _check(landscape, x, sum(float(squares.sum()) for squares in found.values()))
        for name, squares in found.items():
            totals[name] += squares
    return torch.cat([totals[name] for name in landscape.names]) / len(landscape.inputs)


def _check(landscape: Landscape, x: Tensor, total: float) -> None:
    """Raise `NotDefined` where `total` is not the sum of the squared norms of gradients of these examples."""
    norms = squared_gradient_norms(landscape.model, x, landscape.scalars, len(x))
    expected = float(norms.sum())
    rounded_to_zero = landscape.dimension * torch.finfo(landscape.dtype).tiny
    allowed = AGREEMENT.get(landscape.dtype, 0.01) * max(abs(total), abs(expected)) + rounded_to_zero
    if abs(total - expected) > allowed:
        raise NotDefined("gradients of single examples could not be told apart")


def _by_layers(landscape: Landscape, x: Tensor) -> dict[str, Tensor]:
    """Sums of squares over the examples `x` and all scalars, of the parameters for which there is a formula."""
    passes = layer_passes(landscape.model, x, landscape.scalars)
    by_id = {id(p): name for name, p in landscape.model.named_parameters()}
    found = {
        name: torch.zeros(p.numel(), dtype=torch.float64, device=landscape.device)
        for name, p in landscape.model.named_parameters()
        if name in passes.names
    }
    for _, parts in passes.gradients():
        for layer, form in passes.forms.items():
            own = [g for gradients, _ in parts for g in [gradients[layer]] if g is not None]
            for key, squares in (form.summed_squares(own) if own else {}).items():
                found[by_id[key]] += squares
        for _, copies in parts:
            for name, gradients in copies.items():
                found[name] += gradients.double().pow(2).sum(0).reshape(-1)
    return found


def _count(landscape: Landscape, x: Tensor) -> int:
    with torch.no_grad(), plain_kernels(landscape.dtype):
        return int(landscape.scalars(landscape.model(x[:1])).shape[1])


def _at_once(landscape: Landscape, x: Tensor, parameters: dict[str, Tensor]) -> dict[str, Tensor] | None:
    """The same for `parameters`, several examples at once under vmap; None where that fails."""
    network = landscape.model
    size = sum(p.numel() for p in parameters.values())
    group = max(1, min(len(x), int(HELD // size)))

    def scalar(values: dict[str, Tensor], example: Tensor, index: Tensor) -> Tensor:
        with holding(network, values):
            outputs = network(example[None])
        return landscape.scalars(outputs)[0].gather(0, index[None])[0]

    totals = {n: torch.zeros(p.numel(), dtype=torch.float64, device=p.device) for n, p in parameters.items()}
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
                for name, gradients in found.items():
                    totals[name] += gradients.pow(2).sum(0).reshape(-1).double()
    return totals


def _one_by_one(landscape: Landscape, x: Tensor, parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    leaves = {name: p.detach().clone().requires_grad_() for name, p in parameters.items()}
    totals = {n: torch.zeros(p.numel(), dtype=torch.float64, device=p.device) for n, p in parameters.items()}
    for example in torch.split(x, 1):

        def add_squares(network: nn.Module, example: Tensor = example) -> None:
            for value in landscape.scalars(network(example))[0]:
                gradients = torch.autograd.grad(
                    value, list(leaves.values()), retain_graph=True, allow_unused=True, materialize_grads=True
                )
                for name, gradient in zip(leaves, gradients):
                    totals[name] += gradient.double().pow(2).reshape(-1)

        with torch.enable_grad(), plain_kernels(landscape.dtype):
            with_parameters_of(landscape.model, leaves, add_squares)
    return totals
