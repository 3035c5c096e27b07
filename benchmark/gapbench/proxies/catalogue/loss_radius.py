"""How far the parameters may go until the loss has risen by a given amount."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.ascents import ascent_seed
from gapbench.proxies.options import count, positive
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from gapbench.curvature.crossing import Crossing
    from gapbench.proxies.context import Context

SPAN = 4.0**10
"""Radii are searched between the first one divided and multiplied by this (about a million)."""
FIRST = {"worst": 0.01, "average": 0.1}
"""The first radius, as a part of the norm of the parameters."""
TOLERANCE = 0.01
"""Of the radius, within which it is interpolated."""


@proxy("radius_of_rise", higher_means="better", reference="radius of the ball in which the maximum has risen")
def radius_of_rise(context: Context, *, rise: float = 0.1, steps: int = 10) -> Estimate:
    """The smallest |delta|_2 at which L(theta + delta) - L(theta) reaches `rise` nats: the worst direction.

    The radius at which the maximum over the ball, found by an ascent of `steps` steps from the gradient
    (`curvature.sharpness`), passes `rise`: an upper bound. Common values of `rise` are 0.1 and 1. Larger values
    predict a smaller gap. Not applicable where the loss does not rise by that much within a factor of a million of
    a hundredth of |theta|, and where automatic differentiation does not give the gradient.

    Returns:
        The radius.
    """
    import torch

    from gapbench.curvature.sharpness import maximise

    rise, steps = positive("rise", rise), count("steps", steps, 1)
    landscape = context.landscape
    origin = context.shared("loss and gradient, euclidean", landscape.value_and_gradient)

    def largest(radius: float) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        try:
            best = maximise(landscape, radius, steps, 1, generator, origin=origin)
        except ValueError:  # a loss that is not finite on the way
            return torch.tensor([math.inf])
        return torch.tensor([best.value], dtype=torch.float64)

    found = _crossing(context, largest, rise, "worst")
    return Estimate(
        found.value, details={"rise": rise, "steps": steps, "trials": found.trials, "reached": True}
    )


@proxy("radius_of_average_rise", higher_means="better", reference="radius of the mean over the sphere")
def radius_of_average_rise(context: Context, *, rise: float = 0.1, samples: int = 10) -> Estimate:
    """The radius r at which the mean of L(theta + delta) - L(theta) over the sphere |delta|_2 = r passes `rise`.

    The mean over `samples` fixed directions in antithetic pairs, the same at every radius. Common values of `rise`
    are 0.1 and 1 nat. Larger values predict a smaller gap. Not applicable where the mean does not rise by that much
    within a factor of a million of a tenth of |theta|.

    Returns:
        The radius; its standard error covers the directions drawn.
    """
    import torch

    from gapbench.curvature.sharpness import identity, on_sphere
    from gapbench_base.seeds import named_seed

    rise, samples = positive("rise", rise), count("samples", samples, 2)
    landscape, seed = context.landscape, named_seed("radius", ascent_seed(context))
    theta, base = landscape.theta(), landscape.value()

    def mean(radius: float) -> Tensor:
        generator, found = torch.Generator().manual_seed(seed), []
        for _ in range(samples):
            delta = on_sphere(theta, radius, generator, identity)
            found.append(0.5 * (landscape.value(theta + delta) + landscape.value(theta - delta)) - base)
        return torch.tensor(found, dtype=torch.float64)

    found = _crossing(context, mean, rise, "average")
    error = None if found.log_error is None else found.value * found.log_error
    details = {"rise": rise, "samples": samples, "trials": found.trials, "reached": True}
    return Estimate(found.value, error, details)


def _crossing(context: Context, rise: Callable[[float], Tensor], level: float, kind: str) -> Crossing:
    from gapbench.curvature.crossing import crossing

    norm = float(context.landscape.theta().double().norm()) or 1.0
    return crossing(rise, level, FIRST[kind] * norm, SPAN, TOLERANCE, "the rise of the loss")
