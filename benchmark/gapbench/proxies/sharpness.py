"""How much the loss rises in a Euclidean ball or on a sphere around the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


def _radius(radius: float, relative_radius: float | None) -> float:
    if relative_radius is not None:
        raise ValueError(
            "relative_radius is a fraction of the balanced parameter norm, which needs the network's "
            "symmetries; these are not available yet. Give an absolute radius."
        )
    if not radius > 0:
        raise ValueError(f"radius = {radius!r} must be positive")
    return float(radius)


def _count(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or int(value) != value or value < least:
        raise ValueError(f"{name} = {value!r} must be a whole number of at least {least}")
    return int(value)


@proxy("sharpness_full", reference="Keskar et al. 2017; Foret et al. 2021, eq. 1")
def sharpness_full(
    context: Context,
    *,
    radius: float = 0.1,
    relative_radius: float | None = None,
    steps: int = 20,
    restarts: int = 1,
) -> Estimate:
    """max over |delta|_2 <= radius of L(theta + delta) - L(theta), by projected gradient ascent.

    A lower bound of the maximum: the best of `restarts` ascents of `steps` steps, the first from the
    gradient's direction, the others from random points of the sphere. `details["gain_from_doubling"]` is what
    the second half of the steps added, relative to the value.
    """
    from gapbench.curvature.sharpness import maximise

    best = maximise(
        context.landscape,
        _radius(radius, relative_radius),
        _count("steps", steps, 1),
        _count("restarts", restarts, 1),
        context.generator,
    )
    gain = (best.value - best.halfway) / best.value if best.value > 0 else 0.0
    return Estimate(
        best.value,
        details={
            "radius": radius,
            "steps": steps,
            "restarts": restarts,
            "gain_from_doubling": gain,
            "ascents": best.starts,
            "gradients": best.gradients,
        },
    )


@proxy("sharpness_average_full", reference="Andriushchenko et al. 2023; Jiang et al. 2020 (PAC-Bayes)")
def sharpness_average_full(
    context: Context, *, radius: float = 0.1, relative_radius: float | None = None, samples: int = 50
) -> Estimate:
    """Mean of L(theta + delta) - L(theta) over the sphere |delta|_2 = radius, in antithetic pairs.

    `samples` counts pairs. The standard error covers the directions drawn, not the choice of examples.
    """
    from gapbench.curvature.sharpness import average

    found = average(
        context.landscape,
        _radius(radius, relative_radius),
        _count("samples", samples, 2),
        context.generator,
    )
    return Estimate(found.value, found.standard_error, {"radius": radius, "samples": samples})
