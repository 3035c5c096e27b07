"""Worst-case and average-case rise of the loss at a fixed Euclidean distance from the parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

Projection = Callable[[Tensor], Tensor]


class Surface(Protocol):
    """A loss as a function of a flat vector: `Landscape`, or one in other coordinates."""

    def theta(self) -> Tensor: ...
    def value(self, theta: Tensor | None = None) -> float: ...
    def value_and_gradient(self, theta: Tensor | None = None) -> tuple[float, Tensor]: ...


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
        return float(torch.linalg.vector_norm(vector, math.inf if self.norm == "linf" else 2))

    def steepest(self, gradient: Tensor) -> Tensor:
        """The direction of unit size in which a linear function grows most."""
        if self.norm == "linf":
            return gradient.sign()
        return gradient / torch.linalg.vector_norm(gradient)


@dataclass(frozen=True)
class Maximum:
    """The best rise found in the ball: a lower bound of the maximum.

    `halfway` is the best rise after half of the steps, so `value - halfway` is the gain from doubling them.
    `perturbation` (d,) attains `value`. `starts` lists the best rise of each ascent.
    """

    value: float
    halfway: float
    perturbation: Tensor
    starts: list[float]
    gradients: int


def _identity(vector: Tensor) -> Tensor:
    return vector


def maximise(
    landscape: Surface,
    radius: float,
    steps: int,
    restarts: int,
    generator: torch.Generator,
    projection: Projection = _identity,
    warm_starts: tuple[Tensor, ...] = (),
    norm: str = "l2",
) -> Maximum:
    """max over |delta| <= radius, delta = projection(delta), of L(theta + delta) - L(theta).

    Ascents start at the boundary point in the direction of the gradient, at random points of the sphere
    (`restarts` - 1 of them) and at `warm_starts`. Each is a projected gradient ascent with momentum whose
    step, 2 radius at first, is halved when it no longer helps (after Croce and Hein 2020, Auto-PGD); the best
    iterate is kept and delta = 0 is always allowed, so the value is never negative. Raises `ValueError` where a
    loss is not finite. The loss of an iterate is
    taken from the pass that gives its gradient: an ascent of `steps` steps costs `steps` + 1 gradients.
    """
    ball, projected = Ball(radius, norm), projection is not _identity
    theta = landscape.theta()
    base, gradient = landscape.value_and_gradient(theta)
    gradient = projection(gradient)
    length = float(torch.linalg.vector_norm(gradient))
    if not (math.isfinite(base) and math.isfinite(length)):
        raise ValueError("the loss or its gradient is not finite at the network's own parameters")
    starts: list[Tensor] = []
    if length > 0:
        starts.append(ball.clip(projection(ball.steepest(gradient) * radius), projected))
    while len(starts) < max(1, restarts):
        draw = _on_sphere(theta, radius, generator, projection)
        starts.append(draw * (radius / ball.size(draw)))
    starts += [ball.clip(projection(w), projected) for w in warm_starts]

    best, halfway, best_delta = 0.0, 0.0, torch.zeros_like(theta)
    found: list[float] = []
    for start in starts:
        value, half, delta = _ascend(landscape, theta, base, start, ball, steps, projection)
        found.append(value)
        halfway = max(halfway, half)
        if value > best:
            best, best_delta = value, delta
    return Maximum(best, halfway, best_delta, found, 1 + len(starts) * (steps + 1))


def _ascend(
    landscape: Surface,
    theta: Tensor,
    base: float,
    start: Tensor,
    ball: Ball,
    steps: int,
    projection: Projection,
) -> tuple[float, float, Tensor]:
    """Best rise over all iterates, best rise over the first half of them, and where the best is."""
    checkpoints, projected = _checkpoints(steps), projection is not _identity
    current = previous = start
    size = 2.0 * ball.radius
    best, half, best_delta = -math.inf, -math.inf, start
    improved, since, best_at_check, size_at_check = 0, 0, -math.inf, size
    last = -math.inf
    best_gradient = torch.zeros_like(theta)
    for step in range(steps + 1):
        loss, gradient = landscape.value_and_gradient(theta + current)
        rise = loss - base
        gradient = projection(gradient)
        if not math.isfinite(rise):
            raise ValueError("the loss is not finite within the radius")
        if rise > last:
            improved += 1
        if rise > best:
            best, best_delta, best_gradient = rise, current, gradient
        last = rise
        if step <= steps // 2:
            half = best
        if step == steps:
            break
        since += 1
        if step in checkpoints:
            stalled = best_at_check == best and size_at_check == size
            size_at_check = size
            if improved < 0.75 * since or stalled:
                size /= 2.0
                current = previous = best_delta
                gradient = best_gradient
            improved, since, best_at_check = 0, 0, best
        norm = float(torch.linalg.vector_norm(gradient))
        if not math.isfinite(norm) or norm == 0.0:
            break
        direction = ball.steepest(gradient)
        if projected and ball.norm == "linf":
            direction = projection(direction)
        moved = ball.clip(current + size * direction, projected)
        weight = 0.75 if step > 0 else 1.0
        following = ball.clip(
            current + weight * (moved - current) + (1 - weight) * (current - previous), projected
        )
        previous, current = current, following
    return best, half, best_delta


def _checkpoints(steps: int) -> set[int]:
    """Where the step may be halved: after 22 % of the steps, then at ever shorter distances (ibid.)."""
    position, previous, marks = 0.22, 0.0, set()
    while math.ceil(position * steps) < steps:
        marks.add(math.ceil(position * steps))
        position, previous = position + max(position - previous - 0.03, 0.06), position
    return marks


def _on_sphere(like: Tensor, radius: float, generator: torch.Generator, projection: Projection) -> Tensor:
    draw = torch.randn(len(like), generator=generator, dtype=torch.float64)
    vector = projection(draw.to(device=like.device, dtype=like.dtype))
    return vector * (radius / float(torch.linalg.vector_norm(vector)))


@dataclass(frozen=True)
class Average:
    """Mean rise and its standard error over the sampled directions; `samples` counts antithetic pairs."""

    value: float
    standard_error: float
    samples: int


def average(
    landscape: Surface,
    radius: float,
    samples: int,
    generator: torch.Generator,
    projection: Projection = _identity,
    draw: Callable[[torch.Generator], Tensor] | None = None,
) -> Average:
    """Mean of L(theta + delta) - L(theta) over the sphere |delta| = radius (within the projection's range).

    With `draw`, perturbations come from there instead. Antithetic pairs [L(+delta) + L(-delta)] / 2 cancel the gradient's term. The standard error covers the
    directions, not the choice of examples; it is infinite for a single pair.
    """
    theta = landscape.theta()
    base = landscape.value(theta)
    rises = []
    for _ in range(samples):
        delta = _on_sphere(theta, radius, generator, projection) if draw is None else draw(generator)
        rises.append(0.5 * (landscape.value(theta + delta) + landscape.value(theta - delta)) - base)
    rises_tensor = torch.tensor(rises, dtype=torch.float64)
    error = float(rises_tensor.std(correction=1)) / math.sqrt(samples) if samples > 1 else math.inf
    return Average(float(rises_tensor.mean()), error, samples)
