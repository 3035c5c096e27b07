"""The least size at which the worst perturbation of that size has raised something by a given amount."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from gapbench.curvature.crossing import COARSE, AlreadyPassed, Crossing, crossing
from gapbench.curvature.sharpness import Maximum, Surface, improve, maximise
from gapbench_base.errors import NotDefined

SHORT = 3  # steps of an ascent between two searches along a line
ROUNDS = 4  # of these, as long as each makes the size smaller by a tolerance
CERTIFICATES = 6  # whole ascents that may find something smaller, before every size gets one


class Shapes(Protocol):
    """Sets of perturbations by their size, in coordinates xi (d,) in which each is the unit ball of `norm`."""

    norm: str

    def surface(self, size: float) -> Surface:
        """The loss in these coordinates."""

    def origin(self, size: float) -> tuple[float, Tensor]:
        """The loss and its gradient in xi (d,) at xi = 0."""

    def rise(self, size: float, xi: Tensor) -> float:
        """By how much what is asked for has risen at xi (d,)."""


@dataclass
class LeastPerturbation:
    """Search for the least size of `shapes` at which an ascent of `steps` steps finds a rise of `level`.

    The size at which a perturbation of fixed direction has raised it by `level` is an upper bound that takes
    evaluations alone. Short ascents from where the last ended make it smaller; then an ascent from the gradient, as
    long as is asked for, is made at a size that is smaller by half of the tolerance. Where it finds less than
    `level` the bound is what the search by such ascents at every size would give, or is smaller (as long as what
    they find grows with the size); where not, its direction is followed in the same way.
    """

    shapes: Shapes
    steps: int
    level: float
    start: float
    span: float
    tolerance: float
    what: str
    gradients: int = 0
    trials: int = field(default=0)

    def search(self) -> Crossing:
        """The size, attained by a perturbation that was found.

        Returns:
            It, and how many sizes and directions were tried.

        Raises:
            AlreadyPassed: the level is passed at the smallest size.
            NotDefined: it is not reached.
        """
        try:
            found = self._followed()
        except AlreadyPassed as reason:  # by a perturbation that is no worse than the worst
            raise self._passed() from reason
        except (NotDefined, ValueError):  # a line that does not reach the level, a loss that is not finite
            found = None
        if found is None:
            other = crossing(self._whole_rise, self.level, self.start, self.span, self.tolerance, self.what)
            return Crossing(other.value, None, self.trials)
        return Crossing(found, None, self.trials)

    def _followed(self) -> float | None:
        """The size by following directions; None without a gradient, or where that comes to no end."""
        _, gradient = self.shapes.origin(self.start)
        length = float(torch.linalg.vector_norm(gradient))
        if not (math.isfinite(length) and length > 0):
            return None
        xi = gradient.sign() if self.shapes.norm == "linf" else gradient / length
        size = self._along(xi, self.start, near=False)
        for _ in range(CERTIFICATES):
            size, xi = self._shortened(size, xi)
            size = self._along(xi, size)
            low = size * math.exp(-0.5 * self.tolerance)
            whole = self._whole(low).perturbation
            if self._rise(low, whole) <= self.level:
                return size
            size, xi = self._along(whole, low, COARSE), whole
        return None

    def _shortened(self, size: float, xi: Tensor) -> tuple[float, Tensor]:
        """By short ascents, each from the direction in which the last ended."""
        for _ in range(ROUNDS):
            surface, (base, _) = self.shapes.surface(size), self.shapes.origin(size)
            ascent = improve(surface, 1.0, SHORT, xi, norm=self.shapes.norm, base=base)
            self.gradients += ascent.gradients
            following = self._along(ascent.perturbation, size, COARSE)
            gained = math.log(size / following)
            if gained > 0:
                size, xi = following, ascent.perturbation
            if gained <= self.tolerance:
                break
        return size, xi

    def _along(self, xi: Tensor, size: float, tolerance: float = 0.0, near: bool = True) -> float:
        """The size at which `xi` has risen by the level."""
        found = crossing(
            lambda s: torch.tensor([self._rise(s, xi)], dtype=torch.float64),
            self.level,
            size,
            self.span,
            tolerance or (self.tolerance if near else COARSE),
            self.what,
            near,
        )
        if found.value < self.start / self.span:
            raise self._passed()
        return found.value

    def _passed(self) -> AlreadyPassed:
        least = self.start / self.span
        return AlreadyPassed(f"{self.what} is above {self.level:g} at the smallest size tried, {least:.3g}")

    def _rise(self, size: float, xi: Tensor) -> float:
        self.trials += 1
        found = self.shapes.rise(size, xi)
        return found if math.isfinite(found) else math.inf

    def _whole(self, size: float) -> Maximum:
        """An ascent from the gradient."""
        generator, norm = torch.Generator().manual_seed(0), self.shapes.norm
        origin = self.shapes.origin(size)
        best = maximise(self.shapes.surface(size), 1.0, self.steps, 1, generator, norm=norm, origin=origin)
        self.gradients += best.gradients
        return best

    def _whole_rise(self, size: float) -> Tensor:
        try:
            best = self._whole(size).perturbation
        except ValueError:  # a loss that is not finite on the way
            return torch.tensor([math.inf])
        return torch.tensor([self._rise(size, best)], dtype=torch.float64)
