"""Are a network's derivatives right? Tested by differences of its outputs and of their gradient, not believed.

Automatic differentiation gives something else than the derivative for functions with a backward pass of their
own (straight-through estimators), for weights that are read as numbers, and for some operators of torch itself.
What is tested is a random combination s(theta) of all outputs, whatever the loss is: near a fit, or for targets of
another size, a loss hides a wrong gradient behind its rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from gapbench_base.errors import NotDefined

STEPS = {
    torch.float64: (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10),
    torch.float32: (1e-2, 1e-3),
}  # relative to |theta|
TOLERANCE = {torch.float64: 1e-4, torch.float32: 0.03}
ASYMMETRY = {torch.float64: 1e-7, torch.float32: 1e-2}
ROUNDING = 1e3  # units of rounding in an output, at most
LARGE = 50_000  # parameters above which fewer tensors and examples are tested
PARTS = 24  # parameter tensors that are tested by themselves; of large networks a quarter
NEGLIGIBLE = 1e-4
CONVERGED = 0.1  # differences over two steps that agree, relative to how far they are from what is tested
SMALLEST = 1e-3  # parameters of a smaller norm are moved as if they had this one


@dataclass(frozen=True)
class DerivativeDefects:
    """What is wrong with the gradient and with Hessian products, None where they passed.

    `kink`: at these parameters outputs have one, so that derivatives are those of one of its sides.
    """

    gradient: str | None
    hessian: str | None
    kink: bool = False

    def require_gradient(self) -> None:
        """Raise `NotDefined` where the gradient is wrong."""
        if self.gradient is not None:
            raise NotDefined(self.gradient)


@dataclass(frozen=True)
class Functional:
    """s(theta) = `weights` . outputs(theta), its gradient, and products with its Hessian at theta.

    `outputs` (m,) of parameters (d,), `weights` (m,); `product` at the parameters of the network itself.
    """

    outputs: Callable[[Tensor], Tensor]
    weights: Tensor
    gradient: Callable[[Tensor], Tensor]
    product: Callable[[Tensor], Tensor]


def examine(
    functional: Functional,
    few: Functional,
    theta: Tensor,
    sizes: Sequence[int],
    tensors: bool = True,
    second_on_all: bool = True,
) -> DerivativeDefects:
    """Test derivatives at `theta` (d,) along random directions, along the gradient, and in single tensors.

    In float64 if at all possible, since in float32 only gross errors can be told from rounding.

    Args:
        functional: what is differentiated.
        few: the same for fewer examples, on which single tensors are tested.
        theta: (d,).
        sizes: numbers of parameters in each tensor. A tensor whose gradient is small beside the others' is compared
            with its own.
        tensors: whether single tensors are tested at all.
        second_on_all: whether second derivatives are tested on all examples, or on `few`.

    Returns:
        What is wrong.
    """
    generator = torch.Generator().manual_seed(0)
    size = max(float(theta.norm()), SMALLEST)
    steps = [size * h for h in STEPS[theta.dtype]]

    def direction() -> Tensor:
        draw = torch.randn(len(theta), generator=generator, dtype=torch.float64)
        unit: Tensor = draw / draw.norm()
        return unit.to(theta)

    base, slope = functional.outputs(theta), functional.gradient(theta)
    if not torch.isfinite(slope).all():
        return DerivativeDefects("the gradient of the outputs is not finite", None)
    u, v = direction(), direction()
    along = slope / slope.norm() if float(slope.norm()) > 0 else u
    for way in (u, v, along):
        found = _slope_along(functional, base, slope, theta, way, steps)
        if found == "kink":
            return DerivativeDefects(None, None, True)
        if found is not None:
            return DerivativeDefects(found, None)
    all_of_it = (base, slope)
    if few is not functional:
        base, slope = few.outputs(theta), few.gradient(theta)
    starts = [0, *torch.tensor(list(sizes)).cumsum(0).tolist()]
    parts = PARTS if len(theta) <= LARGE else PARTS // 4
    order = torch.randperm(len(sizes), generator=generator)[:parts].tolist()
    for i in order if tensors else []:
        inside = slice(starts[i], starts[i + 1])
        way = torch.zeros_like(theta)
        draw = torch.randn(sizes[i], generator=generator, dtype=torch.float64)
        way[inside] = (draw / draw.norm()).to(theta)
        own = max(float(theta[inside].norm()), SMALLEST)
        near = [own * h for h in STEPS[theta.dtype]]
        found = _slope_along(few, base, slope, theta, way, near, slope[inside])
        if found == "kink":
            return DerivativeDefects(None, None, True)
        if found is not None:
            return DerivativeDefects(found, None)
    if second_on_all:
        few, (base, slope) = functional, all_of_it
    wrong = _hessian_complaint(few, slope, base, theta, (u, v, along), steps)
    return DerivativeDefects(None, None, True) if wrong == "kink" else DerivativeDefects(None, wrong)


def _difference(functional: Functional, a: Tensor, b: Tensor) -> tuple[float, float]:
    """weights . (a - b), and how much of it may be rounding; outputs that do not change are exact."""
    changed = a != b
    scale = (functional.weights * torch.maximum(a.abs(), b.abs()))[changed]
    rounding = ROUNDING * torch.finfo(a.dtype).eps * float(scale.norm())
    return float((functional.weights * (a - b)).sum()), rounding


def _slope_along(
    functional: Functional,
    base: Tensor,
    slope: Tensor,
    theta: Tensor,
    way: Tensor,
    steps: list[float],
    part: Tensor | None = None,
) -> str | None:
    """Whether `slope` is the derivative along `way`.

    `part`: the entries of the slope along which `way` goes, if it goes along few; their size then says what counts,
    down to `NEGLIGIBLE` of that of all.

    Returns:
        None where it is, "kink" where there is none, else what is wrong.
    """
    expected = float(slope.double() @ way.double())
    typical = float(slope.norm()) / len(theta) ** 0.5
    if part is not None:
        typical = max(float(part.norm()) / len(part) ** 0.5, NEGLIGIBLE * typical)
    centrals: list[float] = []
    jumps: list[bool] = []
    agree: list[bool] = []
    for h in steps:
        up, down = functional.outputs(theta + h * way), functional.outputs(theta - h * way)
        if not (up.isfinite().all() and down.isfinite().all()):
            continue
        central, rounding = _difference(functional, up, down)
        scale = max(typical, abs(expected))
        floor = rounding / h if scale == 0.0 else min(rounding / h, 0.1 * scale)
        allowed = TOLERANCE[theta.dtype] * scale + floor
        centrals.append(central / (2 * h))
        # A smaller step, which loses its digits, acquits nothing that larger ones have shown to be wrong.
        shown = any(same and not jump for jump, same in zip(jumps, agree))
        if abs(centrals[-1] - expected) <= allowed and not shown:
            return None
        # Only differences that agree with each other tell: among many units some kink is always near, and smaller
        # steps lose their digits.
        agree = [abs(a - b) <= CONVERGED * abs(a - expected) for a, b in pairwise(centrals)]
        # Output by output: in their sum the jumps of many units may cancel.
        second = float((functional.weights * (up - 2 * base + down)).abs().sum()) / h
        jumps.append(second > 1.5 * allowed)
    if not any(agree):
        return None if not jumps or not all(jumps[-2:]) else "kink"
    if all(jump for jump, same in zip(jumps, agree) if same):
        return "kink"
    return (
        "what automatic differentiation gives is not the derivative of the network's outputs (a custom backward "
        "pass, weights that are read as numbers, or the padding row of an embedding)"
    )


def _hessian_complaint(
    functional: Functional,
    slope: Tensor,
    base: Tensor,
    theta: Tensor,
    ways: tuple[Tensor, Tensor, Tensor],
    steps: list[float],
) -> str | None:
    """None, what is wrong with Hessian products, or "kink" where the gradient jumps at theta itself."""
    u, v, along = ways
    try:
        hu, hv, ha = (functional.product(way) for way in ways)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, NotDefined) as error:
        return f"second derivatives cannot be computed ({' '.join(str(error).split())[:120]})"
    unit = torch.finfo(theta.dtype).eps * float(slope.norm())
    largest = max(float(hu.norm()), float(hv.norm()))
    if abs(float(u @ hv) - float(v @ hu)) > ASYMMETRY[theta.dtype] * largest + 1e4 * unit / max(steps):
        return "Hessian products are not symmetric"
    for way, image in ((u, hu), (along, ha)):
        differences: list[Tensor] = []
        errors: list[float] = []
        for h in steps:
            change = functional.gradient(theta + h * way) - functional.gradient(theta - h * way)
            differences.append(change / (2 * h))
            errors.append(float((differences[-1] - image).norm()))
            if errors[-1] <= TOLERANCE[theta.dtype] * float(image.norm()) + ROUNDING * unit / h:
                break
            if (
                len(errors) > 1
                and float((differences[-2] - differences[-1]).norm()) <= CONVERGED * errors[-2]
            ):
                return "Hessian products are not the derivative of the gradient"
        else:
            if all(b > 3 * a for a, b in pairwise(errors)):
                return "kink"
    return None
