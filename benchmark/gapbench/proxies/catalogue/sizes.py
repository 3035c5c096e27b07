"""How large a network is, and how much it was trained on: controls that know nothing of what was learned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from gapbench.computation.tracing import Trace
    from gapbench.proxies.context import Context


def recorded(context: Context) -> Trace:
    """The computation of two examples, recorded once for all proxies.

    Returns:
        The trace.
    """
    from gapbench.computation.padding import FunctionalPadding
    from gapbench.computation.tracing import trace

    def compute() -> Trace:
        inputs = context.inputs
        with FunctionalPadding():
            return trace(context.model, inputs[:2] if len(inputs) > 1 else inputs.repeat_interleave(2, dim=0))

    return context.shared("trace of two examples", compute)


@proxy("train_size", higher_means="better", reference="control", cost="weights")
def train_size(context: Context) -> float:
    """Number of training examples: larger values predict a smaller gap."""
    return float(context.train_size)


@proxy("depth", reference="control; Jiang et al. 2020, eq. 19 (d)", cost="weights")
def depth(context: Context) -> float:
    """The most linear layers on one path from input to output.

    Convolutions and products with a weight count, normalisations, factors of single units and shortcuts do not; the
    product of queries and keys is none; each step of a recurrent layer is one. Larger values predict a larger gap.
    Not applicable where one operator hides whole layers (LSTM).

    Returns:
        The number of layers.
    """
    from gapbench.computation.counting import depth as depth_of

    return float(depth_of(recorded(context)))


@proxy("multiply_adds", reference="control", cost="weights")
def multiply_adds(context: Context) -> float:
    """Multiply-adds of one example in convolutions and matrix products, attention's included.

    Counted on the forward pass at the real input size, twice this number being what is called FLOPs; larger values
    predict a larger gap. Not applicable where examples meet in the network, or an operator hides its products.

    Returns:
        Their number.

    Raises:
        NotApplicable: there is no number for one example.
    """
    from gapbench.computation.counting import multiply_adds as count_of

    if context.landscape.mixed is not None:
        raise NotApplicable(f"one example has no number of its own: {context.landscape.mixed}")
    total = count_of(recorded(context))
    if total % 2:
        raise NotApplicable("two examples take an odd number of multiply-adds")
    return total / 2


@proxy(
    "vc_dimension_bound", reference="baseline vc_dim of PGDL; after Jiang et al. 2020, eq. 19", cost="weights"
)
def vc_dimension_bound(context: Context) -> Estimate:
    """d + 2 d ln(22 d s) sum_l |W_l|, over the d learned kernels and matrices with |W_l| entries.

    s counts the positions of an image, height x width (1,024 in PGDL's networks), 1 for vectors. Shared kernels
    count once. Larger values predict a larger gap. Not applicable to other inputs, and to networks that are not
    piecewise affine in each parameter, for which the theorem is not: attention, gates, layer normalisation, smooth
    activations.

    Returns:
        The bound; the details give d, s and the number of weights.

    Raises:
        NotApplicable: the theorem does not cover the network.
    """
    from gapbench.computation.counting import kernels
    from gapbench.computation.multiaffine import why_not_multiaffine

    if not context.inputs.is_floating_point() or context.inputs.dim() not in (2, 4):
        raise NotApplicable("the positions of inputs that are neither vectors nor images are not known")
    found = recorded(context)
    obstacle = why_not_multiaffine(found)
    if obstacle is not None:
        raise NotApplicable(f"the network is not piecewise affine in each parameter: {obstacle}")
    shapes = kernels(found)
    if not shapes:
        raise NotApplicable("the network has no linear layer")
    count, weights = len(shapes), sum(math.prod(shape) for shape in shapes)
    positions = math.prod(context.inputs.shape[2:])
    value = count + 2.0 * count * math.log(22.0 * count * positions) * weights
    return Estimate(value, details={"kernels": count, "weights": weights, "positions": positions})
