"""Worst-case and average-case rise of the loss at a fixed Euclidean distance from the parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

Projection = Callable[[Tensor], Tensor]
PUSH = 0.01  # of the radius, off a point where an ascent starts and does not rise
# Of the rise: what the linearised loss promises at most where an ascent has arrived.
PROMISE = {torch.float64: 1e-9, torch.float32: 1e-5}


class Surface(Protocol):
    """A loss as a function of a flat vector: `Landscape`, or one in other coordinates."""

    def theta(self) -> Tensor:
        """Where perturbations start from (d,)."""

    def value(self, theta: Tensor | None = None) -> float:
        """The loss at `theta` (d,), by default where perturbations start from."""

    def value_and_gradient(self, theta: Tensor | None = None) -> tuple[float, Tensor]:
        """The loss there and its gradient (d,)."""


@dataclass(frozen=True)
class Ball:
    """|delta| <= radius in the Euclidean norm ("l2") or the largest modulus ("linf")."""

    radius: float
    norm: str = "l2"

    def clip(self, vector: Tensor, projected: bool) -> Tensor:
        """The nearest point of the ball; in a subspace of the maximum norm the nearest on the way to 0."""
        if self.norm == "linf" and not projected:
            return vector.clamp(-self.radius, self.radius)
        size = self.size(vector)
        return vector if size <= self.radius else vector * (self.radius / size)

    def size(self, vector: Tensor) -> float:
        """The norm of a vector (d,)."""
        return float(torch.linalg.vector_norm(vector, math.inf if self.norm == "linf" else 2))

    def steepest(self, gradient: Tensor) -> Tensor:
        """The direction of unit size in which a linear function grows most."""
        if self.norm == "linf":
            return gradient.sign()
        unit: Tensor = gradient / torch.linalg.vector_norm(gradient)
        return unit

    def promise(self, gradient: Tensor, delta: Tensor) -> float:
        """max over the ball of gradient . (x - delta): 0 where delta is stationary (the Frank-Wolfe gap)."""
        dual = torch.linalg.vector_norm(gradient.double(), 1 if self.norm == "linf" else 2)
        return float(self.radius * dual - gradient.double() @ delta.double())


@dataclass(frozen=True)
class Maximum:
    """The best rise found in the ball: a lower bound of the maximum.

    `course[i]` is the best rise after i steps of every ascent that went from the network itself, `halfway` that
    after half of all steps, so `value - halfway` is the gain from doubling them.
    `perturbation` (d,) attains `value`. `starts` lists the best rise of each ascent.
    """

    value: float
    course: list[float]
    steps: int
    perturbation: Tensor
    starts: list[float]
    gradients: int

    @property
    def halfway(self) -> float:
        """The best value after half of the steps."""
        return self.course[self.steps // 2]

    @property
    def gain(self) -> float:
        """What the second half of the steps added, relative to the value after the first (0 where all are 0)."""
        if self.halfway > 0:
            return self.value / self.halfway - 1.0
        return math.inf if self.value > 0 else 0.0


def identity(vector: Tensor) -> Tensor:
    """The projection onto all of space."""
    return vector


def maximise(
    landscape: Surface,
    radius: float,
    steps: int,
    restarts: int,
    generator: torch.Generator,
    projection: Projection = identity,
    warm_starts: tuple[Tensor, ...] = (),
    norm: str = "l2",
    origin: tuple[float, Tensor] | None = None,
) -> Maximum:
    """max over |delta| <= radius, delta = projection(delta), of L(theta + delta) - L(theta).

    Ascents start at the boundary point in the direction of the gradient, at random points of the sphere
    (`restarts` - 1 of them) and at `warm_starts`; see `_ascend`. The best iterate is kept and delta = 0 is always
    allowed, so the value is never negative. An ascent goes the same way whatever `steps` is. The loss of an
    iterate is taken from the pass that gives its gradient: an ascent of `steps` steps costs at most `steps` + 1
    gradients. `origin`: loss and gradient at theta, where they are known.

    Returns:
        The best value, where it is attained, and the course of the best ascent.

    Raises:
        ValueError: a loss that is not finite.
    """
    ball, projected = Ball(radius, norm), projection is not identity
    theta = landscape.theta()
    base, gradient = landscape.value_and_gradient(theta) if origin is None else origin
    gradient = projection(gradient)
    length = float(torch.linalg.vector_norm(gradient))
    if not (math.isfinite(base) and math.isfinite(length)):
        raise ValueError("the loss or its gradient is not finite at the network's own parameters")
    starts: list[Tensor] = []
    if length > 0:
        starts.append(ball.clip(projection(ball.steepest(gradient) * radius), projected))
    while len(starts) < max(1, restarts):
        draw = on_sphere(theta, radius, generator, projection)
        starts.append(draw * (radius / ball.size(draw)))
    ascents = [_ascend(landscape, base, start, ball, steps, projection) for start in starts]
    ascents += [improve(landscape, radius, steps, start, projection, norm, base) for start in warm_starts]
    return _best(theta, ascents, 1 if origin is None else 0)


def improve(
    landscape: Surface,
    radius: float,
    steps: int,
    start: Tensor,
    projection: Projection = identity,
    norm: str = "l2",
    base: float | None = None,
) -> Ascent:
    """One ascent of `steps` steps from the projection of `start`; `base`: the loss at theta, where it is known."""
    ball = Ball(radius, norm)
    base = landscape.value() if base is None else base
    start = ball.clip(projection(start), projection is not identity)
    return _ascend(landscape, base, start, ball, steps, projection, known=True)


@dataclass(frozen=True)
class Ascent:
    """`best[i]` is the largest rise among the first i + 1 iterates, `perturbation` where the last of them is."""

    best: list[float]
    perturbation: Tensor
    gradients: int


def extended(maximum: Maximum, ascent: Ascent) -> Maximum:
    """The better of an earlier maximum and an ascent that goes on, whose steps count as further ones."""
    value, delta = maximum.value, maximum.perturbation
    if ascent.best[-1] > value:
        value, delta = ascent.best[-1], ascent.perturbation
    gradients = maximum.gradients + ascent.gradients
    steps = maximum.steps + len(ascent.best) - 1
    return Maximum(value, maximum.course, steps, delta, [*maximum.starts, ascent.best[-1]], gradients)


def _best(theta: Tensor, ascents: list[Ascent], gradients: int) -> Maximum:
    best, delta = 0.0, torch.zeros_like(theta)
    for ascent in ascents:
        if ascent.best[-1] > best:
            best, delta = ascent.best[-1], ascent.perturbation
    course = [max(0.0, *rises) for rises in zip(*(a.best for a in ascents))]
    gradients += sum(a.gradients for a in ascents)
    return Maximum(best, course, len(course) - 1, delta, [a.best[-1] for a in ascents], gradients)


def _ascend(
    landscape: Surface,
    base: float,
    start: Tensor,
    ball: Ball,
    steps: int,
    projection: Projection,
    known: bool = False,
) -> Ascent:
    """Each step goes to where the linearised loss is largest in the ball, with momentum that grows.

    For convex losses that alone never descends (the generalised power method of Journee et al. 2010). Where a
    step gains nothing, the next goes from the best iterate half of the way, without momentum; two gains
    in a row double the way again. It ends early where it has arrived: the linearised loss promises at most
    `PROMISE` of the rise, and the last step gained nothing or promises have fallen twice (near a saddle they grow).
    No rule depends on `steps`: twice the steps go on from where half of them end.

    Returns:
        The course of the best value and the best point.

    Raises:
        ValueError: a loss that is not finite.
    """
    theta, projected = landscape.theta(), projection is not identity
    current = previous = best_delta = best_gradient = start
    history: list[float] = []
    promises: list[float] = []
    small = PROMISE.get(
        getattr(landscape, "dtype", theta.dtype), 0.0
    )  # coordinates may be finer than the loss
    best, share, gains = -math.inf, 1.0, 0
    for step in range(steps + 1):
        loss, gradient = landscape.value_and_gradient(theta + current)
        rise = loss - base
        if not math.isfinite(rise):
            raise ValueError("the loss is not finite within the radius")
        gained = rise > best
        if gained:
            best, best_delta, best_gradient = rise, current, projection(gradient)
            promises.append(ball.promise(best_gradient, best_delta))
            if gains > 1:
                share = min(1.0, 2.0 * share)
        else:
            share, gains = 0.5 * share, 0
            current = previous = best_delta
        history.append(best)
        length = float(torch.linalg.vector_norm(best_gradient))
        if step == steps or not math.isfinite(length) or length == 0.0:
            break
        still = not gained and len(promises) < 3 and promises[-1] <= small * best
        if still and not known:  # where it started: perhaps on a saddle, which a little push leaves
            known = True
            push = on_sphere(theta, PUSH * ball.radius, torch.Generator().manual_seed(0), projection)
            following = best_delta + push
            current = ball.clip(following * (ball.radius / ball.size(following)), projected)
            continue
        if _arrived(promises, best, gained, small, known) and not (projected and ball.norm == "linf"):
            break
        target = ball.steepest(best_gradient) * ball.radius
        if projected and ball.norm == "linf":
            target = projection(target)
            target = target * (ball.radius / ball.size(target))
        momentum = min(0.7, gains / (gains + 6.0))
        following = current + share * (target - current) + momentum * (current - previous)
        if share == 1.0 and ball.norm == "l2":
            following = following * (ball.radius / ball.size(following))
        previous, current = current, ball.clip(following, projected)
        gains += 1
    history += [best] * (steps + 1 - len(history))
    return Ascent(history, best_delta, step + 1)


def _arrived(promises: list[float], rise: float, gained: bool, small: float, known: bool) -> bool:
    """Whether an ascent has nothing left to find: little is promised, and that is no saddle it is just leaving.

    `promises` are those of the iterates that gained, the last of which rose by `rise`; `small` is a share of that.
    A step that gains nothing says so only where the ascent has come some way or starts where another ended
    (`known`): at a saddle itself a step gains nothing until rounding has grown.

    Returns:
        True where further steps are not worth their gradients.
    """
    if promises[-1] > small * rise:
        return False
    falling = len(promises) > 2 and promises[-1] < promises[-2] < promises[-3]
    return falling or (not gained and (known or len(promises) > 2))


def on_sphere(like: Tensor, radius: float, generator: torch.Generator, projection: Projection) -> Tensor:
    """A uniform point (d,) of the sphere in the range of `projection`, of the type of `like`."""
    draw = torch.randn(len(like), generator=generator, dtype=torch.float64)
    vector = projection(draw.to(device=like.device, dtype=like.dtype))
    return vector * (radius / float(torch.linalg.vector_norm(vector)))
