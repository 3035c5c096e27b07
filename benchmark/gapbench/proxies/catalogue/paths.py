"""Norms that no rescaling of units changes: the path norm and the Fisher-Rao norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.catalogue.margins import margin_scale
from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from gapbench.proxies.context import Context


def squared_path_norm(context: Context) -> float:
    """The sum over paths of the products of squared weights, once for all proxies.

    Returns:
        The sum.

    Raises:
        NotApplicable: there are no such paths, or the sum is beyond the floating point numbers.
    """
    from gapbench.computation.path_norm import NoPathNorm, path_norm

    if context.landscape.mixed is not None:
        raise NotApplicable(f"one example has no paths of its own: {context.landscape.mixed}")

    def compute() -> float | NotApplicable:
        example = (
            context.inputs[:2] if len(context.inputs) > 1 else context.inputs.repeat_interleave(2, dim=0)
        )
        try:
            return path_norm(context.model, example)
        except NoPathNorm as reason:
            return NotApplicable(str(reason))

    found = context.shared("path norm", compute)
    if isinstance(found, NotApplicable):
        raise found
    if not math.isfinite(found):
        raise NotApplicable("the path norm is beyond the range of floating point numbers")
    return found


@proxy(
    "path_norm", reference="Jiang et al. 2020, eq. 44; Neyshabur et al. 2015", cost="weights", central=True
)
def path_norm(context: Context) -> float:
    """sum_k f_{theta^2}(1)_k: outputs on ones in eval mode with every weight and bias squared.

    The sum over all paths from an input or a bias to an output of the product of the squared weights along it,
    batch normalisation folded in. Operators without parameters stay as they are: averages, and maxima, of which a
    path takes the largest. Larger values predict a larger gap. Not applicable where something is not positively
    homogeneous: attention, layer normalisation, GELU, SiLU, ReLU6, gates.

    Returns:
        The sum, not its root.
    """
    return squared_path_norm(context)


@proxy("path_norm_over_margin", reference="Jiang et al. 2020, eq. 43", cost="cheap")
def path_norm_over_margin(context: Context) -> Estimate:
    """`path_norm` / gamma^2, gamma the 10th percentile of the training margins.

    Larger values predict a larger gap. Not applicable unless gamma > 0, and as `path_norm`.

    Returns:
        The ratio, with gamma in the details.

    Raises:
        NotApplicable: margins that are not positive, or no paths.
    """
    gamma = margin_scale(context)
    value = squared_path_norm(context) / gamma**2
    if not math.isfinite(value):
        raise NotApplicable("the ratio is beyond the range of floating point numbers")
    return Estimate(value, details={"gamma": gamma})


@proxy("fisher_rao_norm", reference="Liang et al. 2019", central=True)
def fisher_rao_norm(context: Context) -> float:
    """theta' F theta = mean over examples of (grad l_i . theta)^2, the squared Fisher-Rao norm.

    F is the second moment of the gradients of single examples' losses at their own labels, theta all parameters,
    biases and normalisations too. Larger values predict a larger gap. Not applicable where automatic
    differentiation does not give the gradient.

    Returns:
        The mean.
    """
    from gapbench.curvature.directional import losses_along

    landscape = context.landscape
    return float(losses_along(landscape, landscape.theta()).pow(2).mean())


@proxy("fisher_rao_norm_homogeneous", reference="Liang et al. 2019, closed form without biases", cost="cheap")
def fisher_rao_norm_homogeneous(context: Context) -> Estimate:
    """k^2 mean_i <d l_i / d f, f_i>^2 where f(c theta) = c^k f(theta): `fisher_rao_norm` in closed form.

    k is the number of layers of a bias-free ReLU network (L + 1 in the paper). That outputs are homogeneous is
    tested at half and twice the parameters. Larger values predict a larger gap. Not applicable with biases,
    normalisation, attention or shortcuts, whose outputs are not homogeneous.

    Returns:
        The mean, with k in the details.
    """
    from gapbench.curvature.directional import degree, output_slopes

    landscape = context.landscape
    landscape.require_precision()
    k = degree(landscape)
    value = k**2 * float(output_slopes(landscape).pow(2).mean())
    return Estimate(value, details={"degree": k})
