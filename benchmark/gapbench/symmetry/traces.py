"""The part of the Hessian's trace that lies along the orbit."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gapbench.curvature.loss import Landscape
from gapbench.curvature.residual import ResidualProbes
from gapbench.curvature.trace import has_residual
from gapbench.symmetry.find import Symmetry
from gapbench.symmetry.groups.gram import gram
from gapbench.symmetry.second_order import second_derivatives

EXACT_SIZE = 300  # Hessian products for an exact value, at most
LARGEST = 1500  # generators of a group that has redundant ones
INDEPENDENT = 1e-5  # smallest pivot of generators of unit length that are not redundant


@dataclass(frozen=True)
class TangentTrace:
    """tr(U'HU) over an orthonormal basis U of the orbit's tangents; standard error 0 where it is exact.

    `samples` are those of an average over probes.
    """

    value: float
    standard_error: float
    method: str
    samples: Tensor | None = None


def tangent_trace(
    landscape: Landscape, symmetry: Symmetry, gradient: Tensor, probes: ResidualProbes
) -> TangentTrace:
    """tr((1 - P) H (1 - P)), P the projection on the horizontal space.

    Differentiating g(theta)' t_l(theta) = 0 along t_k gives t_k' H t_l = -g' (D t_l) t_k. Where all symmetries
    are rescalings and shifts ("identity") that needs only the gradient. Otherwise exact by Hessian products
    along a basis where that takes at most `EXACT_SIZE` and no more than 4 `probes` of them ("basis"), else an
    average over the vectors z of `probes`, u = (1 - P) z, of u' R z, R what the Gauss-Newton matrix leaves out
    of H: outputs do not change along u, so that u' G z = 0. Both are small where the gradient is. Where R cannot be
    told from G, of u' H u.

    Returns:
        The trace, its standard error and which of the methods gave it.
    """
    if not symmetry.dimension:
        return TangentTrace(0.0, 0.0, "no symmetry")
    exact = _by_identity(symmetry, gradient)
    if exact is not None:
        return TangentTrace(exact, 0.0, "identity")
    projector = symmetry.projector
    assert projector is not None
    if projector.basis is not None and projector.basis.shape[1] <= min(EXACT_SIZE, 4 * probes.count):
        total = sum(_form(landscape, column) for column in projector.basis.T)
        return TangentTrace(float(total), 0.0, "basis")
    samples = []
    if has_residual(landscape):
        for z, image in probes:
            wide = z.double()
            samples.append(float((wide - symmetry.project(wide)) @ image.double()))
    else:
        for z in probes.signs():
            wide = z.double()
            samples.append(_form(landscape, wide - symmetry.project(wide)))
    values = torch.tensor(samples, dtype=torch.float64)
    return TangentTrace(float(values.mean()), float(values.std() / len(samples) ** 0.5), "probes", values)


def _form(landscape: Landscape, direction: Tensor) -> float:
    vector = direction.to(landscape.dtype)
    return float(direction @ landscape.hessian_product(vector).double())


def _by_identity(symmetry: Symmetry, gradient: Tensor) -> float | None:
    """-tr(G^+ B), G = T'T and B_lk = g' (D t_l) t_k; None where other groups are involved."""
    bound = symmetry.bound
    if any(f.size for f in bound.all() if f is not bound.rescaling and f is not bound.shifts):
        return None
    if bound.shifts.size and not symmetry.solution.constant:
        return None
    size = bound.rescaling.size + bound.shifts.size
    if size > LARGEST and size != symmetry.dimension:
        return None
    inner = torch.from_numpy(gram([bound.rescaling, bound.shifts]).toarray())
    second = second_derivatives(bound, symmetry.findings, symmetry.solution, gradient.double().cpu().numpy())
    scale = inner.diagonal().clamp_min(1e-300).rsqrt()
    inner = scale[:, None] * inner * scale[None, :]
    outer = scale[:, None] * torch.from_numpy(second.toarray()) * scale[None, :]
    triangle, failed = torch.linalg.cholesky_ex(inner)
    if not int(failed) and float(triangle.diagonal().min()) > INDEPENDENT:
        inverse = torch.cholesky_inverse(triangle)
    elif size <= LARGEST:
        inverse = torch.linalg.pinv(inner, rtol=1e-12, hermitian=True)
    else:
        return None
    return -float((inverse * outer.T).sum())
