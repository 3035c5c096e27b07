"""At which size of a perturbation something has risen by a given amount."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gapbench_base.errors import NotDefined

GROWTH = 4.0  # factor by which sizes are tried until the level lies between two of them


@dataclass(frozen=True)
class Crossing:
    """Where the mean rise passes a level.

    `log_error` is the standard error of ln `value` (None: one sample only), by leaving out each sample in turn.
    `trials` counts the sizes that were tried.
    """

    value: float
    log_error: float | None
    trials: int


class _Trials:
    """The rises that were seen, by the logarithm of the size."""

    def __init__(self, rise: Callable[[float], Tensor]):
        self.rise = rise
        self.seen: dict[float, Tensor] = {}

    def mean(self, log_size: float) -> float:
        if log_size not in self.seen:
            self.seen[log_size] = self.rise(math.exp(log_size)).double().reshape(-1)
        mean = float(self.seen[log_size].mean())
        return mean if math.isfinite(mean) else math.inf


def crossing(
    rise: Callable[[float], Tensor],
    level: float,
    start: float,
    span: float,
    tolerance: float,
    what: str = "the rise",
) -> Crossing:
    """The size at which the mean of `rise(size)` passes `level` from below.

    Sizes from `start` on grow (or fall) by a factor of 4 until the level lies between two of them; then the
    interval is narrowed in ln(size) to `tolerance`, within which the size is interpolated. `rise` must use the same
    random numbers each time, so that it is one function. Values that are not finite lie above the level. Of several
    crossings it is one between the two sizes.

    Args:
        rise: size -> (samples,) rises.
        level: above 0.
        start: the size tried first.
        span: sizes between `start` / `span` and `start` * `span` are tried.
        tolerance: relative, of the size.
        what: what rises, for the message.

    Returns:
        The size with its standard error.

    Raises:
        NotDefined: the level is not reached, or is passed already at the smallest size.
    """
    trials = _Trials(rise)
    low, high = _bracket(trials, level, math.log(start), math.log(span), what)
    low, high = _narrowed(trials, low, high, level, tolerance)
    found = _between(low, trials.mean(low), high, trials.mean(high), level)
    return Crossing(math.exp(found), _jackknife(trials, level, found), len(trials.seen))


def _bracket(trials: _Trials, level: float, start: float, span: float, what: str) -> tuple[float, float]:
    step, at = math.log(GROWTH), start
    if trials.mean(start) > level:
        least = start - span
        while at > least:
            below = max(at - step, least)
            if trials.mean(below) <= level:
                return below, at
            # Before the way down is gone to its end: the rise may have a limit above the level.
            at = least if trials.mean(least) > level else below
        raise NotDefined(
            f"{what} is {trials.mean(at):.3g} at the smallest size tried, {math.exp(at):.3g}: above {level:g}"
        )
    while at < start + span:
        above = min(at + step, start + span)
        if trials.mean(above) > level:
            return at, above
        at = above
    most = max(trials.mean(size) for size in trials.seen)
    raise NotDefined(
        f"{what} does not reach {level:g} up to size {math.exp(at):.3g}: it is {most:.3g} at most"
    )


def _narrowed(
    trials: _Trials, low: float, high: float, level: float, tolerance: float
) -> tuple[float, float]:
    """A part of the interval no longer than `tolerance`, by the ITP method (Oliveira and Takahashi 2020).

    Interpolation, pushed a little to the middle, and never more than one step more than halving takes, whatever the
    function is.

    Returns:
        Its ends.
    """
    first, steps = high - low, 0
    most = max(0, math.ceil(math.log2(first / tolerance))) + 1
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        at = _between(low, trials.mean(low), high, trials.mean(high), level)
        toward = math.copysign(1.0, middle - at)
        push = 0.2 * (high - low) ** 2 / first
        at = at + toward * push if push <= abs(middle - at) else middle
        allowed = 0.5 * tolerance * 2.0 ** (most - steps) - 0.5 * (high - low)
        if abs(at - middle) > allowed:
            at = middle - toward * allowed
        if trials.mean(at) > level:
            high = at
        else:
            low = at
        steps += 1
    return low, high


def _between(low: float, below: float, high: float, above: float, level: float) -> float:
    """Where the line between two points passes the level; the middle where one is not finite."""
    if not math.isfinite(above):
        return 0.5 * (low + high)
    return low + (level - below) / (above - below) * (high - low)


def _jackknife(trials: _Trials, level: float, found: float) -> float | None:
    """Standard error of `found`, from the crossings of the interpolated curves that leave out one sample each."""
    sizes = sorted(trials.seen)
    table = torch.stack([trials.seen[size] for size in sizes])  # (sizes, samples)
    n = table.shape[1]
    if n < 2:
        return None
    curves = (table.sum(dim=1, keepdim=True) - table) / (n - 1)
    curves[~table.isfinite().all(dim=1)] = math.inf
    replicates = []
    for curve in curves.T.tolist():
        roots = [
            _between(a, low, b, high, level)
            for a, b, low, high in zip(sizes, sizes[1:], curve, curve[1:])
            if low <= level < high
        ]
        replicates.append(min(roots, key=lambda root: abs(root - found)) if roots else sizes[-1])
    spread = torch.tensor(replicates, dtype=torch.float64).std(correction=0)
    return float(spread) * math.sqrt(n - 1)
