"""Worst cases over a ball and over its horizontal part, searched with equal effort and started from each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from gapbench.curvature.sharpness import Maximum, Surface
    from gapbench.proxies.context import Context

LARGEST_GAIN = 0.05


@dataclass(frozen=True)
class Ascents:
    """The searches on one surface; each is made once for all proxies that ask, whichever comes first.

    Both spaces take `restarts` ascents of `steps` steps from the network itself, the horizontal ones from the
    projections of the same directions. Then the best of the full space, projected, starts one more of half as many
    steps in the horizontal space, and the best of that space one more in the full space, whose value is therefore
    never smaller. `projection` gives the projection onto the horizontal space when it is first needed.
    """

    context: Context
    kind: str
    surface: Surface
    projection: Callable[[], Callable[[Tensor], Tensor]]
    radius: float
    steps: int
    restarts: int
    norm: str = "l2"

    def own(self) -> Maximum:
        """The best in the full space without help from the horizontal one."""
        return self._shared("own", lambda: self._plain({}))

    def quotient(self) -> Maximum:
        """The best in the horizontal space."""
        return self._shared("quotient", self._quotient)

    def full(self) -> Maximum:
        """The best in the full space; not less than `quotient`."""
        return self._shared("full", self._full)

    def _shared(self, name: str, compute: Callable[[], Maximum]) -> Maximum:
        key = f"{name} maximum, {self.kind} {self.norm} {self.radius!r} {self.steps} {self.restarts}"
        return self.context.shared(key, compute)

    def _origin(self) -> tuple[float, Tensor]:
        key = f"loss and gradient, {self.kind}"
        return self.context.shared(key, self.surface.value_and_gradient)

    def _plain(self, options: dict[str, Any]) -> Maximum:
        import torch

        from gapbench.curvature.sharpness import maximise
        from gapbench_base.seeds import named_seed

        generator = torch.Generator().manual_seed(named_seed("ascents", self.kind, ascent_seed(self.context)))
        options = {"norm": self.norm, "origin": self._origin(), **options}
        return maximise(self.surface, self.radius, self.steps, self.restarts, generator, **options)

    def _quotient(self) -> Maximum:
        from gapbench.curvature.sharpness import Ball

        own, project = self.own(), self.projection()
        plain = self._plain({"projection": project})
        start = project(own.perturbation)
        size = Ball(self.radius, self.norm).size(start)
        # Where the full maximiser is vertical, its projection is rounding: the own best goes on instead.
        vertical = size <= 1e-6 * self.radius
        start = plain.perturbation if vertical else start * (self.radius / size)
        return self._continued(plain, start, {"projection": project})

    def _full(self) -> Maximum:
        import dataclasses

        own, quotient = self.own(), self.quotient()
        found = self._continued(own, quotient.perturbation, {})
        if quotient.value > found.value:  # by rounding alone
            found = dataclasses.replace(found, value=quotient.value, perturbation=quotient.perturbation)
        return found

    def _continued(self, plain: Maximum, start: Tensor, options: dict[str, Any]) -> Maximum:
        from gapbench.curvature.sharpness import extended, improve

        options = {"norm": self.norm, "base": self._origin()[0], **options}
        more = improve(self.surface, self.radius, -(-self.steps // 2), start, **options)
        return extended(plain, more)


def ascent_seed(context: Context) -> int:
    """One seed for all ascents on a context: where it was not given, that of the first proxy which asks."""
    seed: int = context._cache.setdefault("ascent_seed", context._cache.get("seed", 0))
    return seed


def maximum_details(best: Maximum, radius: float, steps: int, restarts: int) -> dict[str, Any]:
    """Effort, what the second half of the steps gained relative to the first, and whether that is at most 5 %."""
    return {
        "radius": radius,
        "steps": steps,
        "restarts": restarts,
        "gain_from_doubling": best.gain,
        "converged": best.gain <= LARGEST_GAIN,
        "ascents": best.starts,
        "gradients": best.gradients,
    }
