"""How much the loss rises in boxes, under noise on every coordinate, in single batches and along the gradient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.ascents import maximum_details
from gapbench.proxies.krylov import coordinate_control
from gapbench.proxies.options import count, norm_of, positive
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gapbench.curvature.sharpness import Maximum
    from gapbench.proxies.context import Context


@proxy("keskar_sharpness", reference="Keskar et al. 2017, metric 2.1", central=True)
def keskar_sharpness(
    context: Context, *, epsilon: float = 1e-3, steps: int = 20, restarts: int = 1
) -> Estimate:
    """100 (max L(theta + delta) - L(theta)) / (1 + L(theta)) over |delta_i| <= epsilon (|theta_i| + 1), in percent.

    All of space (A = I in the paper), by ascents of signed gradient steps where the paper has L-BFGS-B: a lower
    bound of the maximum, never negative. Larger values predict a larger gap. Not applicable where automatic
    differentiation does not give the gradient.

    Returns:
        The percentage, with effort and convergence as in `sharpness_full`.
    """
    epsilon = positive("epsilon", epsilon)
    sizes = epsilon * (context.landscape.theta().abs() + 1.0)
    best = _in_box(context, sizes, steps, restarts)
    loss = _origin(context)[0]
    value = 100.0 * best.value / (1.0 + loss)
    return Estimate(value, details=maximum_details(best, epsilon, int(steps), int(restarts)) | {"loss": loss})


@proxy("sharpness_linf", reference="Andriushchenko et al. 2023, section 2")
def sharpness_linf(context: Context, *, radius: float = 1e-3, steps: int = 20, restarts: int = 1) -> Estimate:
    """max over |delta_i| <= radius of L(theta + delta) - L(theta), the same for every coordinate.

    By ascents of signed gradient steps: a lower bound of the maximum, never negative. In the Euclidean ball it is
    `sharpness_full`, relative to each parameter `sharpness_adaptive` with norm = "linf". Larger values predict a
    larger gap. Not applicable where automatic differentiation does not give the gradient.

    Returns:
        The rise, with effort and convergence as in `sharpness_full`.
    """
    import torch

    radius = positive("radius", radius)
    best = _in_box(context, torch.full_like(context.landscape.theta(), radius), steps, restarts)
    return Estimate(best.value, details=maximum_details(best, radius, int(steps), int(restarts)))


@proxy(
    "sharpness_average_gaussian",
    version=2,
    reference="Andriushchenko et al. 2023, section 2; Jiang et al. 2020 (PAC-Bayes)",
)
def sharpness_average_gaussian(context: Context, *, sigma: float = 0.01, samples: int = 20) -> Estimate:
    """Mean of L(theta + delta) - L(theta) over delta_i ~ N(0, sigma^2), in antithetic pairs.

    sigma is the standard deviation of every coordinate, so that the value does not fall with the number of
    parameters as that over a sphere of fixed radius (`sharpness_average_full`) does. `samples` counts pairs, with a
    control variate as there. Larger values predict a larger gap; it may be negative.

    Returns:
        The mean; its standard error covers the perturbations drawn, not the choice of examples.
    """
    import torch

    from gapbench.curvature.averages import average

    sigma, samples = positive("sigma", sigma), count("samples", samples, 2)
    landscape = context.landscape

    def draw(generator: torch.Generator) -> Tensor:
        values = torch.randn(landscape.dimension, generator=generator, dtype=torch.float64)
        return (sigma * values).to(device=landscape.device, dtype=landscape.dtype)

    control = coordinate_control(context, samples)
    found = average(landscape, sigma, samples, context.generator, draw=draw, control=control)
    details = {"sigma": sigma, "samples": samples, "control_variate": control is not None}
    return Estimate(found.value, found.standard_error, details)


@proxy("m_sharpness", reference="Foret et al. 2021, section 4.1; Andriushchenko et al. 2023, eq. 1")
def m_sharpness(
    context: Context, *, radius: float = 0.1, m: int = 32, steps: int = 20, norm: str = "l2"
) -> Estimate:
    """Mean over batches of max over |delta| <= radius of L_B(theta + delta) - L_B(theta).

    Each batch of `m` examples, in their order, is maximised on its own, by one ascent from its gradient; the
    last one counts by its size. `norm` is "l2" or "linf". With all examples in one batch it is `sharpness_full`
    without `quotient_start`; smaller batches give no smaller values, but for ascents that have not converged.
    Larger values predict a larger gap. Not applicable where examples meet in the network, and where automatic
    differentiation does not give the gradient.

    Returns:
        The mean rise.
    """
    return _by_batches(context, positive("radius", radius), m, steps, norm_of(norm), relative=False)


@proxy("m_sharpness_adaptive", reference="Andriushchenko et al. 2023, eq. 2")
def m_sharpness_adaptive(
    context: Context, *, radius: float = 0.1, m: int = 32, steps: int = 20, norm: str = "l2"
) -> Estimate:
    """Mean over batches of max over |delta / |theta|| <= radius of L_B(theta + delta) - L_B(theta).

    As `m_sharpness`, relative to each parameter: no positive rescaling of units changes it. Larger values predict a
    larger gap. Not applicable as `m_sharpness`.

    Returns:
        The mean rise.
    """
    return _by_batches(context, positive("radius", radius), m, steps, norm_of(norm), relative=True)


@proxy("sam_one_step", reference="Foret et al. 2021, eq. 2")
def sam_one_step(context: Context, *, radius: float = 0.05) -> Estimate:
    """L(theta + radius g / |g|_2) - L(theta), g the gradient: the one step that SAM takes.

    Larger values predict a larger gap; it may be negative where a step is too long. Not applicable where the
    gradient vanishes or automatic differentiation does not give it.

    Returns:
        The rise, with the gradient's norm in the details.

    Raises:
        NotApplicable: the gradient vanishes.
    """
    import torch

    radius = positive("radius", radius)
    loss, gradient = _origin(context)
    length = float(torch.linalg.vector_norm(gradient))
    if not length > 0:
        raise NotApplicable("the gradient vanishes")
    landscape = context.landscape
    value = landscape.value(landscape.theta() + gradient * (radius / length)) - loss
    return Estimate(value, details={"radius": radius, "gradient_norm": length})


def _origin(context: Context) -> tuple[float, Tensor]:
    return context.shared("loss and gradient, euclidean", context.landscape.value_and_gradient)


def _in_box(context: Context, sizes: Tensor, steps: int, restarts: int) -> Maximum:
    """max over |delta_i| <= sizes_i."""
    from gapbench.curvature.elementwise import ScaledLandscape
    from gapbench.curvature.sharpness import maximise

    steps, restarts = count("steps", steps, 1), count("restarts", restarts, 1)
    loss, gradient = _origin(context)
    surface = ScaledLandscape(context.landscape, sizes)
    origin = (loss, sizes * gradient)
    return maximise(surface, 1.0, steps, restarts, context.generator, norm="linf", origin=origin)


def _by_batches(context: Context, radius: float, m: int, steps: int, norm: str, relative: bool) -> Estimate:
    """The mean of the maxima of batches, each from its own gradient."""
    from gapbench.curvature.elementwise import ElementwiseLandscape
    from gapbench.curvature.parts import parts_of
    from gapbench.curvature.sharpness import maximise

    m, steps = count("m", m, 1), count("steps", steps, 1)
    total, rises, converged = 0.0, [], True
    for part in parts_of(context.landscape, m):
        surface = ElementwiseLandscape(part) if relative else part
        best = maximise(surface, radius, steps, 1, context.generator, norm=norm)
        total += best.value * len(part.inputs)
        rises.append(best.value)
        converged = converged and bool(maximum_details(best, radius, steps, 1)["converged"])
    value = total / len(context.inputs)
    details = {"radius": radius, "norm": norm, "m": m, "steps": steps, "converged": converged}
    return Estimate(value, details=details | {"batches": len(rises), "largest": max(rises, default=math.nan)})
