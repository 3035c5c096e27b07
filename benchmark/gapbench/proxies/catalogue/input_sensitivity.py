"""How much outputs and loss change with the inputs, at the training examples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gapbench.proxies.registry import proxy
from gapbench.proxies.results import Estimate, NotApplicable

if TYPE_CHECKING:
    from torch import Tensor

    from gapbench.proxies.context import Context


@proxy("input_gradient_norm", reference="mean of |grad_x l|_2; Novak et al. 2018", cost="cheap")
def input_gradient_norm(context: Context) -> float:
    """Mean over examples of |grad_x l(f(x), y)|_2, the Euclidean norm of the loss's gradient in the input.

    Larger values predict a larger gap. Not applicable to inputs that are whole numbers, where examples meet, and
    where automatic differentiation does not give the gradient.

    Returns:
        The mean.
    """
    from gapbench.curvature.heads import per_example_loss
    from gapbench.curvature.input_gradients import squared_input_gradients

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return per_example_loss(outputs, targets, context.loss)[:, None]

    _, squares = squared_input_gradients(context.landscape, loss)
    return float(squares.sqrt().mean())


@proxy(
    "input_jacobian_norm",
    reference="Novak et al. 2018, squared; baseline jacobian_norm of PGDL",
    cost="cheap",
    central=True,
)
def input_jacobian_norm(context: Context) -> float:
    """Mean over examples of |df / dx|_F^2, the squared Frobenius norm of the outputs' Jacobian in the input.

    Larger values predict a larger gap. Not applicable to inputs that are whole numbers, where examples meet, and
    where automatic differentiation does not give the gradient.

    Returns:
        The mean.
    """
    from gapbench.curvature.input_gradients import squared_input_gradients

    _, squares = squared_input_gradients(
        context.landscape, lambda outputs, _: outputs.reshape(len(outputs), -1)
    )
    return float(squares.sum(dim=1).mean())


@proxy(
    "input_margin_distance",
    higher_means="better",
    reference="Elsayed et al. 2018; Natekar and Sharma 2020",
    cost="cheap",
)
def input_margin_distance(context: Context, *, quantile: float = 0.5) -> Estimate:
    """A quantile over examples of (f_y - f_j) / |grad_x (f_y - f_j)|_2, j the largest other class.

    To first order the distance to the decision boundary, negative on the wrong side, infinite where the gradient
    vanishes; the median by default. Larger values predict a smaller gap. Not applicable to regression, maps and
    sequences of logits, to inputs that are whole numbers, where examples meet, and where the quantile is infinite.

    Returns:
        The quantile, with linear interpolation.

    Raises:
        NotApplicable: there is no such distance.
        ValueError: `quantile` is not between 0 and 1.
    """
    import torch

    from gapbench.curvature.input_gradients import squared_input_gradients
    from gapbench.proxies.predictions import margins_of

    if isinstance(quantile, bool) or not 0.0 <= quantile <= 1.0:
        raise ValueError(f"quantile = {quantile!r} must be between 0 and 1")

    values, squares = squared_input_gradients(context.landscape, margins_of(context))
    found = torch.where(values == 0, 0.0, values / squares.sqrt())[:, 0].sort().values
    place = float(quantile) * (len(found) - 1)
    low, high = float(found[math.floor(place)]), float(found[math.ceil(place)])
    value = low if low == high else low + (place - math.floor(place)) * (high - low)
    vanishing = int((squares == 0).sum())
    if not math.isfinite(value):
        raise NotApplicable(f"the gradient of the margin vanishes at {vanishing} examples")
    return Estimate(value, details={"quantile": float(quantile), "vanishing": vanishing})
