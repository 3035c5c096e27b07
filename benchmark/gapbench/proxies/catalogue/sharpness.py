"""How much the loss rises in a Euclidean ball or on a sphere, of all directions or of the horizontal ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.ascents import Ascents, maximum_details
from gapbench.proxies.krylov import sphere_control
from gapbench.proxies.options import count, group_of, orbit_details, radius_of
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


def _ascents(context: Context, radius: float, steps: int, restarts: int) -> Ascents:
    steps, restarts = count("steps", steps, 1), count("restarts", restarts, 1)
    return Ascents(
        context, "euclidean", context.landscape, lambda: context.symmetry.project, radius, steps, restarts
    )


@proxy(
    "sharpness_full",
    version=4,
    reference="Keskar et al. 2017; Foret et al. 2021, eq. 1",
    cost="dear",
    central=True,
)
def sharpness_full(
    context: Context,
    *,
    radius: float = 0.1,
    relative_radius: float | None = None,
    steps: int = 20,
    restarts: int = 1,
    quotient_start: bool = True,
) -> Estimate:
    """max over |delta|_2 <= radius of L(theta + delta) - L(theta), by ascents along the linearised loss.

    A lower bound of the maximum: the best of `restarts` ascents of `steps` steps, the first from the
    gradient's direction, the others from random points of the sphere, and of one of half as many steps from the
    maximiser of `sharpness_quotient`, so that the quotient's value is never larger; without `quotient_start` that
    one, which needs the network's symmetries, is left out. `details["gain_from_doubling"]` is what
    the second half of the steps added, relative to the value before; where it is above 5 %,
    `details["converged"]` is False.

    Returns:
        The rise, with effort and convergence in the details.
    """
    radius = radius_of(context, radius, relative_radius)
    ascents = _ascents(context, radius, steps, restarts)
    best = ascents.full() if quotient_start else ascents.own()
    return Estimate(best.value, details=maximum_details(best, radius, ascents.steps, ascents.restarts))


@proxy(
    "sharpness_quotient",
    version=3,
    reference="maximum within the orthogonal complement of the symmetry orbit",
    cost="dear",
    central=True,
)
def sharpness_quotient(
    context: Context,
    *,
    radius: float = 0.1,
    relative_radius: float | None = None,
    steps: int = 20,
    restarts: int = 1,
) -> Estimate:
    """max over |delta|_2 <= radius, delta orthogonal to the orbit at theta, of L(theta + delta) - L(theta).

    The orbit is that of the continuous symmetries found in the network (`gapbench.symmetry`); its dimension k,
    the share k / d, the certificate's error and the make-up are reported. As many ascents and steps as in
    `sharpness_full`, whose value is never smaller; the last from the projection of the full space's own maximiser.

    Returns:
        The rise, with effort, convergence and the orbit in the details.
    """
    group_of(context)
    radius = radius_of(context, radius, relative_radius)
    ascents = _ascents(context, radius, steps, restarts)
    best = ascents.quotient()
    details = maximum_details(best, radius, ascents.steps, ascents.restarts) | orbit_details(context)
    return Estimate(best.value, details=details)


@proxy(
    "sharpness_average_full",
    version=3,
    reference="Andriushchenko et al. 2023; Jiang et al. 2020 (PAC-Bayes)",
    central=True,
)
def sharpness_average_full(
    context: Context, *, radius: float = 0.1, relative_radius: float | None = None, samples: int = 20
) -> Estimate:
    """Mean of L(theta + delta) - L(theta) over the sphere |delta|_2 = radius, in antithetic pairs.

    `samples` counts pairs. The quadratic form of the Hessian on a Krylov space, whose mean over the sphere is
    known, is a control variate; it changes the standard error, not the expectation.

    Returns:
        The mean; its standard error covers the directions drawn, not the choice of examples.
    """
    from gapbench.curvature.averages import average

    radius = radius_of(context, radius, relative_radius)
    samples = count("samples", samples, 2)
    control = sphere_control(context, samples, horizontal=False)
    found = average(context.landscape, radius, samples, context.generator, control=control)
    return Estimate(
        found.value,
        found.standard_error,
        {"radius": radius, "samples": samples, "control_variate": control is not None},
    )


@proxy("sharpness_average_quotient", version=3, reference="mean over the sphere in the horizontal space")
def sharpness_average_quotient(
    context: Context, *, radius: float = 0.1, relative_radius: float | None = None, samples: int = 20
) -> Estimate:
    """Mean of L(theta + delta) - L(theta) over the sphere |delta|_2 = radius within the horizontal space.

    For small radii it exceeds the full average by the factor d / (d - k) at a critical point. Options as in
    `sharpness_average_full`.

    Returns:
        The mean, its standard error as there, and the orbit in the details.
    """
    from gapbench.curvature.averages import average

    radius = radius_of(context, radius, relative_radius)
    samples, project = count("samples", samples, 2), group_of(context).project
    control = sphere_control(context, samples, horizontal=True)
    found = average(context.landscape, radius, samples, context.generator, project, control=control)
    details = {"radius": radius, "samples": samples, "control_variate": control is not None} | orbit_details(
        context
    )
    return Estimate(found.value, found.standard_error, details)
