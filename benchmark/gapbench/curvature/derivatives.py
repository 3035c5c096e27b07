"""Are a network's derivatives right? Tested by differences of the loss and of its gradient, not believed.

Automatic differentiation gives something else than the derivative for functions with a backward pass of their
own (straight-through estimators), for weights that are read as numbers, and for some operators of torch itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gapbench.errors import NotDefined

STEPS = {torch.float64: (1e-5, 1e-6, 1e-7, 1e-8), torch.float32: (1e-2, 1e-3)}  # relative to |theta|
TOLERANCE = {torch.float64: 1e-4, torch.float32: 0.2}
ASYMMETRY = {torch.float64: 1e-7, torch.float32: 1e-2}
SMALLEST = 1e-3  # parameters of a smaller norm are moved as if they had this one


@dataclass(frozen=True)
class Findings:
    """What is wrong with the gradient and with Hessian products, None where they passed.

    `kink`: at these parameters the loss has one, and derivatives are those of one of its sides.
    """

    gradient: str | None
    hessian: str | None
    kink: bool = False

    def require_gradient(self) -> None:
        """Raise `NotDefined` where the gradient is wrong."""
        if self.gradient is not None:
            raise NotDefined(self.gradient)


def examine(
    value: Callable[[Tensor], float],
    gradient: Callable[[Tensor], Tensor],
    product: Callable[[Tensor], Tensor],
    theta: Tensor,
) -> Findings:
    """Test derivatives at `theta` (d,) along random directions and along the gradient.

    `value`, `gradient` and `product` (of the Hessian at theta with a vector) as of `Landscape`; their type
    should be float64, since in float32 only gross errors can be told from rounding.
    """
    generator = torch.Generator().manual_seed(0)
    size = max(float(theta.norm()), SMALLEST)
    steps = [size * h for h in STEPS[theta.dtype]]

    def direction() -> Tensor:
        draw = torch.randn(len(theta), generator=generator, dtype=torch.float64)
        return (draw / draw.norm()).to(theta)

    base, slope = value(theta), gradient(theta)
    if not torch.isfinite(slope).all():
        return Findings("the gradient of the loss is not finite", None)
    u, v = direction(), direction()
    kink = False
    for way in (u, v):
        right, here = _slope_agrees(value, base, slope, theta, way, steps)
        kink = kink or here
        if not right:
            return Findings(
                "what automatic differentiation gives is not the derivative of the loss (a custom backward pass, "
                "or weights that are read as numbers)",
                None,
            )
    wrong = _hessian_complaint(gradient, product, slope, base, theta, (u, v), steps)
    if wrong == "kink":
        return Findings(None, None, True)
    return Findings(None, wrong, kink)


def _slope_agrees(
    value: Callable[[Tensor], float],
    base: float,
    slope: Tensor,
    theta: Tensor,
    way: Tensor,
    steps: list[float],
) -> tuple[bool, bool]:
    """Whether `slope` is the derivative along `way`, and whether there is a kink."""
    expected = float(slope.double() @ way.double())
    typical = float(slope.norm()) / len(theta) ** 0.5
    one_sided = []
    for h in steps:
        up, down = value(theta + h * way), value(theta - h * way)
        rounding = 1e3 * torch.finfo(theta.dtype).eps * max(abs(base), 1.0) / h
        tolerance = TOLERANCE[theta.dtype] * max(typical, abs(expected)) + rounding
        if abs((up - down) / (2 * h) - expected) <= tolerance:
            return True, False
        one_sided.append((((up - base) / h, (base - down) / h), tolerance))
    (right, left), tolerance = one_sided[min(1, len(one_sided) - 1)]
    kink = abs(right - left) > 4 * tolerance
    return kink and min(left, right) - tolerance <= expected <= max(left, right) + tolerance, kink


def _hessian_complaint(
    gradient: Callable[[Tensor], Tensor],
    product: Callable[[Tensor], Tensor],
    slope: Tensor,
    base: float,
    theta: Tensor,
    ways: tuple[Tensor, Tensor],
    steps: list[float],
) -> str | None:
    """None, what is wrong with Hessian products, or "kink" where the gradient jumps at theta itself."""
    u, v = ways
    try:
        hu, hv = product(u), product(v)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        return f"second derivatives cannot be computed ({' '.join(str(error).split())[:120]})"
    rounding = 1e4 * torch.finfo(theta.dtype).eps * (float(slope.norm()) + abs(base)) / max(steps)
    largest = max(float(hu.norm()), float(hv.norm()))
    if abs(float(u @ hv) - float(v @ hu)) > ASYMMETRY[theta.dtype] * largest + rounding:
        return "Hessian products are not symmetric"
    along = slope / slope.norm() if float(slope.norm()) > 0 else u
    for way, image in ((u, hu), (along, product(along))):
        errors = []
        for h in steps:
            found = (gradient(theta + h * way) - gradient(theta - h * way)) / (2 * h)
            errors.append(float((found - image).norm()))
            floor = 1e3 * torch.finfo(theta.dtype).eps * (float(slope.norm()) + abs(base)) / h
            if errors[-1] <= TOLERANCE[theta.dtype] * float(image.norm()) + floor:
                break
        else:
            if all(b > 3 * a for a, b in itertools.pairwise(errors)):
                return "kink"
            return "Hessian products are not the derivative of the gradient"
    return None
