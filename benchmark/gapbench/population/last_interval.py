"""End training where the criterion is met, not at the end of the epoch in which it was found to be met.

Training looks at its criterion between epochs. Where an epoch has few steps, or few epochs are looked at, the
loss then is anywhere below the criterion, up to a factor of ten, and differs between networks for no reason of
theirs. So the steps since it was last looked at are taken again: a step is searched that brings the loss to the
criterion, and if that step leads far below it, only a part of it is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from torch import nn

from gapbench.population.moments import Moment, give_values

WITHIN = 0.95
"""Training ends with a loss between this share of `stop_loss` and `stop_loss` itself."""
AIM = 0.5 * (1.0 + WITHIN)
MOST_PARTS = 60
"""Evaluations in search of the part of a step; halving alone needs as many for the last bit of a double."""

Walk = Callable[[Moment, int], Moment]
"""Takes a network from a moment to a number of steps, and gives the moment there, the loss evaluated."""


def end_at_criterion(model: nn.Module, before: Moment, reached: Moment, stop_loss: float, walk: Walk) -> int:
    """Leave `model` where its training loss is at most `stop_loss` and, as nearly as steps allow, not far below.

    Args:
        model: the network; it is changed in place.
        before: a moment at which the criterion was not met (or not looked at), `reached` a later one at which it
            is, with its loss.
        reached: see `before`.
        stop_loss: the criterion, in nats.
        walk: trains, from `before` or a moment that it gave.

    Returns:
        The number of steps taken, the last of them perhaps in part.
    """
    bracket = _Search(before.loss, reached.loss, stop_loss)
    while not bracket.done and reached.steps - before.steps > 1:
        share = bracket.guess()
        inside = before.steps + round(share * (reached.steps - before.steps))
        found = walk(before, min(max(inside, before.steps + 1), reached.steps - 1))
        if bracket.below(found.loss):
            reached = found
        else:
            before = found
    if bracket.done:
        give_values(model, reached.values)
    else:
        _part_of_a_step(model, before, reached, bracket, walk)
    return reached.steps


def _part_of_a_step(model: nn.Module, before: Moment, reached: Moment, bracket: _Search, walk: Walk) -> None:
    """Take only so much of the step between two moments as is needed."""
    low, high, kept = 0.0, 1.0, reached.values
    for _ in range(MOST_PARTS):
        part = low + bracket.guess() * (high - low)
        values = {
            name: start.lerp(reached.values[name], part)
            if start.is_floating_point()
            else reached.values[name]
            for name, start in before.values.items()
        }
        found = walk(replace(before, values=values), before.steps)
        if bracket.below(found.loss):
            high, kept = part, values
        else:
            low = part
        if bracket.done:
            break
    give_values(model, kept)


class _Search:
    """Between a loss above the criterion and one at most as large: where to look next."""

    def __init__(self, above: float | None, below: float | None, stop_loss: float):
        assert below is not None
        self._above, self._below, self._stop = above, below, stop_loss
        self._side, self._same_side = 0, 0

    @property
    def done(self) -> bool:
        """Whether the loss below is near enough to the criterion."""
        return self._below >= WITHIN * self._stop

    def guess(self) -> float:
        """Where on the way, as a share of it, the loss is expected at the criterion, falling exponentially.

        Returns:
            The middle where that has brought no end twice.
        """
        above, below = self._above, self._below
        if self._same_side > 1 or above is None or not math.isfinite(above) or below <= 0 or above <= below:
            return 0.5
        share = math.log(above / (AIM * self._stop)) / math.log(above / below)
        return min(max(share, 0.02), 0.98)

    def below(self, loss: float | None) -> bool:
        """Take note of a loss in between.

        Returns:
            Whether it meets the criterion.
        """
        assert loss is not None
        met = loss <= self._stop
        side = 1 if met else -1
        self._same_side = self._same_side + 1 if self._side == side else 1
        self._side = side
        if met:
            self._below = loss
        else:
            self._above = loss
        return met
