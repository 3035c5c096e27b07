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

    from gapbench_base.seeds import named_seed

    samples = count("samples", samples, 2)
    seed = named_seed("noise of the parameters", ascent_seed(context))
    theta = context.landscape.theta()
    error, base = _error(context)

    def rise(size: float) -> Tensor:
        scale = (size**2 * theta.double() ** 2 + EPSILON**2).sqrt() if magnitude else size
        generator = torch.Generator().manual_seed(seed)
        found = []
        for _ in range(samples):
            draw = torch.randn(len(theta), generator=generator, dtype=torch.float64).to(theta.device)
            found.append(error(theta + (scale * draw).to(theta.dtype)) - base)
        return torch.tensor(found, dtype=torch.float64)

    return _searched(context, rise, level, "noise", magnitude, samples)


def worst_size(context: Context, level: float, steps: int, magnitude: bool) -> Size:
    """The alpha at which the worst perturbation |u_i| <= alpha raises the training error by `level`.

    With `magnitude` |u_i| <= alpha |theta_i| + eps. The perturbation is the one of largest loss that an ascent of
    `steps` signed gradient steps finds (`curvature.sharpness`), so that alpha is an upper bound; the error is that
    on `context.inputs` in eval mode.

    Returns:
        alpha, which is not sampled.

    Raises:
        NotApplicable: no classes, the level is not reached, or the gradient is not that of the loss.
    """
    import torch

    from gapbench.curvature.elementwise import ScaledLandscape
    from gapbench.curvature.sharpness import maximise

    steps = count("steps", steps, 1)
    landscape = context.landscape
    theta = landscape.theta()
    error, base = _error(context)
    origin = context.shared("loss and gradient, euclidean", landscape.value_and_gradient)

    def rise(size: float) -> Tensor:
        scale = size * theta.abs() + EPSILON if magnitude else torch.full_like(theta, size)
        surface = ScaledLandscape(landscape, scale)
        at = (origin[0], scale * origin[1])
        try:
            best = maximise(surface, 1.0, steps, 1, torch.Generator().manual_seed(0), norm="linf", origin=at)
        except ValueError:  # a loss that is not finite on the way
            return torch.tensor([math.inf])
        return torch.tensor([error(theta + scale * best.perturbation) - base], dtype=torch.float64)

    return _searched(context, rise, level, "worst", magnitude, steps)


def _error(context: Context) -> tuple[Callable[[Tensor], float], float]:
    """The training error as a function of the parameters, and what it is at the network's own."""
    from gapbench.curvature.error_rate import ErrorRate

    classified(context, context.logits[:1], context.targets[:1])
    error = ErrorRate(context.landscape)
    return error, context.shared("training error on the examples", error)


def _searched(
    context: Context, rise: Callable[[float], Tensor], level: float, kind: str, magnitude: bool, effort: int
) -> Size:
    """Searched once for all proxies that ask with the same options."""
    from gapbench.curvature.crossing import crossing

    if isinstance(level, bool) or not 0.0 < level < 1.0:
        raise ValueError(f"level = {level!r} must be between 0 and 1")
    scale = 1.0 if magnitude else _root_mean_square(context.landscape.theta())
    start = FIRST[kind][magnitude] * scale

    def search() -> Crossing | NotDefined:
        try:
            return crossing(rise, float(level), start, SPAN, TOLERANCE, "the rise of the training error")
        except NotDefined as reason:
            return reason

    found = context.shared(f"size of {kind}, {magnitude} {level!r} {effort}", search)
    if isinstance(found, NotDefined):
        raise NotApplicable(str(found)) from found
    name = ("sigma" if kind == "noise" else "alpha") + ("_relative" if magnitude else "")
    details = {
        name: found.value,
        "relative_error": found.log_error,
        "reached": True,
        "level": float(level),
        "trials": found.trials,
        ("samples" if kind == "noise" else "steps"): effort,
    }
    return Size(found.value, found.log_error, details)


def _root_mean_square(theta: Tensor) -> float:
    return float(theta.double().pow(2).mean().sqrt()) or 1.0
