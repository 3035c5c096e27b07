"""How far the parameters may go until the loss has risen by a given amount."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.ascents import ascent_seed
from gapbench.proxies.options import count, positive
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    from torch import Tensor

    from gapbench.proxies.context import Context

SPAN = 4.0**10
"""Radii are searched between the first one divided and multiplied by this (about a million)."""
FIRST = {"worst": 0.01, "average": 0.1}
"""The first radius, as a part of the norm of the parameters."""
TOLERANCE = 0.01
"""Of the radius, within which it is interpolated."""


@proxy(
    "radius_of_rise",
    version=2,
    higher_means="better",
    reference="radius of the ball in which the maximum has risen",
)
def radius_of_rise(context: Context, *, rise: float = 0.1, steps: int = 10) -> Estimate:
    """The smallest |delta|_2 at which L(theta + delta) - L(theta) reaches `rise` nats: the worst direction.

    An upper bound, at which a direction that was found attains `rise`: half a percent below it an ascent of `steps`
    steps from the gradient (`curvature.sharpness`) finds less (`curvature.least_perturbation`). Common values of
    `rise` are 0.1 and 1. Larger values predict a smaller gap. Not applicable where the loss does not rise by that
    much within a factor of a million of a hundredth of |theta|, and where automatic differentiation does not give
    the gradient.

    Returns:
        The radius.
    """
    import torch

    from gapbench.curvature.elementwise import Boxes
    from gapbench.curvature.least_perturbation import LeastPerturbation

    rise, steps = positive("rise", rise), count("steps", steps, 1)
    landscape = context.landscape
    origin = context.shared("loss and gradient, euclidean", landscape.value_and_gradient)

    def scale(radius: float) -> Tensor:
        return torch.tensor(radius, dtype=landscape.dtype, device=landscape.device)

    balls = Boxes(landscape, scale, "l2", origin, landscape.value, origin[0])
    search = LeastPerturbation(
        balls, steps, rise, FIRST["worst"] * _norm(context), SPAN, TOLERANCE, "the rise of the loss"
    )
    found = search.search()
    effort = {"steps": steps, "trials": found.trials, "gradients": search.gradients}
    return Estimate(found.value, details={"rise": rise, **effort, "reached": True})


@proxy(
    "radius_of_average_rise", version=2, higher_means="better", reference="radius of the mean over the sphere"
)
def radius_of_average_rise(context: Context, *, rise: float = 0.1, samples: int = 10) -> Estimate:
    """The radius r at which the mean of L(theta + delta) - L(theta) over the sphere |delta|_2 = r passes `rise`.

    The mean over `samples` fixed directions in antithetic pairs, the same at every radius. Common values of `rise`
    are 0.1 and 1 nat. Larger values predict a smaller gap. Not applicable where the mean does not rise by that much
    within a factor of a million of a tenth of |theta|.

    Returns:
        The radius; its standard error covers the directions drawn.
    """
    import torch

    from gapbench.curvature.crossing import sampled_crossing
    from gapbench.curvature.directions import FixedDirections
    from gapbench.curvature.sharpness import identity, on_sphere
    from gapbench_base.seeds import named_seed

    rise, samples = positive("rise", rise), count("samples", samples, 2)
    landscape, seed = context.landscape, named_seed("radius", ascent_seed(context))
    theta, base = landscape.theta(), landscape.value()
    directions = FixedDirections(lambda generator: on_sphere(theta, 1.0, generator, identity), seed, samples)

    def rises(radius: float, positions: range) -> Tensor:
        found = []
        for direction in directions.some(positions):
            delta = radius * direction
            found.append(0.5 * (landscape.value(theta + delta) + landscape.value(theta - delta)) - base)
        return torch.tensor(found, dtype=torch.float64)

    start = FIRST["average"] * _norm(context)
    found = sampled_crossing(rises, samples, rise, start, SPAN, TOLERANCE, "the rise of the loss")
    error = None if found.log_error is None else found.value * found.log_error
    details = {"rise": rise, "samples": samples, "trials": found.trials, "reached": True}
    return Estimate(found.value, error, details)


def _norm(context: Context) -> float:
    return float(context.landscape.theta().double().norm()) or 1.0
