"""The linear maps of a network as they act: at their real input size, stride and padding.

Norms of a whole layer, not of a reshaped kernel: a convolution's operator norm is that of the map between
feature maps, and its (2,1) norm adds the Euclidean norms of the incoming weights over all output units, of
which those at a padded border have fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gapbench.curvature.eigenvalue import largest_eigenvalue

TOLERANCE = 1e-8
MAX_PRODUCTS = 400
DENSE_SIDE = 2048


@dataclass(frozen=True)
class LinearMap:
    """One layer: name, `kind` (dense, convolution, diagonal), and its norms.

    `sigma` is the largest singular value, `norm_2_1` = ||A^T - M^T||_{2,1}, the sum over output units of the
    2-norm of their incoming weights less the reference's. `inputs` and `outputs` count units (channels x
    positions).
    """

    name: str
    kind: str
    sigma: float
    norm_2_1: float
    inputs: int
    outputs: int


def operator_norm(
    apply: Callable[[Tensor], Tensor], shape: tuple[int, ...], like: Tensor, seed: int = 0
) -> float:
    """Largest singular value of a linear `apply` on tensors of `shape`, by Lanczos on A' A in float64."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(math.prod(shape), generator=generator, dtype=torch.float64).to(like.device)
    with torch.enable_grad():
        origin = torch.zeros(shape, dtype=torch.float64, device=like.device, requires_grad=True)
        image = apply(origin)
    if not image.requires_grad:
        return 0.0

    def gram(vector: Tensor) -> Tensor:
        with torch.no_grad():
            direct = apply(vector.reshape(shape))
        (back,) = torch.autograd.grad(image, origin, direct, retain_graph=True)
        return back.reshape(-1)

    pair = largest_eigenvalue(gram, start, TOLERANCE, MAX_PRODUCTS)
    return math.sqrt(max(pair.value, 0.0))


def dense_map(name: str, weight: Tensor, reference: Tensor | None, positions: int) -> LinearMap:
    """`weight` (out, in) applied at each of `positions` independent positions."""
    weight = weight.double()
    if min(weight.shape) <= DENSE_SIDE:
        sigma = float(torch.linalg.matrix_norm(weight, 2))
    else:
        sigma = operator_norm(lambda x: weight @ x, (weight.shape[1],), weight)
    difference = weight if reference is None else weight - reference.double()
    rows = float(torch.linalg.vector_norm(difference, dim=1).sum())
    outputs, inputs = weight.shape
    return LinearMap(name, "dense", sigma, rows * positions, inputs * positions, outputs * positions)


def convolution_map(
    name: str,
    convolve: Callable[[Tensor, Tensor], Tensor],
    weight: Tensor,
    reference: Tensor | None,
    shape: tuple[int, ...],
) -> LinearMap:
    """`convolve(x, weight)` on one input of `shape` (1, c, ...); linear in both, zero padding.

    Every pair of an input and an output unit is joined by at most one kernel entry, so the squared norm of
    an output unit's incoming weights is the convolution of ones with the squared kernel.
    """
    weight = weight.double()
    sigma = operator_norm(lambda x: convolve(x, weight), shape, weight)
    difference = weight if reference is None else weight - reference.double()
    ones = torch.ones(shape, dtype=torch.float64, device=weight.device)
    squared = convolve(ones, difference.pow(2))
    norm = float(squared.clamp_min(0).sqrt().sum())
    return LinearMap(name, "convolution", sigma, norm, math.prod(shape), squared.numel())


def diagonal_map(name: str, diagonal: Tensor, reference: Tensor | None, shape: tuple[int, ...]) -> LinearMap:
    """A factor on each unit, broadcast to one activation of `shape` (1, ...)."""
    diagonal = diagonal.double()
    difference = diagonal if reference is None else diagonal - reference.double()
    units = math.prod(shape)
    norm = float(difference.abs().broadcast_to(shape).sum())
    return LinearMap(name, "diagonal", float(diagonal.abs().max()), norm, units, units)
