"""Bounds on the test error by margins and norms, with all constants.

Each value is the right-hand side of P(error) <= margin loss + what the class costs + what confidence costs, which
holds with probability 1 - `delta`; `vacuous` in the details says that it is at least 1. gamma is by default the
10th percentile of the training margins, and norms are those of the network itself: to let the data choose them
costs further logarithms, which are not counted. `is_bound` is False, with the reasons in `why_not_bound`, where the
theorem does not cover the network for another cause (biases, branches, batch statistics); the value is then a
number only.
|X|_F is the norm of the whole training set, n its size; layers are the full linear maps, batch normalisation folded
in. None is defined with attention, gates, layer or group normalisation, nor where gamma is not positive.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.margin_bounds import MarginBound, margin_bound, peeling_obstacles
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    from gapbench.proxies.context import Context

DELTA = 0.05


@proxy("bartlett_2017_bound", reference="Bartlett, Foster and Telgarsky 2017, lemma A.8", cost="cheap")
def bartlett_2017_bound(
    context: Context, *, gamma: float | None = None, delta: float = DELTA, reference: str = "zero"
) -> Estimate:
    """Ramp loss + 2 ( 4 / n^(3/2) + 36 |X|_F ln(n) sqrt(ln(2 W^2)) R_A / (gamma n) ) + 3 sqrt(ln(2/delta) / (2n)).

    R_A as in `spectral_margin_bound`, which is the leading term alone; W the largest width. The constant is that of
    Dudley's integral from 1 / n to sqrt(n). Larger values predict a larger gap. Not applicable unless gamma > 0,
    and as `log_prod_of_spec`.

    Returns:
        The bound, with its parts in the details.
    """
    parts = margin_bound(context, gamma, delta, reference)
    layers = parts.composition.layers
    ratios = sum((layer.norm_2_1 / layer.sigma) ** (2.0 / 3.0) for layer in layers)
    width = 0.5 * math.log(math.log(2.0 * parts.composition.widest**2))
    log = math.log(36.0) + parts.log_input_norm + _log(math.log(parts.n)) + width
    log += parts.composition.log_lipschitz + 1.5 * _log(ratios) - math.log(parts.gamma * parts.n)
    return parts.rademacher([math.log(4.0) - 1.5 * math.log(parts.n), log], [], reference=reference)


@proxy("neyshabur_2015_bound", reference="Neyshabur et al. 2015, corollary 2 (Frobenius norms)", cost="cheap")
def neyshabur_2015_bound(context: Context, *, gamma: float | None = None, delta: float = DELTA) -> Estimate:
    """Ramp loss + 2 (2 C / gamma) 2^(d-1) prod_i |A_i|_F |X|_F / n + 3 sqrt(ln(2/delta) / (2n)).

    C outputs, d layers of full maps A_i. Each hidden layer that is peeled off costs a factor 2; the factor 2 C /
    gamma is that of Maurer's contraction for the ramp loss of C outputs, which the paper, on one output, does not
    have. Covers chains of linear maps without biases and ReLU. Larger values predict a larger gap. Not applicable
    unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The bound, with its parts in the details.
    """
    parts = margin_bound(context, gamma, delta)
    return _peeled(parts, (parts.depth - 1) * math.log(2.0))


@proxy("golowich_2018_bound", reference="Golowich et al. 2018, theorem 1", cost="cheap")
def golowich_2018_bound(context: Context, *, gamma: float | None = None, delta: float = DELTA) -> Estimate:
    """Ramp loss + 2 (2 C / gamma) (sqrt(2 d ln 2) + 1) prod_i |A_i|_F |X|_F / n + 3 sqrt(ln(2/delta) / (2n)).

    As `neyshabur_2015_bound`, with the root of the depth in place of the power. Larger values predict a larger gap.
    Not applicable unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The bound, with its parts in the details.
    """
    parts = margin_bound(context, gamma, delta)
    return _peeled(parts, math.log(math.sqrt(2.0 * parts.depth * math.log(2.0)) + 1.0))


@proxy("neyshabur_2018_bound", reference="Neyshabur et al. 2018, theorem 1", cost="cheap")
def neyshabur_2018_bound(context: Context, *, gamma: float | None = None, delta: float = DELTA) -> Estimate:
    """Margin loss + 4 sqrt( (K + ln(6 d n^(1 + 1/(2d)) / delta)) / (n - 1) ), by PAC-Bayes.

    K = (42^2 e^2 / 2) (B d / gamma)^2 h ln(4 d h) prod_i |A_i|_s^2 sum_i |A_i|_F^2 / |A_i|_s^2, B the largest norm
    of a training input, h the largest width, d the depth; the margin loss is the share of margins of at most gamma.
    The constants are those of the proof, e^2 for norms that are known up to a factor 1 + 1/d. Covers chains of
    linear maps without biases and ReLU. Larger values predict a larger gap. Not applicable unless gamma > 0, and as
    `log_prod_of_spec`.

    Returns:
        The bound, with its parts in the details.
    """
    parts = margin_bound(context, gamma, delta)
    d, n, h = parts.depth, parts.n, parts.composition.widest
    ratios = sum((layer.frobenius / layer.sigma) ** 2 for layer in parts.layers)
    log = math.log(42.0**2 * math.e**2 / 2.0) + 2.0 * _log(largest_input(context) * d / parts.gamma)
    log += math.log(h * math.log(4.0 * d * h)) + 2.0 * parts.log_spectral + math.log(ratios)
    confidence = math.log(6.0 * d / delta) + (1.0 + 0.5 / d) * math.log(n)
    # ln(e^log + confidence), so that nothing overflows.
    top = max(log, math.log(confidence))
    total = top + math.log(math.exp(log - top) + confidence * math.exp(-top))
    loss = float((context.margins <= parts.gamma).double().mean())
    whole = math.log(4.0) + 0.5 * (total - math.log(max(n - 1, 1)))
    return parts.finished(
        loss, [whole], 0.0, peeling_obstacles(context), largest_input=largest_input(context)
    )


@proxy("graf_2022_bound_norms", reference="Graf et al. 2022, theorem 3.5, first bound", cost="cheap")
def graf_2022_bound_norms(
    context: Context, *, gamma: float | None = None, delta: float = DELTA, reference: str = "zero"
) -> Estimate:
    """Ramp loss + 2 ( 4/n + 12 H_(n-1) sqrt(ln(2W)/n) (sum_i ceil(C_i^(2/3)))^(3/2) ) + 3 sqrt(ln(2/delta)/(2n)).

    A bound that knows convolutions: C_i = (4 / gamma) (|X|_F / sqrt(n)) Lip b_i / |A_i|_s, Lip the network's
    Lipschitz constant (in a chain the product of the layers'), b_i the (2,1) norm of the kernel less that of
    `reference`: the sum over outputs and taps of norms over input channels, whatever the size of the image. W is
    the largest number of parameters of a layer, H the harmonic number. Larger values predict a larger gap. Not
    applicable unless gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The bound, with its parts in the details.
    """
    parts = margin_bound(context, gamma, delta, reference)
    n, logs = parts.n, _capacities(parts)
    widest = max(kernel.weight.numel() for kernel in parts.kernels)
    harmonic = sum(1.0 / m for m in range(1, n))
    # Above 1e15 rounding up is below the precision of a float.
    powers = [2.0 / 3.0 * log if log > 50 else _log(math.ceil(math.exp(2.0 / 3.0 * log))) for log in logs]
    total = _log_sum(powers)
    log = math.log(12.0) + _log(harmonic) + 0.5 * math.log(math.log(2.0 * widest) / n) + 1.5 * total
    return parts.rademacher([math.log(4.0 / n), log], [], reference=reference)


@proxy("graf_2022_bound_parameters", reference="Graf et al. 2022, theorem 3.5, second bound", cost="cheap")
def graf_2022_bound_parameters(
    context: Context, *, gamma: float | None = None, delta: float = DELTA, reference: str = "zero"
) -> Estimate:
    """Ramp loss + 24 sqrt( sum_i ( 2 W_i ln(1 + ceil(L^2 C_i^2)) + 2.7 ) / n ) + 3 sqrt(ln(2/delta) / (2n)).

    W_i parameters of layer i of L, C_i as in `graf_2022_bound_norms`; 2.7 is more than the function psi of the
    paper. Norms enter by their logarithms alone. Larger values predict a larger gap. Not applicable unless
    gamma > 0, and as `log_prod_of_spec`.

    Returns:
        The bound, with its parts in the details.
    """
    parts = margin_bound(context, gamma, delta, reference)
    total = 0.0
    for kernel, log in zip(parts.kernels, _capacities(parts)):
        square = 2.0 * (math.log(parts.depth) + log)
        grown = square if square > 50 else math.log1p(math.ceil(math.exp(square)))
        total += 2.0 * kernel.weight.numel() * grown + 2.7
    return parts.rademacher([math.log(12.0) + 0.5 * math.log(total / parts.n)], [], reference=reference)


def _peeled(parts: MarginBound, log_peeling: float) -> Estimate:
    """Frobenius norms of a chain, layer after layer, each of which costs what `log_peeling` says in all."""
    log = math.log(2.0 * parts.outputs / parts.gamma) + log_peeling + parts.log_frobenius
    log += parts.log_input_norm - math.log(parts.n)
    return parts.rademacher([log], peeling_obstacles(parts.context), outputs=parts.outputs)


def _capacities(parts: MarginBound) -> list[float]:
    """ln C_i of each layer."""
    import torch

    log = (
        math.log(4.0 / parts.gamma)
        + parts.log_input_norm
        - 0.5 * math.log(parts.n)
        + parts.composition.log_lipschitz
    )
    found = []
    for layer, kernel in zip(parts.layers, parts.kernels):
        norm = float(torch.linalg.vector_norm(kernel.weight, dim=1).sum())
        found.append(log + _log(norm) - math.log(layer.sigma))
    return found


def largest_input(context: Context) -> float:
    """The largest Euclidean norm of an input of the whole training set."""
    import torch

    inputs = context.inputs if context.all_inputs is None else context.all_inputs
    return float(torch.linalg.vector_norm(inputs.double().reshape(len(inputs), -1), dim=1).max())


def _log_sum(logs: list[float]) -> float:
    top = max(logs)
    return top if top == -math.inf else top + math.log(sum(math.exp(log - top) for log in logs))


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
