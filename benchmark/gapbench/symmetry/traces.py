"""The part of the Hessian's trace that lies along the orbit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gapbench.curvature.loss import Landscape
from gapbench.symmetry.find import Symmetry

EXACT_SIZE = 300


@dataclass(frozen=True)
class TangentTrace:
    """tr(U'HU) over an orthonormal basis U of the orbit's tangents; standard error 0 where it is exact."""

    value: float
    standard_error: float
    method: str


def tangent_trace(
    landscape: Landscape, symmetry: Symmetry, gradient: Tensor, generator: torch.Generator, probes: int
) -> TangentTrace:
    """tr((1 - P) H (1 - P)), P the projection on the horizontal space.

    Differentiating the invariance of the loss gives t_k' H t_l = -g . d_k d_l phi: where all symmetries are
    rescalings that is -E' diag(g theta) E with the exponents E, and only the gradient is needed. Otherwise
    exact by Hessian products along a basis of at most `EXACT_SIZE` directions, else an average over `probes`
    Rademacher vectors z of u' H u, u = (1 - P) z, which is small where the gradient is.
    """
    if not symmetry.dimension:
        return TangentTrace(0.0, 0.0, "no symmetry")
    bound = symmetry.bound
    only_scales = all(f is bound.rescaling or not f.size for f in bound.all())
    if only_scales and not bound.rescaling.batch_norms:
        return TangentTrace(_by_exponents(symmetry, gradient), 0.0, "identity")
    projector = symmetry.projector
    assert projector is not None
    if projector.basis is not None and projector.basis.shape[1] <= EXACT_SIZE:
        total = 0.0
        for column in projector.basis.T:
            total += _form(landscape, column)
        return TangentTrace(total, 0.0, "basis")
    samples = []
    for _ in range(probes):
        signs = torch.randint(0, 2, (landscape.dimension,), generator=generator) * 2 - 1
        z = signs.to(device=landscape.device, dtype=torch.float64)
        samples.append(_form(landscape, z - symmetry.project(z)))
    values = torch.tensor(samples, dtype=torch.float64)
    return TangentTrace(float(values.mean()), float(values.std() / len(samples) ** 0.5), "probes")


def _form(landscape: Landscape, direction: Tensor) -> float:
    vector = direction.to(landscape.dtype)
    return float(direction @ landscape.hessian_product(vector).double())


def _by_exponents(symmetry: Symmetry, gradient: Tensor) -> float:
    rescaling = symmetry.bound.rescaling
    gram = rescaling.gram_weights() + rescaling.vector.T @ rescaling.vector
    second = rescaling.second_derivatives(gradient.double())
    dense, moments = (torch.from_numpy(m.toarray()) for m in (gram, second))
    scale = dense.diagonal().clamp_min(1e-300).rsqrt()
    inverse = torch.linalg.pinv(scale[:, None] * dense * scale[None, :], rtol=1e-12, hermitian=True)
    return -float((inverse * (scale[:, None] * moments * scale[None, :])).sum())
