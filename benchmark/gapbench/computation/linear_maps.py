"""The linear maps of a network as they act: at their real input size, stride and padding.

Norms of a whole layer, not of a reshaped kernel: a convolution's operator norm is that of the map between
feature maps, and its (2,1) norm adds the Euclidean norms of the incoming weights over all output units, of
which those at a padded border have fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gapbench.computation.eigenvalue import largest_eigenvalue

TOLERANCE = 1e-8
MAX_PRODUCTS = 400
DENSE_SIDE = 2048


@dataclass(frozen=True, eq=False)
class Kernel:
    """A layer's weight less the reference's, as its parameters give it with batch normalisation folded in.

    float64, of the parameter's shape: (out, in) or (out, in / groups, ...), transposed convolutions (in, out /
    groups, ...). `operator` computes the largest singular value of the full map that it makes.
    """

    weight: Tensor
    operator: Callable[[], float]

    @property
    def frobenius(self) -> float:
        """The Euclidean norm of its entries."""
        return float(torch.linalg.vector_norm(self.weight))

    def reshaped_norm(self) -> float:
        """The largest singular value of the matrix with the first axis against all others."""
        return float(torch.linalg.matrix_norm(self.weight.reshape(len(self.weight), -1), 2))


@dataclass(frozen=True)
class LinearMap:
    """One layer: name, `kind` (dense, convolution, diagonal, product), and its norms.

    `sigma` is the largest singular value, `norm_2_1` = ||A^T - M^T||_{2,1}, the sum over output units of the
    2-norm of their incoming weights less the reference's, `frobenius` = ||A - M||_F of the whole map. `inputs` and
    `outputs` count units (channels x positions). A diagonal map has no kernel.
    """

    name: str
    kind: str
    sigma: float
    norm_2_1: float
    frobenius: float
    inputs: int
    outputs: int
    kernel: Kernel | None = field(default=None, repr=False, compare=False)


def operator_norm(
    apply: Callable[[Tensor], Tensor], shape: tuple[int, ...], like: Tensor, seed: int = 0
) -> float:
    """Largest singular value of a linear `apply` on tensors of `shape`, by Lanczos on A' A in float64.

    Returns:
        The norm. Lanczos runs until the residual is 1e-8 of the square, whose error is far smaller; a larger
        residual is added to it.
    """
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
    converged = pair.residual <= TOLERANCE * abs(pair.value)
    return math.sqrt(max(pair.value if converged else pair.value + pair.residual, 0.0))


def dense_map(
    name: str,
    weight: Tensor,
    reference: Tensor | None,
    positions: int,
    inputs: int | None = None,
    kernel: Tensor | None = None,
) -> LinearMap:
    """`weight` (out, in) at each of `positions` independent positions; `inputs` units, if not in * positions.

    `kernel`: the weight less the reference's before anything but batch normalisation was folded into it.

    Returns:
        The map with its norms, and those of its difference from `reference`.
    """
    weight = weight.double()
    sigma = _matrix_norm(weight)
    difference = weight if reference is None else weight - reference.double()
    rows = torch.linalg.vector_norm(difference, dim=1)
    outputs, columns = weight.shape
    inputs = columns * positions if inputs is None else inputs
    return LinearMap(
        name,
        "dense",
        sigma,
        float(rows.sum()) * positions,
        float(torch.linalg.vector_norm(rows)) * math.sqrt(positions),
        inputs,
        outputs * positions,
        Kernel(
            difference if kernel is None else kernel,
            lambda: sigma if reference is None else _matrix_norm(difference),
        ),
    )


def _matrix_norm(weight: Tensor) -> float:
    """The largest singular value of a matrix."""
    if min(weight.shape) <= DENSE_SIDE:
        return float(torch.linalg.matrix_norm(weight, 2))
    return operator_norm(lambda x: weight @ x, (weight.shape[1],), weight)


def merged_columns(weight: Tensor, source: Tensor) -> Tensor:
    """`weight` (out, in) after a map that fills its input i from unit `source[i]` - 1, or with zero for 0."""
    columns = weight.new_zeros(len(weight), int(source.max()) + 1)
    return columns.index_add(1, source, weight)[:, 1:]


def bilinear_map(
    name: str,
    kind: str,
    apply: Callable[[Tensor, Tensor], Tensor],
    weight: Tensor,
    reference: Tensor | None,
    shape: tuple[int, ...],
    before: Before | None = None,
    examples: int = 1,
) -> LinearMap:
    """`apply(x, weight)` on an input of `shape`, which holds `examples` examples; linear in both.

    Every pair of an input and an output unit must be joined by at most one entry of the weight, so that the
    squared norm of an output unit's incoming weights is `apply` of ones with the squared weight. `before`: a
    selection, perhaps with factors, that fills the input of `apply` from one of another shape; where it copies an
    entry several times, `before.rows` must give the norms.

    Returns:
        The layer's map with its norms, and those of its difference from `reference`, another weight.
    """
    weight = weight.double()
    difference = weight if reference is None else weight - reference.double()
    source = shape if before is None else before.shape

    def whole(x: Tensor, by: Tensor) -> Tensor:
        return apply(x if before is None else before.apply(x), by)

    sigma = operator_norm(lambda x: whole(x, weight), source, weight)
    if before is not None and before.rows is not None:
        norm, squares, outputs = before.rows(difference)
    else:
        ones = torch.ones(source, dtype=torch.float64, device=weight.device)
        squared = apply(ones if before is None else before.apply(ones).pow(2), difference.pow(2)).clamp_min(0)
        norm, squares, outputs = float(squared.sqrt().sum()), float(squared.sum()), squared.numel()
    return LinearMap(
        name,
        kind,
        sigma,
        norm / examples,
        math.sqrt(squares / examples),
        math.prod(source) // examples,
        outputs // examples,
        Kernel(
            difference,
            lambda: (
                sigma
                if reference is None
                else operator_norm(lambda x: whole(x, difference), source, difference)
            ),
        ),
    )


@dataclass(frozen=True)
class Before:
    """A selection before a layer: it takes `shape`.

    `rows`, given the weight, returns the (2,1) norm, the squared Frobenius norm and the number of output units of
    the whole, for all examples together.
    """

    shape: tuple[int, ...]
    apply: Callable[[Tensor], Tensor]
    rows: Callable[[Tensor], tuple[float, float, int]] | None = None


def rows_after_selection(
    plane: Tensor, convolve: Callable[[Tensor, Tensor], Tensor], weight: Tensor, examples: int
) -> tuple[float, float, int]:
    """A convolution whose input channels are filled alike: position p from `plane[p]`.

    Output positions fall into few classes by which taps see the same source; the weights of those add up.

    Args:
        plane: (...) 0 for zero, else the number of a source.
        convolve: (x, kernel) -> the convolution of one channel.
        weight: (out, in, ...).
        examples: by which the result is multiplied.

    Returns:
        The (2,1) norm, the squared Frobenius norm and the number of units.
    """
    kernel = weight.shape[2:]
    taps = math.prod(kernel)
    probes = torch.eye(taps, dtype=torch.float64, device=weight.device).reshape(taps, 1, *kernel)
    seen = convolve(plane[None, None].double(), probes)[0].flatten(1)  # (taps, positions)
    first = torch.zeros_like(seen, dtype=torch.int64)
    for tap in reversed(range(taps)):
        first = torch.where((seen == seen[tap]) & (seen != 0), tap + 1, first)
    classes, sizes = torch.unique(first, dim=1, return_counts=True)
    flat, total, squares = weight.double().flatten(2), 0.0, 0.0
    for target, size in zip(classes.T, sizes.tolist()):
        merged = flat.new_zeros(*flat.shape[:2], taps + 1).index_add(2, target, flat)[..., 1:]
        rows = torch.linalg.vector_norm(merged.flatten(1), dim=1)
        total += size * float(rows.sum())
        squares += size * float(rows.pow(2).sum())
    return total * examples, squares * examples, seen.shape[1] * len(weight) * examples


def diagonal_map(
    name: str, diagonal: Tensor, reference: Tensor | None, source: tuple[int, ...], shape: tuple[int, ...]
) -> LinearMap:
    """A factor on each unit: an activation of shape `source` (1, ...), broadcast to `shape`, times `diagonal`.

    Copies of one unit are orthogonal, so the norm is the root of the largest sum of squares over them.

    Returns:
        The map with its norms, and those of its difference from `reference`.
    """
    diagonal = diagonal.double()
    difference = diagonal if reference is None else diagonal - reference.double()
    norm = float(difference.abs().broadcast_to(shape).sum())
    squares = float(difference.pow(2).broadcast_to(shape).sum())
    gain = float(diagonal.pow(2).broadcast_to(shape).sum_to_size(source).max()) ** 0.5
    return LinearMap(name, "diagonal", gain, norm, math.sqrt(squares), math.prod(source), math.prod(shape))
