"""The trace of the loss Hessian: exact where the network is piecewise affine in each parameter tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from gapbench.curvature.loss import Landscape
from gapbench.curvature.multiaffine import why_not_multiaffine
from gapbench.curvature.per_example import squared_gradient_norms, squared_gradient_norms_weighted
from gapbench.curvature.tracing import plain_kernels, trace


@dataclass(frozen=True)
class TraceEstimate:
    """`standard_error` is 0 where the trace is exact (on the given examples); `method` says how it was found."""

    value: float
    standard_error: float
    method: str
    gauss_newton: float | None
    details: dict[str, Any]


def gauss_newton_trace(landscape: Landscape) -> float:
    """tr G exactly, G = mean_i J_i' A_i J_i the Gauss-Newton matrix (= true Fisher for both losses).

    Cross-entropy: A = diag(p) - p p' = sum_c p_c (e_c - p)(e_c - p)', so tr G = mean_i sum_c
    |d/dtheta sqrt(p_c) (f_c - p . f)|^2 with p held fixed. Squared loss: A = 1.
    """

    norms = squared_gradient_norms(landscape.model, landscape.inputs, _scalars(landscape))
    return float(norms.sum() / len(landscape.inputs))


def _scalars(landscape: Landscape) -> Callable[[Tensor], Tensor]:
    """Outputs -> the scalars whose squared gradients sum to the Gauss-Newton matrix's diagonal."""

    def scalars(outputs: Tensor) -> Tensor:
        outputs = outputs.double().flatten(1)
        if landscape.loss == "mse":
            return outputs
        p = torch.softmax(outputs.detach(), dim=1)
        return p.sqrt() * (outputs - (p * outputs).sum(dim=1, keepdim=True))

    return scalars


def hessian_trace(
    landscape: Landscape, generator: torch.Generator, probes: int, exact_below: int
) -> TraceEstimate:
    """tr H of the landscape at the network's parameters.

    Exact and free of probes for networks that are piecewise affine in each parameter tensor (tr H = tr G).
    Exact by d Hessian products if d <= max(`probes`, `exact_below`). Otherwise tr G exactly plus
    Hutchinson's estimate of tr(H - G) with `probes` Rademacher vectors; the standard error covers the probes
    (not the choice of examples) and is absolute.
    """
    # Every chunk is looked at, since a network may branch on its inputs.
    chunks = landscape.inputs.split(landscape.chunk)
    obstacle = next(filter(None, (why_not_multiaffine(trace(landscape.model, x)) for x in chunks)), None)
    if obstacle is None:
        value = gauss_newton_trace(landscape)
        return TraceEstimate(value, 0.0, "gauss_newton", value, {})
    details: dict[str, Any] = {"not_piecewise_affine": obstacle}
    d = landscape.dimension
    if d <= max(probes, exact_below):
        total = 0.0
        for i in range(d):
            unit = torch.zeros(d, dtype=landscape.dtype, device=landscape.device)
            unit[i] = 1.0
            total += float(landscape.hessian_product(unit)[i])
        return TraceEstimate(total, 0.0, "unit_vectors", None, details)
    gauss_newton = gauss_newton_trace(landscape)
    form = GaussNewtonForm(landscape)
    samples = []
    for _ in range(probes):
        signs = torch.randint(0, 2, (d,), generator=generator) * 2 - 1
        probe = signs.to(device=landscape.device, dtype=landscape.dtype)
        product = landscape.hessian_product(probe)
        samples.append(float(probe.double() @ product.double()) - form(probe))
    difference = torch.tensor(samples, dtype=torch.float64)
    error = float(difference.std(correction=1) / len(samples) ** 0.5)
    value = gauss_newton + float(difference.mean())
    return TraceEstimate(value, error, "gauss_newton+hutchinson", gauss_newton, details | {"probes": probes})


def adaptive_trace(
    landscape: Landscape, generator: torch.Generator, probes: int, exact_below: int
) -> TraceEstimate:
    """sum_i theta_i^2 H_ii, with the same cases and errors as `hessian_trace`."""
    theta = landscape.theta()
    chunks = landscape.inputs.split(landscape.chunk)
    obstacle = next(filter(None, (why_not_multiaffine(trace(landscape.model, x)) for x in chunks)), None)
    details: dict[str, Any] = {} if obstacle is None else {"not_piecewise_affine": obstacle}
    d = landscape.dimension
    if obstacle is not None and d <= max(probes, exact_below):
        total = 0.0
        for i in range(d):
            unit = torch.zeros(d, dtype=landscape.dtype, device=landscape.device)
            unit[i] = theta[i]
            total += float(theta[i]) * float(landscape.hessian_product(unit)[i])
        return TraceEstimate(total, 0.0, "unit_vectors", None, details)
    weights = landscape.unflatten(theta)
    norms = squared_gradient_norms_weighted(landscape.model, landscape.inputs, _scalars(landscape), weights)
    gauss_newton = float(norms.sum() / len(landscape.inputs))
    if obstacle is None:
        return TraceEstimate(gauss_newton, 0.0, "gauss_newton", gauss_newton, details)
    form = GaussNewtonForm(landscape)
    samples = []
    for _ in range(probes):
        signs = torch.randint(0, 2, (d,), generator=generator) * 2 - 1
        probe = theta * signs.to(device=landscape.device, dtype=landscape.dtype)
        product = landscape.hessian_product(probe)
        samples.append(float(probe.double() @ product.double()) - form(probe))
    difference = torch.tensor(samples, dtype=torch.float64)
    error = float(difference.std(correction=1) / len(samples) ** 0.5)
    value = gauss_newton + float(difference.mean())
    return TraceEstimate(value, error, "gauss_newton+hutchinson", gauss_newton, details | {"probes": probes})


class GaussNewtonForm:
    """v -> v' G v, through J v by two reverse passes (forward-mode rules are wrong for some layers).

    The graphs of u -> J' u, which is linear in u, are built once and kept.
    """

    def __init__(self, landscape: Landscape):
        self.landscape = landscape
        self.graphs = [self._graph(inputs) for inputs in landscape.inputs.split(landscape.chunk)]

    def _graph(self, inputs: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        model = self.landscape.model
        parameters = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
        with torch.enable_grad(), plain_kernels():
            outputs = functional_call(model, parameters, (inputs,))
            dual = torch.zeros_like(outputs, requires_grad=True)
            gradients = torch.autograd.grad(
                outputs, list(parameters.values()), dual, create_graph=True, materialize_grads=True
            )
        return outputs.detach(), dual, list(gradients)

    def __call__(self, vector: Tensor) -> float:
        total = 0.0
        tangents = list(self.landscape.unflatten(vector).values())
        for outputs, dual, gradients in self.graphs:
            pairs = [(g, t) for g, t in zip(gradients, tangents) if g.requires_grad]
            (product,) = torch.autograd.grad(
                [g for g, _ in pairs], dual, [t for _, t in pairs], retain_graph=True
            )
            outputs, product = outputs.double().flatten(1), product.double().flatten(1)
            if self.landscape.loss == "mse":
                total += float(product.pow(2).sum())
            else:
                p = torch.softmax(outputs, dim=1)
                total += float((p * product.pow(2)).sum() - (p * product).sum(dim=1).pow(2).sum())
        return total / len(self.landscape.inputs)
