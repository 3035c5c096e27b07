"""Curvature of the training loss at the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


@proxy("hessian_trace", reference="Hutchinson 1990; exact where tr H = tr G")
def hessian_trace(context: Context, *, probes: int = 32, exact_below: int = 512) -> Estimate:
    """Trace of the loss Hessian.

    Exact, with standard error 0, for networks that are piecewise affine in each parameter tensor (ReLU,
    pooling, batch normalisation), and for at most `exact_below` parameters. Otherwise the exact Gauss-Newton
    trace plus Hutchinson's estimate of the rest with `probes` Rademacher vectors; the standard error covers
    the probes, not the choice of examples.
    """
    from gapbench.curvature.trace import hessian_trace as trace_of

    if isinstance(probes, bool) or int(probes) != probes or probes < 2:
        raise ValueError(f"probes = {probes!r} must be a whole number of at least 2")
    found = trace_of(context.landscape, context.generator, int(probes), int(exact_below))
    details = {"method": found.method, "gauss_newton_trace": found.gauss_newton, **found.details}
    return Estimate(found.value, found.standard_error, details)


@proxy("hessian_top_eigenvalue", reference="Lanczos 1950; Sagun et al. 2017")
def hessian_top_eigenvalue(context: Context, *, tolerance: float = 1e-6, max_products: int = 200) -> Estimate:
    """Largest algebraic eigenvalue of the loss Hessian, by Lanczos with full reorthogonalisation.

    Runs until the residual |H v - value v| is at most `tolerance` times the largest Ritz modulus, or for
    `max_products` Hessian products; `details["residual"]` (absolute) bounds the distance to an eigenvalue.
    """
    import torch

    from gapbench.curvature.eigenvalue import largest_eigenvalue

    landscape = context.landscape
    draw = torch.randn(landscape.dimension, generator=context.generator, dtype=torch.float64)
    start = draw.to(device=landscape.device, dtype=landscape.dtype)
    pair = largest_eigenvalue(landscape.hessian_product, start, tolerance, max_products)
    return Estimate(pair.value, details={"residual": pair.residual, "products": pair.products})
