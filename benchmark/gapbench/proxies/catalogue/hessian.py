"""Curvature of the training loss at the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapbench.proxies.ascents import ascent_seed
from gapbench.proxies.krylov import lanczos_of
from gapbench.proxies.options import group_of, orbit_details
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate

if TYPE_CHECKING:
    from gapbench.curvature.residual import ResidualProbes
    from gapbench.curvature.trace import TraceEstimate
    from gapbench.proxies.context import Context
    from gapbench.symmetry.traces import TangentTrace


def shared_trace(context: Context, probes: int, exact_below: int) -> TraceEstimate:
    """tr H, the same for every proxy that asks with these options, whichever comes first.

    Full trace and quotient trace then share their probes, so that the difference is that of the two.

    Returns:
        The trace with its standard error.

    Raises:
        ValueError: `probes` is no whole number of at least 2.
    """
    from gapbench.curvature.trace import hessian_trace as trace_of

    if isinstance(probes, bool) or int(probes) != probes or probes < 2:
        raise ValueError(f"probes = {probes!r} must be a whole number of at least 2")
    pairs = shared_probes(context, int(probes))
    key = f"hessian_trace {int(probes)} {int(exact_below)}"
    return context.shared(
        key,
        lambda: trace_of(context.landscape, context.generator, int(probes), int(exact_below), pairs),
    )


def shared_probes(context: Context, probes: int) -> ResidualProbes:
    """Random vectors and their products with the Hessian's part that Gauss-Newton leaves out, for all traces."""
    import torch

    from gapbench.curvature.residual import ResidualProbes
    from gapbench_base.seeds import named_seed

    def begin() -> ResidualProbes:
        generator = torch.Generator().manual_seed(named_seed("hessian trace", ascent_seed(context)))
        return ResidualProbes(context.landscape, generator, probes)

    return context.shared(f"residual probes {probes}", begin)


def shared_tangent_trace(context: Context, probes: int) -> TangentTrace:
    """The part of tr H along the orbit, the same for every proxy that asks with these options."""
    from gapbench.symmetry.traces import tangent_trace

    pairs = shared_probes(context, probes)
    return context.shared(
        f"trace along the orbit {probes}",
        lambda: tangent_trace(context.landscape, context.symmetry, context.gradient, pairs),
    )


@proxy("hessian_trace", version=4, reference="Hutchinson 1990; exact where tr H = tr G", central=True)
def hessian_trace(context: Context, *, probes: int = 32, exact_below: int = 4096) -> Estimate:
    """Trace of the loss Hessian.

    Exact, with standard error 0, for networks that are piecewise affine in each parameter tensor (ReLU,
    pooling, batch normalisation), and for at most `exact_below` parameters where their Hessian products are
    cheap (always up to 512). Otherwise the exact Gauss-Newton trace plus Hutchinson's estimate of the rest
    with `probes` Rademacher vectors; the standard error covers the probes, not the choice of examples.

    Returns:
        The trace; the details name the method and give the Gauss-Newton trace.
    """
    found = shared_trace(context, probes, exact_below)
    details = {"method": found.method, "gauss_newton_trace": found.gauss_newton, **found.details}
    return Estimate(found.value, found.standard_error, details)


@proxy("hessian_trace_per_dimension", version=3, reference="tr H / d")
def hessian_trace_per_dimension(context: Context, *, probes: int = 32, exact_below: int = 4096) -> Estimate:
    """Trace of the loss Hessian divided by the number of parameters. Options as in `hessian_trace`."""
    found = hessian_trace(context, probes=probes, exact_below=exact_below)
    d = context.landscape.dimension
    return Estimate(found.value / d, _divided(found.standard_error, d), {**found.details, "d": d})


@proxy(
    "hessian_trace_quotient",
    version=4,
    reference="tr(PHP), P the projection on the horizontal space",
    central=True,
)
def hessian_trace_quotient(context: Context, *, probes: int = 32, exact_below: int = 4096) -> Estimate:
    """Trace of the loss Hessian within the horizontal space of the network's symmetries.

    tr(PHP) = tr H - tr(U'HU) with an orthonormal basis U of the orbit's tangents; the second term follows from
    the gradient or from Hessian products along the orbit and vanishes at a critical point. Options as in
    `hessian_trace`; the standard error covers both terms.

    Returns:
        The trace; the details give both terms and the orbit.
    """
    group_of(context)
    full = hessian_trace(context, probes=probes, exact_below=exact_below)
    along = shared_tangent_trace(context, int(probes))
    error = ((full.standard_error or 0.0) ** 2 + along.standard_error**2) ** 0.5
    samples = shared_trace(context, int(probes), int(exact_below)).samples
    if samples is not None and along.samples is not None:  # the same probes, whose errors go together
        error = float((samples - along.samples).std() / len(samples) ** 0.5)
    details = {
        **full.details,
        "trace": full.value,
        "trace_along_orbit": along.value,
        "along_orbit_method": along.method,
        **orbit_details(context),
    }
    return Estimate(full.value - along.value, error, details)


@proxy("hessian_trace_quotient_per_dimension", version=4, reference="tr(PHP) / (d - k)")
def hessian_trace_quotient_per_dimension(
    context: Context, *, probes: int = 32, exact_below: int = 4096
) -> Estimate:
    """`hessian_trace_quotient` divided by the dimension d - k of the horizontal space."""
    found = hessian_trace_quotient(context, probes=probes, exact_below=exact_below)
    left = context.landscape.dimension - context.symmetry.dimension
    return Estimate(
        found.value / left, _divided(found.standard_error, left), {**found.details, "d - k": left}
    )


def _divided(error: float | None, by: int) -> float | None:
    return None if error is None else error / by


@proxy("hessian_top_eigenvalue", version=2, reference="Lanczos 1950; Sagun et al. 2017", central=True)
def hessian_top_eigenvalue(context: Context, *, tolerance: float = 1e-4, max_products: int = 200) -> Estimate:
    """Largest algebraic eigenvalue of the loss Hessian, by Lanczos with full reorthogonalisation.

    Runs until the residual |H v - value v| is at most `tolerance` times the largest Ritz modulus, or for
    `max_products` Hessian products; `details["residual"]` (absolute) bounds the distance to an eigenvalue. That to
    the largest is about its square over the distance of the two largest: far less, unless those are equal anyway.

    Returns:
        The eigenvalue, with no standard error.
    """
    found, used = lanczos_of(context), len(lanczos_of(context).seconds)
    pair = found.largest(tolerance, max_products)
    context.charge(sum(found.seconds[: min(used, pair.products)]))
    return Estimate(pair.value, details={"residual": pair.residual, "products": pair.products})
