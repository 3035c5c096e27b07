"""How large perturbations may be until training examples are misclassified: sigma and alpha of PAC-Bayes bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapbench.proxies.ascents import ascent_seed
from gapbench.proxies.options import count
from gapbench.proxies.predictions import classified
from gapbench.proxies.results import NotApplicable
from gapbench_base.errors import NotDefined

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from gapbench.curvature.crossing import Crossing
    from gapbench.proxies.context import Context

SPAN = 4.0**10
"""Sizes are searched between the first one divided and multiplied by this (about a million)."""
FIRST = {"noise": (0.25, 0.1), "worst": (0.01, 0.01)}
"""Where searches begin, plain (in root mean squares of the parameters) and relative to magnitudes."""
TOLERANCE = 0.01
"""Of the size, within which it is interpolated."""
RISING = "the rise of the training error"
EPSILON = 1e-3
"""eps of Jiang et al. 2020: the part of a perturbation that does not scale with the weight."""


@dataclass(frozen=True)
class Size:
    """sigma or alpha, with the standard error of its logarithm (None: deterministic) and what is told of it."""

    value: float
    log_error: float | None
    details: dict[str, Any]

    def propagated(self, function: Callable[[float], float]) -> float | None:
        """The standard error of function(value), from its change over one standard error to both sides."""
        if self.log_error is None:
            return None
        up, down = (function(self.value * math.exp(s * self.log_error)) for s in (1.0, -1.0))
        return abs(up - down) / 2.0


def noise_size(context: Context, level: float, samples: int, magnitude: bool) -> Size:
    """The standard deviation sigma at which Gaussian noise raises the expected training error by `level`.

    u_i ~ N(0, sigma^2), with `magnitude` u_i ~ N(0, sigma^2 theta_i^2 + eps^2). The expectation is the mean over
    `samples` fixed directions, the same for all sigma; the error is that on `context.inputs` in eval mode.

    Returns:
        sigma; its standard error covers the directions.

    Raises:
        NotApplicable: no classes, or the level is not reached.
    """
    import torch

    from gapbench.curvature.crossing import sampled_crossing
    from gapbench.curvature.directions import FixedDirections
    from gapbench_base.seeds import named_seed

    samples = count("samples", samples, 2)
    seed = named_seed("noise of the parameters", ascent_seed(context))
    theta = context.landscape.theta()
    error, base = _error(context)

    def draw(generator: torch.Generator) -> Tensor:
        return torch.randn(len(theta), generator=generator, dtype=torch.float64).to(theta.device)

    directions = FixedDirections(draw, seed, samples)

    def rises(size: float, positions: range) -> Tensor:
        scale = (size**2 * theta.double() ** 2 + EPSILON**2).sqrt() if magnitude else size
        found = [error(theta + (scale * z).to(theta.dtype)) - base for z in directions.some(positions)]
        return torch.tensor(found, dtype=torch.float64)

    def search(level: float, start: float) -> tuple[Crossing, dict[str, Any]]:
        return sampled_crossing(rises, samples, level, start, SPAN, TOLERANCE, RISING), {"samples": samples}

    return _searched(context, search, level, "noise", magnitude, samples)


def worst_size(context: Context, level: float, steps: int, magnitude: bool) -> Size:
    """The alpha at which the worst perturbation |u_i| <= alpha raises the training error by `level`.

    With `magnitude` |u_i| <= alpha |theta_i| + eps. An upper bound, at which a perturbation that was found on the
    way to the largest loss attains `level`: half a percent below it that of largest loss that an ascent of `steps`
    signed gradient steps finds (`curvature.sharpness`) does not (`curvature.least_perturbation`). The error is
    that on `context.inputs` in eval mode.

    Returns:
        alpha, which is not sampled.

    Raises:
        NotApplicable: no classes, the level is not reached, or the gradient is not that of the loss.
    """
    import torch

    from gapbench.curvature.elementwise import Boxes
    from gapbench.curvature.least_perturbation import LeastPerturbation

    steps = count("steps", steps, 1)
    landscape = context.landscape
    theta = landscape.theta()
    error, base = _error(context)
    origin = context.shared("loss and gradient, euclidean", landscape.value_and_gradient)

    def scale(size: float) -> Tensor:
        return size * theta.abs() + EPSILON if magnitude else torch.full_like(theta, size)

    def search(level: float, start: float) -> tuple[Crossing, dict[str, Any]]:
        boxes = Boxes(landscape, scale, "linf", origin, error, base)
        least = LeastPerturbation(boxes, steps, level, start, SPAN, TOLERANCE, RISING)
        found = least.search()
        return found, {"steps": steps, "gradients": least.gradients}

    return _searched(context, search, level, "worst", magnitude, steps)


def _error(context: Context) -> tuple[Callable[[Tensor], float], float]:
    """The training error as a function of the parameters, and what it is at the network's own."""
    from gapbench.curvature.error_rate import ErrorRate

    classified(context, context.logits[:1], context.targets[:1])
    error = ErrorRate(context.landscape)
    return error, context.shared("training error on the examples", error)


def _searched(
    context: Context,
    search: Callable[[float, float], tuple[Crossing, dict[str, Any]]],
    level: float,
    kind: str,
    magnitude: bool,
    effort: int,
) -> Size:
    """Searched once for all who ask with the same options; `search`: level, first size -> what is found, effort."""
    if isinstance(level, bool) or not 0.0 < level < 1.0:
        raise ValueError(f"level = {level!r} must be between 0 and 1")
    scale = 1.0 if magnitude else _root_mean_square(context.landscape.theta())
    start = FIRST[kind][magnitude] * scale

    def once() -> tuple[Crossing, dict[str, Any]] | NotDefined:
        try:
            return search(float(level), start)
        except NotDefined as reason:
            return reason

    outcome = context.shared(f"size of {kind}, {magnitude} {level!r} {effort}", once)
    if isinstance(outcome, NotDefined):
        raise NotApplicable(str(outcome)) from outcome
    found, efforts = outcome
    name = ("sigma" if kind == "noise" else "alpha") + ("_relative" if magnitude else "")
    details = {
        name: found.value,
        "relative_error": found.log_error,
        "reached": True,
        "level": float(level),
        "trials": found.trials,
        **efforts,
    }
    return Size(found.value, found.log_error, details)


def _root_mean_square(theta: Tensor) -> float:
    return float(theta.double().pow(2).mean().sqrt()) or 1.0
