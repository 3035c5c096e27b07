"""Sharpness in geodesic balls of a metric that the network's symmetries leave unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.ascents import maximum_details
from gapbench.proxies.options import count, group_of, orbit_details
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


@proxy("sharpness_geodesic", version=3, reference="da Silva and Dangel 2025, sections 4 and 5", cost="dear")
def sharpness_geodesic(
    context: Context, *, radius: float = 0.1, metric: str = "inv", steps: int = 20, restarts: int = 1
) -> Estimate:
    """max over horizontal xi of metric norm at most `radius` of L(geodesic from theta along xi) - L(theta).

    Matrix pairs between which gl(n) acts carry the metric "inv" or "mix", all other parameters |xi / theta|.
    Geodesics are exact for single parameters and scalar pairs and of second order for matrix pairs. The radius
    is in the metric's own norm (for a scalar pair moved by the ratio b on both sides: sqrt(2) |b| with "inv").

    Returns:
        The rise, with effort, convergence and the pairs found in the details.

    Raises:
        NotApplicable: the metric is not defined at these parameters.
        ValueError: an option that cannot be.
    """
    from gapbench.curvature.sharpness import maximise
    from gapbench.symmetry.geodesic import GeodesicSurface, NoMetric

    if metric not in ("inv", "mix"):
        raise ValueError(f"metric = {metric!r} must be 'inv' or 'mix'")
    if not radius > 0:
        raise ValueError(f"radius = {radius!r} must be positive")
    steps, restarts = count("steps", steps, 1), count("restarts", restarts, 1)
    try:
        surface = GeodesicSurface(context.landscape, group_of(context), metric)
    except NoMetric as reason:
        raise NotApplicable(str(reason)) from reason
    best = maximise(surface, radius, steps, restarts, context.generator, surface.project)
    details = maximum_details(best, radius, steps, restarts) | {"metric": metric, "pairs": len(surface.pairs)}
    return Estimate(best.value, details=details | orbit_details(context))
