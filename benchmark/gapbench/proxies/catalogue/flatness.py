"""Flatness that rescaling of layers does not change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from torch import Tensor

    from gapbench.curvature.linear_head import LinearHead
    from gapbench.proxies.context import Context


@proxy("relative_flatness_trace", reference="Petzka et al. 2021, definition 3", cost="cheap", central=True)
def relative_flatness_trace(context: Context) -> float:
    """kappa_Tr = sum_{s,s'} <w_s, w_s'> Tr(H_{s,s'}), w_s the rows of the last linear layer.

    H_{s,s'} is the block of the Hessian of the mean loss in rows s and s'; in closed form, mean_i |phi_i|^2
    Tr(A_i W W'), phi the features and A_i the curvature of the loss in the outputs. Larger values predict a larger
    gap. Not applicable unless the outputs are those of one `nn.Linear` that is used once.

    Returns:
        The sum.
    """
    return _head(context).trace()


@proxy(
    "relative_flatness_max",
    reference="Petzka et al. 2021 (maximal eigenvalues of the diagonal blocks)",
    cost="cheap",
)
def relative_flatness_max(context: Context) -> float:
    """kappa_max = sum_s |w_s|^2 lambda_max(H_{s,s}), w_s the rows of the last linear layer.

    Larger values predict a larger gap. Not applicable as `relative_flatness_trace`.

    Returns:
        The sum.
    """
    return _head(context).largest()


@proxy(
    "relative_flatness_trace_normalised",
    reference="Petzka et al. 2021, section 5 (normalised features)",
    cost="cheap",
)
def relative_flatness_trace_normalised(context: Context) -> float:
    """`relative_flatness_trace` after features are divided by their standard deviation and weights multiplied.

    The network stays the same function. The deviation is that over `context.inputs`; features that do not vary are
    left out, as biases are. Larger values predict a larger gap. Not applicable as `relative_flatness_trace`.

    Returns:
        The sum.
    """
    return _head(context).normalised().trace()


@proxy(
    "relative_flatness_max_normalised",
    reference="Petzka et al. 2021, section 5 (normalised features)",
    cost="cheap",
)
def relative_flatness_max_normalised(context: Context) -> float:
    """`relative_flatness_max` after features are divided by their standard deviation and weights multiplied.

    Larger values predict a larger gap. Not applicable as `relative_flatness_trace`.

    Returns:
        The sum.
    """
    return _head(context).normalised().largest()


@proxy("normalised_sharpness", reference="Tsuzuku et al. 2020 (normalized sharpness)", cost="dear")
def normalised_sharpness(context: Context) -> Estimate:
    """sum over layers of min over s, t of sum_ij ( e^{s_i + t_j} H_ij + e^{-s_i - t_j} W_ij^2 ).

    W_ij is the weight from unit j to unit i of a linear layer or convolution, H_ij the entry of the Hessian's
    diagonal there, both summed over the taps of a kernel; biases and normalisations are left out. No rescaling of
    units changes it. Larger values predict a larger gap. Not applicable where another parameter with two or more
    axes exists (attention, embeddings), where an entry of the diagonal is negative, as it may be with other
    activations than ReLU, and where the diagonal takes too many Hessian products.

    Returns:
        The sum, with its parts by layer in the details.

    Raises:
        NotApplicable: a Hessian's diagonal that is negative, or parameters of other kinds.
    """
    from gapbench.curvature.rescaled_minima import least_over_rows_and_columns

    parts, kernels, diagonal = {}, _kernels(context), _diagonal(context)
    slack = 1e-12 * max(float(values.abs().max()) for values in diagonal.values())
    for name, transposed in kernels.items():
        weight, curvature = context.model.get_parameter(name).detach().double(), diagonal[name]
        if float(curvature.min()) < -slack:
            raise NotApplicable(
                f"the Hessian's diagonal is negative at {name}, and there is no least value over rescalings"
            )
        both = [
            _by_units(values, transposed)
            for values in (curvature.reshape(weight.shape).clamp_min(0), weight**2)
        ]
        parts[name] = least_over_rows_and_columns(*both)
    return Estimate(sum(parts.values()), details={"layers": parts})


@proxy("minimum_sharpness", reference="Ibayashi et al. 2021", cost="dear")
def minimum_sharpness(context: Context) -> Estimate:
    """min over alpha with prod_l alpha_l = 1 of Tr H, W_l replaced by alpha_l W_l, b_l by alpha_1 ... alpha_l b_l.

    The least trace among networks of one function; without biases D (prod_l Tr H_l)^(1/D) for D layers. That the
    function stays the same is tested. Larger values predict a larger gap. Not applicable unless the network is a
    chain of linear layers and activations that are positively homogeneous, without normalisation; where a layer's
    trace is not positive; and where the Hessian's diagonal takes too many products.

    Returns:
        The minimum, with the trace itself and the parts by layer in the details.
    """
    from gapbench.curvature.rescaled_minima import least_over_layer_scales

    layers, diagonal = _homogeneous_chain(context), _diagonal(context)
    weights = [float(diagonal[layer.weight].sum()) for layer in layers]
    biases = [0.0 if layer.bias is None else float(diagonal[layer.bias].sum()) for layer in layers]
    value = least_over_layer_scales(weights, biases)
    traces = {layer.weight: trace for layer, trace in zip(layers, weights)}
    return Estimate(value, details={"trace": sum(weights) + sum(biases), "traces_of_weights": traces})


@proxy(
    "hessian_top_eigenvalue_scale_invariant", reference="Rangamani et al. 2019; spectral norm on the quotient"
)
def hessian_top_eigenvalue_scale_invariant(
    context: Context, *, tolerance: float = 1e-4, max_products: int = 200
) -> Estimate:
    """Largest eigenvalue of D^(1/2) H D^(1/2), D the squared norm of each parameter tensor at its entries.

    The Hessian in the metric sum_l |eta_l|^2 / |W_l|^2, which rescaling of whole layers leaves unchanged; in the
    paper tensors are the weights of a network without biases, here every tensor has its own norm. By Lanczos as
    `hessian_top_eigenvalue`. Larger values predict a larger gap. Not applicable where Hessian products are not.

    Returns:
        The eigenvalue, with no standard error.
    """
    import torch

    from gapbench.computation.eigenvalue import largest_eigenvalue

    landscape = context.landscape
    norms = [float(p.double().norm()) for p in context.parameters]
    scale = torch.cat(
        [torch.full((size,), norm, dtype=torch.float64) for size, norm in zip(landscape.sizes, norms)]
    )
    scale = scale.to(device=landscape.device, dtype=landscape.dtype)

    def product(vector: Tensor) -> Tensor:
        return scale * landscape.hessian_product(scale * vector)

    start = torch.randn(landscape.dimension, generator=context.generator, dtype=torch.float64).to(scale)
    pair = largest_eigenvalue(product, start, tolerance, max_products)
    return Estimate(pair.value, details={"residual": pair.residual, "products": pair.products})


def _head(context: Context) -> LinearHead:
    from gapbench.curvature.linear_head import linear_head

    return context.landscape.remembered("linear head", lambda: linear_head(context.landscape))


def _diagonal(context: Context) -> dict[str, Tensor]:
    """The Hessian's diagonal (size,) in float64, by parameter."""
    from gapbench.curvature.exact_diagonal import exact_diagonal

    landscape = context.landscape
    parts = exact_diagonal(landscape).split(landscape.sizes)
    return dict(zip(landscape.names, parts))


def _by_units(values: Tensor, transposed: bool) -> Tensor:
    """(out, in), summed over the taps of a kernel."""
    found = values.reshape(*values.shape[:2], -1).sum(-1)
    return found.T if transposed else found


def _kernels(context: Context) -> dict[str, bool]:
    """Weights of linear layers and convolutions, and whether they are transposed."""
    from torch import nn

    found = {}
    by_id = {id(p): name for name, p in context.model.named_parameters()}
    for module in context.model.modules():
        weight = module._parameters.get("weight")
        layer = isinstance(module, nn.Linear | nn.modules.conv._ConvNd)
        if layer and weight is not None:
            if not isinstance(module, nn.Linear) and getattr(module, "groups", 1) != 1:
                raise NotApplicable("rows and columns of convolutions in groups are not those of one matrix")
            found[by_id[id(weight)]] = bool(getattr(module, "transposed", False))
    for name, p in context.model.named_parameters():
        if p.dim() > 1 and name not in found:
            raise NotApplicable(f"{name} is no weight of a linear layer or convolution")
    if not found:
        raise NotApplicable("the network has no linear layer")
    return found


@dataclass(frozen=True)
class _Layer:
    weight: str
    bias: str | None


def _homogeneous_chain(context: Context) -> list[_Layer]:
    """The layers of a chain in order; tested to keep the function under scales whose product is 1.

    Returns:
        Names of weights and biases.

    Raises:
        NotApplicable: there is no such chain.
    """
    composition = context.composition("zero")
    layers: list[_Layer] = []
    names = dict(context.model.named_parameters())
    for layer in composition.layers:
        bias = layer.name.removesuffix("weight") + "bias"
        layers.append(_Layer(layer.name, bias if bias in names else None))
    used = [name for layer in layers for name in (layer.weight, layer.bias) if name is not None]
    kernels = all(layer.kernel is not None for layer in composition.layers)
    if not composition.chain or not kernels or sorted(used) != sorted(names) or not layers:
        raise NotApplicable(
            "the network is no chain of linear layers without other parameters, each used once"
        )
    if not _keeps_the_function(context, layers):
        raise NotApplicable(
            "scaling layers changes the function: an activation is not positively homogeneous"
        )
    return layers


def _keeps_the_function(context: Context, layers: list[_Layer]) -> bool:
    import torch

    from gapbench.computation.copies import holding
    from gapbench.computation.tracing import plain_kernels

    named, x = dict(context.model.named_parameters()), context.inputs[:32]
    scaled, so_far = {}, 1.0
    for place, layer in enumerate(layers):
        last = place == len(layers) - 1
        alpha = 1.0 / so_far if last else math.exp(0.5 * (-1.0) ** place + 0.1 * place)
        so_far *= alpha
        scaled[layer.weight] = named[layer.weight].detach() * alpha
        if layer.bias is not None:
            scaled[layer.bias] = named[layer.bias].detach() * (1.0 if last else so_far)
    with torch.no_grad(), plain_kernels(context.landscape.dtype):
        before = context.model(x.clone()).double()
        with holding(context.model, scaled):
            after = context.model(x.clone()).double()
    tolerance = 1e-9 if context.landscape.dtype == torch.float64 else 1e-4
    return float((after - before).abs().max()) <= tolerance * float(before.abs().max())
