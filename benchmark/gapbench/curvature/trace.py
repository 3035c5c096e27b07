"""The trace of the loss Hessian: exact where the network is piecewise affine in each parameter tensor, or small."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from gapbench.computation.multiaffine import why_not_multiaffine
from gapbench.computation.tracing import plain_kernels, trace
from gapbench.curvature.backward import with_parameters_of
from gapbench.curvature.derivatives import LARGE
from gapbench.curvature.diagonal import hessian_diagonal
from gapbench.curvature.loss import EXAMINED, FEW, Landscape
from gapbench.curvature.residual import ResidualProbes
from gapbench.curvature.squared_gradients import gauss_newton_diagonal
from gapbench_base.errors import NotDefined

ALWAYS_EXACT = 512  # parameters up to which d Hessian products are taken whatever they cost
EXACT_OPERATIONS = 2e10  # floating point operations of d Hessian products, at most, above that
PASSES = 6  # a Hessian product in forward passes
BLOCKS = 3  # parameter tensors whose blocks of H and G are compared


@dataclass(frozen=True)
class TraceEstimate:
    """`standard_error` is 0 where the trace is exact (on the given examples); `method` says how it was found.

    `samples` are those of Hutchinson's estimate, one for each probe.
    """

    value: float
    standard_error: float
    method: str
    gauss_newton: float | None
    details: dict[str, object]
    samples: Tensor | None = None


def gauss_newton_trace(landscape: Landscape) -> float:
    """tr G exactly, G = mean_i J_i' A_i J_i the Gauss-Newton matrix (= true Fisher for both losses).

    Cross-entropy: A = diag(p) - p p' = sum_c p_c (e_c - p)(e_c - p)', so tr G = mean_i sum_c
    |d/dtheta sqrt(p_c) (f_c - p . f)|^2 with p held fixed. Squared loss: A = 1. From the diagonal of G, which is
    shared with all who ask for that.

    Returns:
        The trace. `NotDefined` is raised where examples meet in the network.
    """
    _require_separate(landscape)
    return float(gauss_newton_diagonal(landscape).sum())


def adaptive_gauss_newton_trace(landscape: Landscape) -> float:
    """sum_j theta_j^2 G_jj, from the diagonal of G, which is shared with all who ask for that."""
    _require_separate(landscape)
    return float(landscape.theta().double() ** 2 @ gauss_newton_diagonal(landscape))


def _require_separate(landscape: Landscape) -> None:
    if landscape.mixed is not None:
        raise NotDefined(f"gradients of single examples are not defined: {landscape.mixed}")
    landscape.findings.require_gradient()


def hessian_trace(
    landscape: Landscape,
    generator: torch.Generator,
    probes: int,
    exact_below: int,
    pairs: ResidualProbes | None = None,
) -> TraceEstimate:
    """tr H of the landscape at the network's parameters.

    Exact and free of probes for networks that are piecewise affine in each parameter tensor (tr H = tr G).
    Exact by d Hessian products if d <= `probes`, or d <= `exact_below` and the products are cheap
    (`ALWAYS_EXACT`, `EXACT_OPERATIONS`). Otherwise tr G exactly plus Hutchinson's estimate of tr(H - G) with
    `probes` Rademacher vectors, those of `pairs` if given; the standard error covers these (not the choice of
    examples) and is absolute. Where single examples have no gradients of their own, Hutchinson's estimate of tr H.

    Returns:
        The trace, its standard error and the method.
    """
    return _trace(landscape, pairs or ResidualProbes(landscape, generator, probes), exact_below)


def adaptive_trace(
    landscape: Landscape, generator: torch.Generator, probes: int, exact_below: int
) -> TraceEstimate:
    """sum_i theta_i^2 H_ii, with the same cases and errors as `hessian_trace`."""
    return _trace(landscape, ResidualProbes(landscape, generator, probes, landscape.theta()), exact_below)


def has_residual(landscape: Landscape) -> bool:
    """Whether H = G + R can be taken apart: examples are separate, and second derivatives are right."""
    return landscape.mixed is None and landscape.findings.hessian is None


def _trace(landscape: Landscape, probes: ResidualProbes, exact_below: int) -> TraceEstimate:
    """sum_i w_i^2 H_ii, w the weights of the probes."""
    weights = probes.weights
    gauss_newton_of = gauss_newton_trace if weights is None else adaptive_gauss_newton_trace
    landscape.findings.require_gradient()
    landscape.value()  # refuses networks of lower precision inside
    obstacle = landscape.remembered("why not Gauss-Newton", lambda: why_not_gauss_newton(landscape))
    if obstacle is None:
        value = gauss_newton_of(landscape)
        return TraceEstimate(value, 0.0, "gauss_newton", value, {})
    details: dict[str, object] = {"not_piecewise_affine": obstacle}
    if landscape.findings.hessian is not None:
        details["hessian_products"] = f"differences of gradients, since {landscape.findings.hessian}"
    d = landscape.dimension
    if d <= probes.count or (d <= exact_below and exact_is_cheap(landscape)):
        diagonal = landscape.remembered("Hessian diagonal", lambda: hessian_diagonal(landscape)).double()
        value = float((diagonal if weights is None else weights.double() ** 2 * diagonal).sum())
        return TraceEstimate(value, 0.0, "unit_vectors", None, details)
    gauss_newton, method = None, "hutchinson"
    if has_residual(landscape):
        gauss_newton, method = gauss_newton_of(landscape), "gauss_newton+hutchinson"
        samples = [float(z.double() @ image.double()) for z, image in probes]
    else:
        samples = [float(z.double() @ landscape.hessian_product(z).double()) for z in probes.signs()]
    found = torch.tensor(samples, dtype=torch.float64)
    error = float(found.std(correction=1) / len(samples) ** 0.5)
    value = float(found.mean()) + (gauss_newton or 0.0)
    return TraceEstimate(value, error, method, gauss_newton, details | {"probes": probes.count}, found)


@torch.no_grad()
def exact_is_cheap(landscape: Landscape) -> bool:
    """Whether d Hessian products take at most `EXACT_OPERATIONS`, or d is at most `ALWAYS_EXACT`."""
    d = landscape.dimension
    if d <= ALWAYS_EXACT:
        return True
    counter = FlopCounterMode(display=False)
    with plain_kernels(landscape.dtype), counter:
        landscape.model(landscape.inputs[:2])
    operations = counter.get_total_flops() / min(2, len(landscape.inputs)) * len(landscape.inputs)
    # What is no product of matrices is not counted: at least one operation for each parameter and example.
    operations = max(operations, d * len(landscape.inputs))
    return bool(PASSES * d * operations <= EXACT_OPERATIONS)


def why_not_gauss_newton(landscape: Landscape) -> str | None:
    """Whether tr H = tr G: the network is piecewise affine in each parameter tensor, and a test agrees.

    Every chunk is looked at, since a network may branch on its inputs.

    Returns:
        None if so, else in words why not.
    """
    if landscape.mixed is not None:
        return landscape.mixed
    obstacles = (why_not_multiaffine(trace(landscape.model, x)) for x, _ in landscape.chunks())
    found = next(filter(None, obstacles), None)
    agree = found is not None or landscape.findings.hessian is not None
    if not (agree or _blocks_agree(landscape)):
        return (
            "a test of the second derivatives, whose diagonal blocks are not those of the Gauss-Newton matrix"
        )
    return found


def _blocks_agree(landscape: Landscape) -> bool:
    """Whether v'Hv = v'Gv for a random v within some parameter tensors, as it is for affine ones."""
    tested = landscape
    most = EXAMINED if landscape.trusted is None and landscape.dimension <= LARGE else FEW
    if landscape.dtype != torch.float64 or len(landscape.inputs) > most:
        try:
            tested = landscape.double(most)
            tested.value()
        except (RuntimeError, TypeError, NotDefined):
            return True
    form = GaussNewtonForm(tested)
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(tested.sizes), generator=generator)[:BLOCKS]
    starts = [0, *torch.tensor(tested.sizes).cumsum(0).tolist()]
    for i in order.tolist():
        v = torch.zeros(tested.dimension, dtype=torch.float64, device=tested.device)
        draw = torch.randn(tested.sizes[i], generator=generator, dtype=torch.float64)
        v[starts[i] : starts[i + 1]] = draw.to(v)
        full, part = float(v @ tested.raw_hessian_product(v)), form(v)
        if abs(full - part) > 1e-6 * max(abs(full), abs(part)) + 1e-12 * float(v @ v):
            return False
    return True


class GaussNewtonForm:
    """v -> v' G v, through J v by two reverse passes (forward-mode rules are wrong for some layers).

    The graphs of u -> J' u, which is linear in u, are built once and kept.
    """

    def __init__(self, landscape: Landscape):
        self.landscape = landscape
        self.graphs = [self._graph(inputs) for inputs, _ in landscape.chunks()]

    def _graph(self, inputs: Tensor) -> tuple[Tensor, dict[str, Tensor], list[Tensor]]:
        network = self.landscape.model
        parameters = {name: p.detach().clone().requires_grad_() for name, p in network.named_parameters()}

        def pulled_back(network: torch.nn.Module) -> tuple[Tensor, list[Tensor]]:
            scalars = self.landscape.scalars(network(inputs))
            dual = torch.zeros_like(scalars, requires_grad=True)
            gradients = torch.autograd.grad(
                scalars, list(parameters.values()), dual, create_graph=True, materialize_grads=True
            )
            return dual, list(gradients)

        with torch.enable_grad(), plain_kernels(self.landscape.dtype):
            dual, gradients = with_parameters_of(network, parameters, pulled_back)
        return dual, parameters, gradients

    def __call__(self, vector: Tensor) -> float:
        """v' G v for a vector v (d,)."""
        total = 0.0
        tangents = list(self.landscape.unflatten(vector).values())
        for dual, parameters, gradients in self.graphs:
            pairs = [(g, t) for g, t in zip(gradients, tangents) if g.requires_grad]
            if not pairs:
                continue

            def pushed(
                _: torch.nn.Module, pairs: list[tuple[Tensor, Tensor]] = pairs, dual: Tensor = dual
            ) -> Tensor:
                (found,) = torch.autograd.grad(
                    [g for g, _ in pairs], dual, [t for _, t in pairs], retain_graph=True
                )
                return found

            with plain_kernels(self.landscape.dtype):
                product = with_parameters_of(self.landscape.model, parameters, pushed)
            total += float(product.double().pow(2).sum())
        return total / len(self.landscape.inputs)
