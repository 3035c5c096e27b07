"""Proxies of the output margins, and the spectrally normalised margin bound."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from gapbench.proxies.context import Context

MARGIN_QUANTILE = 0.10


def margin_scale(context: Context) -> float:
    """The 10th percentile of the training margins (linear interpolation); not applicable if not positive."""
    import torch

    gamma = float(torch.quantile(context.margins, MARGIN_QUANTILE))
    if not gamma > 0:
        raise NotApplicable(f"the 10th percentile of the training margins is {gamma:.4g}, not positive")
    return gamma


@proxy("inverse_margin", reference="Jiang et al. 2020, eq. 22", cost="cheap", central=True)
def inverse_margin(context: Context) -> Estimate:
    """1 / gamma^2, gamma the 10th percentile of the training margins; not applicable unless gamma > 0."""
    gamma = margin_scale(context)
    return Estimate(1.0 / gamma**2, details={"gamma": gamma})


@proxy(
    "spectral_margin_bound",
    version=2,
    reference="Bartlett, Foster and Telgarsky 2017, eq. 1.2",
    cost="cheap",
    central=True,
)
def spectral_margin_bound(
    context: Context, *, gamma: float | None = None, reference: str = "zero"
) -> Estimate:
    """The bound's leading term ||X||_F R_A ln(W) / (gamma n), W the largest layer width with the input.

    R_A = (prod_i rho_i sigma_i) (sum_i (||A_i' - M_i'||_{2,1} / sigma_i)^{2/3})^{3/2} over the layers' full
    linear maps at their real input size, batch normalisation and padding folded in; M_i = 0 (`reference` = "zero")
    or the initial layers, with batch statistics of the training inputs. `gamma` defaults to the 10th percentile of
    the training margins. Where the graph adds or concatenates, the product is the Lipschitz constant composed over
    the graph. `details["is_bound"]` is True only where the theorem holds: a chain of linear maps and
    fixed nonlinearities that are 0 at 0. Biases, other shifts, branches, learned slopes and references that depend
    on the data make it False; `details["why_not_bound"]` lists them. Not applicable with attention, gates, layer
    or group normalisation.

    Returns:
        The bound; the details give its factors.

    Raises:
        NotApplicable: no useful Lipschitz constant, or margins that are not positive.
        ValueError: an option that cannot be.
    """
    import torch

    if reference not in ("zero", "initial"):
        raise ValueError(f"reference = {reference!r} must be 'zero' or 'initial'")
    if gamma is not None and not gamma > 0:
        raise ValueError(f"gamma = {gamma!r} must be positive")
    gamma = margin_scale(context) if gamma is None else float(gamma)
    composition = context.composition(reference)
    layers = composition.layers
    if not layers:
        raise NotApplicable("the network has no linear layer")
    if any(layer.sigma == 0 for layer in layers):
        raise NotApplicable("a layer is zero, and R_A with it undefined")
    ratios = sum((layer.norm_2_1 / layer.sigma) ** (2.0 / 3.0) for layer in layers)
    log_complexity = composition.log_lipschitz + 1.5 * _log(ratios)
    obstacles = list(composition.obstacles)
    reestimated = reference == "initial" and context.normalised_initial[1]
    if reestimated:
        obstacles.append("the reference's batch statistics depend on the training inputs")
    margins = context.margins
    log_scale = _log(context.input_norm / context.train_size)
    log_value = log_scale + log_complexity + math.log(math.log(composition.widest)) - math.log(gamma)
    if max(log_value, log_complexity) > 700:
        raise NotApplicable(f"the bound is exp({log_value:.4g}): beyond the range of floating point numbers")
    complexity = math.exp(log_complexity)
    normalised = margins * math.exp(-log_scale - log_complexity) if complexity > 0 else None
    return Estimate(
        math.exp(log_value),
        details={
            "bound_term": math.exp(log_value),
            "gamma": gamma,
            "layers": [layer.name for layer in layers],
            "sigma": [layer.sigma for layer in layers],
            "norm_2_1": [layer.norm_2_1 for layer in layers],
            "spectral_complexity": complexity,
            "lipschitz": math.exp(min(composition.log_lipschitz, 700.0)),
            "largest_width": composition.widest,
            "input_norm": context.input_norm,
            "is_bound": not obstacles,
            "why_not_bound": obstacles,
            "reference": reference,
            "reference_statistics": "training inputs" if reestimated else "as given",
            "margins": margins.tolist(),
            "normalised_margins": [] if normalised is None else normalised.tolist(),
            # ramp_gamma(-margin): 1 for margins <= 0, 0 from gamma on, linear between
            "ramp_risk": float(torch.clamp(1.0 - margins / gamma, 0.0, 1.0).mean()),
        },
    )


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
