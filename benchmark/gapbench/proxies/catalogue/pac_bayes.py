"""PAC-Bayes bounds and flatness by perturbations that raise the training error by a given amount.

sigma is the standard deviation (not the variance) of Gaussian noise on all parameters under which the expected
training error rises by `level`, alpha the largest |u_i| of the worst perturbation that does so. "mag" stands for
perturbations in proportion to each parameter: of variance sigma^2 theta_i^2 + eps^2, and up to
alpha |theta_i| + eps, with eps = 0.001. Both are searched continuously (`proxies.perturbation_sizes`), once for all
proxies here, within a factor of a million of where the search begins; where the error does not rise by `level`, or
has done so at the smallest size, nothing is applicable. The error is that of `context.inputs` in eval mode, m the
size of the whole training set, omega the number of parameters, each shared one counted once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.perturbation_sizes import EPSILON, Size, noise_size, worst_size
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from gapbench.proxies.context import Context

LEVEL, SAMPLES, STEPS = 0.1, 20, 10


@proxy("pacbayes_flatness", version=2, reference="Jiang et al. 2020, eq. 53", central=True)
def pacbayes_flatness(context: Context, *, level: float = LEVEL, samples: int = SAMPLES) -> Estimate:
    """1 / sigma^2.

    Larger values predict a larger gap. Not applicable without classes, and where the level is not reached.

    Returns:
        The value with the standard error of `samples` directions.
    """
    return _estimate(noise_size(context, level, samples, magnitude=False), _inverse_square)


@proxy("pacbayes_orig", version=2, reference="Jiang et al. 2020, eq. 49")
def pacbayes_orig(context: Context, *, level: float = LEVEL, samples: int = SAMPLES) -> Estimate:
    """sqrt( ( |theta|^2 / (4 sigma^2) + ln(m / sigma) + 10 ) / m ).

    Larger values predict a larger gap. Not applicable as `pacbayes_flatness`.

    Returns:
        The value with the standard error of `samples` directions.
    """
    size = noise_size(context, level, samples, magnitude=False)
    return _bound(context, size, _gaussian(_squared(_theta(context))))


@proxy("pacbayes_init", version=2, reference="Jiang et al. 2020, eq. 48", needs=("initial",))
def pacbayes_init(context: Context, *, level: float = LEVEL, samples: int = SAMPLES) -> Estimate:
    """sqrt( ( |theta - theta_0|^2 / (4 sigma^2) + ln(m / sigma) + 10 ) / m ).

    Larger values predict a larger gap. Not applicable as `pacbayes_flatness`.

    Returns:
        The value with the standard error of `samples` directions.
    """
    moved = _moved(context)
    size = noise_size(context, level, samples, magnitude=False)
    return _bound(context, size, _gaussian(_squared(moved)))


@proxy("pacbayes_mag_flatness", version=2, reference="Jiang et al. 2020, eq. 61", central=True)
def pacbayes_mag_flatness(context: Context, *, level: float = LEVEL, samples: int = SAMPLES) -> Estimate:
    """1 / sigma'^2, noise in proportion to each parameter.

    Larger values predict a larger gap. Not applicable as `pacbayes_flatness`.

    Returns:
        The value with the standard error of `samples` directions.
    """
    return _estimate(noise_size(context, level, samples, magnitude=True), _inverse_square)


@proxy("pacbayes_mag_orig", version=2, reference="Jiang et al. 2020, eq. 57", needs=("initial",))
def pacbayes_mag_orig(context: Context, *, level: float = LEVEL, samples: int = SAMPLES) -> Estimate:
    """`pacbayes_mag_init` with |theta|^2 / omega in the numerator; the denominator keeps theta_i - theta_0,i.

    Larger values predict a larger gap. Not applicable as `pacbayes_flatness`, and where the sum under the root is
    negative.

    Returns:
        The value with the standard error of `samples` directions.
    """
    moved = _moved(context)
    size = noise_size(context, level, samples, magnitude=True)
    return _bound(context, size, _relative(_squared(_theta(context)), moved, 1.0))


@proxy("pacbayes_mag_init", version=2, reference="Jiang et al. 2020, eq. 56", needs=("initial",))
def pacbayes_mag_init(context: Context, *, level: float = LEVEL, samples: int = SAMPLES) -> Estimate:
    """sqrt( ( sum_i ln(a / b_i) / 4 + ln(m / sigma') + 10 ) / m ).

    a = eps^2 + (sigma'^2 + 1) |theta - theta_0|^2 / omega, b_i = eps^2 + sigma'^2 (theta_i - theta_0,i)^2. Larger
    values predict a larger gap. Not applicable as `pacbayes_flatness`.

    Returns:
        The value with the standard error of `samples` directions.
    """
    moved = _moved(context)
    size = noise_size(context, level, samples, magnitude=True)
    return _bound(context, size, _relative(_squared(moved), moved, 1.0))


@proxy("sharpness_flatness", version=2, reference="Jiang et al. 2020, eq. 52", cost="dear")
def sharpness_flatness(context: Context, *, level: float = LEVEL, steps: int = STEPS) -> Estimate:
    """1 / alpha^2.

    An upper bound of alpha, at which a perturbation that was found attains `level`; half a percent below it the
    perturbation of largest loss found by `steps` signed gradient steps does not. Larger values predict a larger
    gap. Not applicable as `pacbayes_flatness`, and where the gradient is not that of the loss.

    Returns:
        The value.
    """
    return _estimate(worst_size(context, level, steps, magnitude=False), _inverse_square)


@proxy("sharpness_orig", version=2, reference="Jiang et al. 2020, eq. 51", cost="dear")
def sharpness_orig(context: Context, *, level: float = LEVEL, steps: int = STEPS) -> Estimate:
    """sqrt( ( |theta|^2 ln(2 omega) / (4 alpha^2) + ln(m / alpha) + 10 ) / m ).

    Larger values predict a larger gap. Not applicable as `sharpness_flatness`.

    Returns:
        The value.
    """
    size = worst_size(context, level, steps, magnitude=False)
    theta = _theta(context)
    return _bound(context, size, _gaussian(_squared(theta) * math.log(2 * len(theta))))


@proxy("sharpness_init", version=2, reference="Jiang et al. 2020, eq. 50", needs=("initial",), cost="dear")
def sharpness_init(context: Context, *, level: float = LEVEL, steps: int = STEPS) -> Estimate:
    """sqrt( ( |theta - theta_0|^2 ln(2 omega) / (4 alpha^2) + ln(m / alpha) + 10 ) / m ).

    Larger values predict a larger gap. Not applicable as `sharpness_flatness`.

    Returns:
        The value.
    """
    moved = _moved(context)
    size = worst_size(context, level, steps, magnitude=False)
    return _bound(context, size, _gaussian(_squared(moved) * math.log(2 * len(moved))))


@proxy(
    "sharpness_mag_flatness",
    version=2,
    reference="Jiang et al. 2020, appendix (magnitude-aware sharpness)",
    cost="dear",
    central=True,
)
def sharpness_mag_flatness(context: Context, *, level: float = LEVEL, steps: int = STEPS) -> Estimate:
    """1 / alpha'^2, the worst perturbation in proportion to each parameter.

    Larger values predict a larger gap. Not applicable as `sharpness_flatness`.

    Returns:
        The value.
    """
    return _estimate(worst_size(context, level, steps, magnitude=True), _inverse_square)


@proxy(
    "sharpness_mag_orig", version=2, reference="Jiang et al. 2020, eq. 59", needs=("initial",), cost="dear"
)
def sharpness_mag_orig(
    context: Context, *, level: float = LEVEL, steps: int = STEPS, delta: float = 0.05
) -> Estimate:
    """`sharpness_mag_init` with |theta|^2 / omega in the numerator; the denominator keeps theta_i - theta_0,i.

    Larger values predict a larger gap. Not applicable as `sharpness_flatness`, and where the sum under the root is
    negative.

    Returns:
        The value.
    """
    moved = _moved(context)
    size = worst_size(context, level, steps, magnitude=True)
    return _bound(context, size, _relative(_squared(_theta(context)), moved, _union(moved, delta)))


@proxy(
    "sharpness_mag_init", version=2, reference="Jiang et al. 2020, eq. 58", needs=("initial",), cost="dear"
)
def sharpness_mag_init(
    context: Context, *, level: float = LEVEL, steps: int = STEPS, delta: float = 0.05
) -> Estimate:
    """sqrt( ( sum_i ln(a / b_i) / 4 + ln(m / alpha') + 10 ) / m ).

    a = eps^2 + (alpha'^2 + 4 ln(2 omega / delta)) |theta - theta_0|^2 / omega,
    b_i = eps^2 + alpha'^2 (theta_i - theta_0,i)^2. Larger values predict a larger gap. Not applicable as
    `sharpness_flatness`. The factor 4 and the place of `delta` are as in public code; they are not verified in the
    paper's text.

    Returns:
        The value.
    """
    moved = _moved(context)
    size = worst_size(context, level, steps, magnitude=True)
    return _bound(context, size, _relative(_squared(moved), moved, _union(moved, delta)))


def _inverse_square(size: float) -> float:
    return 1.0 / size**2


def _theta(context: Context) -> Tensor:
    return context.landscape.theta().double()


def _moved(context: Context) -> Tensor:
    """theta - theta_0 (d,) in float64."""
    import torch

    pairs = zip(context.parameters, context.require_initial().parameters(), strict=True)
    return torch.cat([(p.double() - q.detach().double()).reshape(-1) for p, q in pairs])


def _squared(vector: Tensor) -> float:
    return float(vector @ vector)


def _gaussian(squared: float) -> Callable[[float], float]:
    """The divergence of two Gaussians of equal width whose means are apart."""
    return lambda size: squared / (4.0 * size**2)


def _relative(squared: float, moved: Tensor, extra: float) -> Callable[[float], float]:
    """sum_i ln(a / b_i) / 4, a = eps^2 + (size^2 + extra) squared / omega, b_i = eps^2 + size^2 moved_i^2."""

    def divergence(size: float) -> float:
        largest = math.log(EPSILON**2 + (size**2 + extra) * squared / len(moved))
        return 0.25 * float((largest - (EPSILON**2 + size**2 * moved**2).log()).sum())

    return divergence


def _union(moved: Tensor, delta: float) -> float:
    if isinstance(delta, bool) or not 0.0 < delta < 1.0:
        raise ValueError(f"delta = {delta!r} must be between 0 and 1")
    return 4.0 * math.log(2 * len(moved) / delta)


def _bound(context: Context, size: Size, divergence: Callable[[float], float]) -> Estimate:
    """sqrt( ( divergence + ln(m / size) + 10 ) / m )."""
    m = context.train_size

    def under_the_root(at: float) -> float:
        return (divergence(at) + math.log(m / at) + 10.0) / m

    if under_the_root(size.value) < 0:
        raise NotApplicable(f"the sum under the root is {under_the_root(size.value):.4g}, not positive")
    return _estimate(size, lambda at: math.sqrt(max(under_the_root(at), 0.0)), m=m)


def _estimate(size: Size, function: Callable[[float], float], **details: object) -> Estimate:
    return Estimate(function(size.value), size.propagated(function), {**size.details, **details})
