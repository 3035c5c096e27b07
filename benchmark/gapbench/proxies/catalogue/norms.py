"""Proxies of the weights alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.registry import proxy

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


@proxy("param_norm", reference="Jiang et al. 2020, eq. 42", cost="weights", central=True)
def param_norm(context: Context) -> float:
    """Squared Euclidean norm of all parameters, sum_i theta_i^2."""
    return float(sum(float(p.double().pow(2).sum()) for p in context.parameters))


@proxy(
    "distance_from_initialization",
    reference="Nagarajan and Kolter 2019; Dziugaite et al. 2020 (l2-dist)",
    needs=("initial",),
    cost="weights",
    central=True,
)
def distance_from_initialization(context: Context) -> float:
    """Euclidean distance of all parameters from their initial values, |theta - theta_0|_2."""
    pairs = zip(context.parameters, context.require_initial().parameters(), strict=True)
    squared = float(sum(float((p.double() - q.detach().double()).pow(2).sum()) for p, q in pairs))
    distance: float = squared**0.5
    return distance
