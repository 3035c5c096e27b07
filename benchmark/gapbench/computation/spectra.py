"""Singular values of layers' weights as they are, and exponents of power laws fitted to their squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

EQUAL = 1e-9  # mean logarithm of ratios at which values are equal but for rounding


def weight_matrices(network: nn.Module) -> dict[str, Tensor]:
    """Weights of linear layers and convolutions, one for each parameter, as matrices in float64.

    (out, in) of linear layers, (out, in / groups x taps) of convolutions; of transposed ones (in, out / groups x
    taps). Weights that are computed from others (weight normalisation) are none of these.

    Returns:
        Matrices by the parameter's name, in the order of the parameters.
    """
    names = {id(p): name for name, p in network.named_parameters()}
    found = {}
    for module in network.modules():
        weight = module._parameters.get("weight")
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd) and weight is not None:
            found[names[id(weight)]] = weight.detach().double().reshape(len(weight), -1)
    return {name: found[name] for name, _ in network.named_parameters() if name in found}


def singular_values(matrix: Tensor) -> Tensor:
    """All of them, in descending order."""
    values: Tensor = torch.linalg.svdvals(matrix)
    return values


def hill_exponent(values: Tensor, share: float) -> float:
    """Hill's estimate of alpha in the density x^-alpha from the largest values (at least 2 of them).

    alpha = 1 + k / sum_{i <= k} ln(x_i / x_{k+1}), x_1 >= x_2 >= ..., k the whole part of `share` times their
    number, at least 1 and at most their number less 1.

    Returns:
        The exponent, infinite where the largest values are equal.
    """
    ordered = values.sort(descending=True).values
    k = min(max(1, int(share * len(ordered))), len(ordered) - 1)
    total = float((ordered[:k] / ordered[k]).log().sum())
    return 1.0 + k / total if total > EQUAL * k else math.inf


@dataclass(frozen=True)
class PowerLaw:
    """Density x^-alpha from `least` on; `distance` is Kolmogorov's and Smirnov's, `count` how many values."""

    alpha: float
    least: float
    distance: float
    count: int


def power_law(values: Tensor, fewest: int = 2) -> PowerLaw | None:
    """The power law that fits the tail of the values best (Clauset, Shalizi and Newman 2009).

    For each of the values as the least one, alpha = 1 + n / sum ln(x_i / x_min) by maximum likelihood over the n
    values from there on; of these laws the one whose distribution is nearest to that of the values. At least
    `fewest` values are kept.

    Returns:
        The law; None where there is none.
    """
    x = values[values > 0].double().sort().values
    best = None
    for start in range(len(x) - fewest + 1):
        tail = x[start:]
        total = float((tail / tail[0]).log().sum())
        n = len(tail)
        if total <= EQUAL * n:
            continue
        alpha = 1.0 + n / total
        model = 1.0 - (tail / tail[0]) ** (1.0 - alpha)
        steps = torch.arange(n, dtype=torch.float64, device=x.device)
        distance = float(torch.maximum(model - steps / n, (steps + 1) / n - model).max())
        if best is None or distance < best.distance:
            best = PowerLaw(alpha, float(tail[0]), distance, n)
    return best
