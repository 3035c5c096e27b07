"""Sharpness and curvature measured relative to the size of each parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapbench.proxies.ascents import Ascents, maximum_details
from gapbench.proxies.krylov import relative_control
from gapbench.proxies.options import count, coverage, group_of, norm_of
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gapbench.curvature.sharpness import Maximum
    from gapbench.proxies.context import Context


def _positive(radius: float) -> float:
    if not radius > 0:
        raise ValueError(f"radius = {radius!r} must be positive")
    return float(radius)


def _ascents(context: Context, radius: float, norm: str, steps: int, restarts: int) -> Ascents:
    from gapbench.curvature.elementwise import ElementwiseLandscape

    steps, restarts = count("steps", steps, 1), count("restarts", restarts, 1)
    surface = ElementwiseLandscape(context.landscape)
    return Ascents(
        context,
        "relative",
        surface,
        lambda: context.symmetry.project_relative,
        _positive(radius),
        steps,
        restarts,
        norm_of(norm),
    )


def _details(best: Maximum, ascents: Ascents) -> dict[str, Any]:
    found = maximum_details(best, ascents.radius, ascents.steps, ascents.restarts)
    return found | {"norm": ascents.norm}


@proxy(
    "sharpness_adaptive",
    version=3,
    reference="Kwon et al. 2021; Andriushchenko et al. 2023, eq. 2",
    cost="dear",
    central=True,
)
def sharpness_adaptive(
    context: Context, *, radius: float = 0.1, norm: str = "l2", steps: int = 20, restarts: int = 1
) -> Estimate:
    """max over |delta / |theta|| <= radius of L(theta + delta) - L(theta), in the norm "l2" or "linf".

    Unchanged by rescalings of units; zero parameters stay zero. A lower bound of the maximum, as in
    `sharpness_full`; the last ascent starts from the maximiser of `sharpness_adaptive_quotient`.

    Returns:
        The rise, with effort and convergence in the details.
    """
    ascents = _ascents(context, radius, norm, steps, restarts)
    best = ascents.full()
    return Estimate(best.value, details=_details(best, ascents))


@proxy(
    "sharpness_adaptive_quotient",
    version=3,
    reference="Kwon et al. 2021, orthogonal to the exponents of all rescalings",
    cost="dear",
)
def sharpness_adaptive_quotient(
    context: Context, *, radius: float = 0.1, norm: str = "l2", steps: int = 20, restarts: int = 1
) -> Estimate:
    """`sharpness_adaptive` over perturbations whose ratios delta / |theta| are orthogonal to all rescalings.

    An invariant of rescalings of units and of output scales of normalisations, as is the adaptive metric. The last
    ascent starts from the projection of the full space's own maximiser.

    Returns:
        The rise, with effort, convergence and what was divided by in the details.
    """
    symmetry = group_of(context)
    ascents = _ascents(context, radius, norm, steps, restarts)
    best = ascents.quotient()
    details = {"rescalings": symmetry.rescalings, "coverage": coverage(symmetry)}
    return Estimate(best.value, details=_details(best, ascents) | details)


@proxy("sharpness_average_adaptive", version=2, reference="Andriushchenko et al. 2023, section 2")
def sharpness_average_adaptive(
    context: Context, *, radius: float = 0.1, norm: str = "l2", samples: int = 20
) -> Estimate:
    """Mean rise under delta ~ N(0, radius^2 theta^2) ("l2") or uniform in |delta_i| <= radius |theta_i| ("linf").

    Returns:
        The mean over antithetic pairs, with a control variate as in `sharpness_average_full`; the standard error
        covers the perturbations drawn.
    """
    import torch

    from gapbench.curvature.averages import average
    from gapbench.curvature.elementwise import ElementwiseLandscape

    radius, norm = _positive(radius), norm_of(norm)
    surface = ElementwiseLandscape(context.landscape)

    def draw(generator: torch.Generator) -> Tensor:
        size = (context.landscape.dimension,)
        if norm == "linf":
            values = torch.rand(size, generator=generator, dtype=torch.float64) * 2 - 1
        else:
            values = torch.randn(size, generator=generator, dtype=torch.float64)
        return (radius * values).to(device=surface.origin.device, dtype=surface.origin.dtype)

    samples = count("samples", samples, 2)
    control = relative_control(context, samples, 1.0 if norm == "l2" else 1.0 / 3.0)
    found = average(surface, radius, samples, context.generator, draw=draw, control=control)
    details = {"radius": radius, "norm": norm, "samples": samples, "control_variate": control is not None}
    return Estimate(found.value, found.standard_error, details)


@proxy("adaptive_trace", version=3, reference="Tsuzuku et al. 2020; sum of theta_i^2 H_ii", cost="dear")
def adaptive_trace(context: Context, *, probes: int = 32, exact_below: int = 4096) -> Estimate:
    """sum_i theta_i^2 H_ii, the trace of the Hessian relative to each parameter.

    Unchanged by rescalings of units. Exact for networks that are piecewise affine in each parameter tensor and
    for at most `exact_below` parameters; otherwise the exact Gauss-Newton part plus Hutchinson's estimate
    of the rest with `probes` Rademacher vectors, whose standard error is given.

    Returns:
        The trace; the details name the method.
    """
    from gapbench.curvature.trace import adaptive_trace as trace_of

    found = trace_of(context.landscape, context.generator, count("probes", probes, 2), int(exact_below))
    details = {"method": found.method, "gauss_newton_trace": found.gauss_newton, **found.details}
    return Estimate(found.value, found.standard_error, details)
