"""The exact diagonal of the loss Hessian, where it can be had: by squared gradients, or by Hessian products."""

from __future__ import annotations

from torch import Tensor

from gapbench.curvature.diagonal import hessian_diagonal
from gapbench.curvature.loss import Landscape
from gapbench.curvature.squared_gradients import gauss_newton_diagonal
from gapbench.curvature.trace import exact_is_cheap, why_not_gauss_newton
from gapbench_base.errors import NotDefined


def exact_diagonal(landscape: Landscape) -> Tensor:
    """diag H at the network's parameters, once for all who ask.

    For networks that are piecewise affine in each parameter tensor that of the Gauss-Newton matrix, by squared
    gradients of single examples; otherwise by d Hessian products where these are cheap.

    Returns:
        (d,) in float64.

    Raises:
        NotDefined: neither is possible, or the gradient is not the derivative of the loss.
    """
    landscape.findings.require_gradient()
    obstacle = landscape.remembered("why not Gauss-Newton", lambda: why_not_gauss_newton(landscape))
    if obstacle is None:
        return gauss_newton_diagonal(landscape)
    if not exact_is_cheap(landscape):
        raise NotDefined(
            f"the Hessian's diagonal takes {landscape.dimension:,} Hessian products, which are too many, and there "
            f"is no shorter way because of {obstacle}"
        )
    found = landscape.remembered("Hessian diagonal", lambda: hessian_diagonal(landscape))
    return found.double()
