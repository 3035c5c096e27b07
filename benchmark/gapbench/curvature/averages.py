"""The mean rise of the loss over random perturbations, with what curvature foretells as a control variate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gapbench.curvature.sharpness import Projection, Surface, identity, on_sphere

FEWEST = 8  # samples from which a coefficient of the control variate is estimated


@dataclass(frozen=True)
class Average:
    """Mean rise and its standard error over the sampled directions; `samples` counts antithetic pairs."""

    value: float
    standard_error: float
    samples: int


@dataclass(frozen=True)
class Control:
    """c(delta) = 0.5 (Q delta)' T (Q delta): the rise where curvature is largest.

    `basis` is Q (m, d), `form` T (m, m), both fixed, and `mean` is its expectation for directions drawn at
    radius 1.
    """

    basis: Tensor
    form: Tensor
    mean: float

    def __call__(self, delta: Tensor, radius: float) -> float:
        """c(delta) less its expectation for directions (d,) drawn at that radius."""
        seen = self.basis @ delta.double()
        return float(0.5 * seen @ self.form @ seen) - self.mean * radius**2


def on_spheres(basis: Tensor, form: Tensor, projection: Projection, left: int, dtype: torch.dtype) -> Control:
    """For directions uniform on the sphere in the range of `projection`, which has `left` dimensions.

    E (Q delta)' T (Q delta) = tr(T Q P Q') / left for unit delta, whatever Q and T are.

    Returns:
        The control variate.
    """
    images = basis
    if projection is not identity:
        images = torch.stack([projection(row.to(dtype)).double() for row in basis])
    return Control(basis, form, 0.5 * float((form * (basis @ images.T)).sum()) / left)


def independent(basis: Tensor, form: Tensor, variance: float) -> Control:
    """For perturbations (d,) of independent entries with mean 0 and that variance at radius 1.

    Returns:
        The control variate.
    """
    return Control(basis, form, 0.5 * variance * float((form * (basis @ basis.T)).sum()))


def average(
    landscape: Surface,
    radius: float,
    samples: int,
    generator: torch.Generator,
    projection: Projection = identity,
    draw: Callable[[torch.Generator], Tensor] | None = None,
    control: Control | None = None,
) -> Average:
    """Mean of L(theta + delta) - L(theta) over the sphere |delta| = radius (within the projection's range).

    With `draw`, perturbations come from there instead. Antithetic pairs [L(+delta) + L(-delta)] / 2 cancel the
    gradient's term, and `control` what is known of the second order; see `controlled`.

    Returns:
        The mean and its standard error, which covers the directions, not the choice of examples; it is infinite for
        a single pair.
    """
    theta = landscape.theta()
    base = landscape.value(theta)
    rises, known = [], []
    for _ in range(samples):
        delta = on_sphere(theta, radius, generator, projection) if draw is None else draw(generator)
        rises.append(0.5 * (landscape.value(theta + delta) + landscape.value(theta - delta)) - base)
        known.append(0.0 if control is None else control(delta, radius))
    return controlled(torch.tensor(rises, dtype=torch.float64), torch.tensor(known, dtype=torch.float64))


def controlled(values: Tensor, known: Tensor) -> Average:
    """The mean of `values` (n,), with the help of `known` (n,), whose expectation is 0.

    Mean of y_i - b_i c_i, where b_i is the regression coefficient of y on c over all others, which does not depend
    on c_i: so the mean has no bias. Without help where there are fewer than `FEWEST` values, or c is constant.

    Returns:
        The mean and the standard error of those differences, and their number.
    """
    n = len(values)
    if n >= FEWEST and bool(known.isfinite().all()):
        y, c = values - values.mean(), known - known.mean()
        # Leaving out i takes n / (n - 1) y_i c_i from the sum of products.
        left = (y @ c) - n / (n - 1) * y * c
        spread = (c @ c) - n / (n - 1) * c * c
        if bool((spread > 1e-6 * (known @ known)).all()):
            values = values - left / spread * known
    error = float(values.std(correction=1)) / math.sqrt(n) if n > 1 else math.inf
    return Average(float(values.mean()), error, n)
