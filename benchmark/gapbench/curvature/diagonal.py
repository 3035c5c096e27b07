"""The diagonal of the loss Hessian by Hessian products with unit vectors, several at once."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.backward import with_parameters_of
from gapbench.curvature.loss import Landscape
from gapbench_base.errors import NotDefined

TOGETHER = 64  # unit vectors in one backward pass
AGREEMENT = 1e4  # units of rounding by which one of them may differ from a pass of its own


def hessian_diagonal(landscape: Landscape) -> Tensor:
    """diag H at the network's parameters, by d Hessian products.

    Where double backward is right, one tensor's products are taken together and only within it, `TOGETHER` at a
    time. What cannot be batched, or disagrees with a product of its own, is taken one by one.

    Returns:
        (d,), in the network's type.

    Raises:
        NotDefined: the gradient is not the derivative of the loss, or an entry is not finite.
    """
    landscape.findings.require_gradient()
    if landscape.findings.hessian is not None:
        return _one_by_one(landscape, range(landscape.dimension))
    found = torch.zeros(landscape.dimension, dtype=landscape.dtype, device=landscape.device)
    start = 0
    for tensor, size in enumerate(landscape.sizes):
        inside = _of_tensor(landscape, tensor)
        if inside is None:
            inside = _one_by_one(landscape, range(start, start + size))
        found[start : start + size] = inside
        start += size
    if not bool(found.isfinite().all()):
        raise NotDefined("a Hessian product is not finite")
    return found


def _one_by_one(landscape: Landscape, indices: range) -> Tensor:
    found = []
    for i in indices:
        unit = torch.zeros(landscape.dimension, dtype=landscape.dtype, device=landscape.device)
        unit[i] = 1.0
        found.append(landscape.hessian_product(unit)[i])
    return torch.stack(found)


def _of_tensor(landscape: Landscape, tensor: int) -> Tensor | None:
    """Diagonal of one tensor's own block, or None where batching fails."""
    size = landscape.sizes[tensor]
    total = torch.zeros(size, dtype=landscape.dtype, device=landscape.device)
    for parameters, gradients in landscape.gradient_graphs():
        if not gradients[tensor].requires_grad:
            continue
        for first in range(0, size, TOGETHER):
            rows = torch.arange(min(TOGETHER, size - first), device=landscape.device)
            units = torch.zeros(len(rows), size, dtype=landscape.dtype, device=landscape.device)
            units[rows, first + rows] = 1.0
            images = _own_products(landscape, parameters, gradients, tensor, units)
            if images is None:
                return None
            if first == 0:
                alone = _own_products(landscape, parameters, gradients, tensor, units[-1])
                if not _agree(images[-1], alone):
                    return None
            total[first + rows] += images[rows, first + rows]
    return total


def _own_products(
    landscape: Landscape, parameters: list[Tensor], gradients: list[Tensor], tensor: int, vectors: Tensor
) -> Tensor | None:
    """Products of one tensor's block with a vector (s,), or several (b, s) together; None where that fails."""
    batched = vectors.dim() == 2

    def differentiated(_: torch.nn.Module) -> Tensor:
        (image,) = torch.autograd.grad(
            gradients[tensor],
            parameters[tensor],
            vectors.reshape((*vectors.shape[:-1], *landscape.shapes[tensor])),
            retain_graph=True,
            is_grads_batched=batched,
            allow_unused=True,
            materialize_grads=True,
        )
        return image.reshape(vectors.shape)

    held = dict(zip(landscape.names, parameters))
    try:
        with plain_kernels(landscape.dtype), warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "There is a performance drop"
            )  # where one by one is done inside
            return with_parameters_of(landscape.model, held, differentiated)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        if not batched:
            raise
        return None


def _agree(image: Tensor, alone: Tensor | None) -> bool:
    if alone is None:
        return False
    allowed = AGREEMENT * torch.finfo(alone.dtype).eps * float(alone.abs().max())
    return float((image - alone).abs().max()) <= allowed
