"""At which size of a perturbation something has risen by a given amount."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gapbench_base.errors import NotDefined

GROWTH = 4.0  # factor by which sizes are tried until the level lies between two of them
FEW, COARSE = 2, 0.1  # samples with which a search begins, and the tolerance to which they are followed
NEAR = 6  # sizes tried from a guess on, before they grow by `GROWTH`
EXPONENT, LEAST_EXPONENT, MOST_EXPONENT = 2.0, 0.5, 8.0  # rise ~ size^exponent: at first, and at the ends
SETTLED = 0.04  # of the level, within which a rise is where sampled means are no longer narrowed
APART = 0.05  # of ln(size), least distance of sizes from which a slope is told


class AlreadyPassed(NotDefined):
    """The level is passed at the smallest size that is tried."""


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

    def slope(self, at: float) -> tuple[float, float] | None:
        """The nearest sizes to both sides of `at` that are `APART`, as their mean rises; None without such."""
        finite = sorted(s for s in self.seen if math.isfinite(self.mean(s)))
        pairs = [(a, b) for a in finite for b in finite if a <= at <= b and b - a >= APART]
        return min(pairs, key=lambda pair: pair[1] - pair[0], default=None)


def crossing(
    rise: Callable[[float], Tensor],
    level: float,
    start: float,
    span: float,
    tolerance: float,
    what: str = "the rise",
    near: bool = False,
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
        near: the crossing is thought to be near `start`: the first sizes are those of a power law.

    Returns:
        The size with its standard error.

    Raises:
        NotDefined: the level is not reached, or is passed already at the smallest size.
    """
    trials, begin = _Trials(rise), math.log(start)
    ends = _near(trials, level, begin, EXPONENT, tolerance) if near else None
    low, high = _narrowed(
        trials, *(ends or _bracket(trials, level, begin, math.log(span), what)), level, tolerance
    )
    return _found(trials, low, high, level)


def sampled_crossing(
    rise: Callable[[float, range], Tensor],
    samples: int,
    level: float,
    start: float,
    span: float,
    tolerance: float,
    what: str = "the rise",
) -> Crossing:
    """`crossing` of the mean of all samples, which is sought with a few of them first.

    Where the mean of the first `FEW` samples passes the level is near where that of all does: only few sizes are
    tried with all, until one is within half of `tolerance` of where the mean of all is interpolated to pass it.
    Where the few do not pass it, all are followed from `start` on.

    Args:
        rise: size, positions of samples -> their rises.
        samples: how many there are.
        level: as in `crossing`, as are the others.
        start: of the few.
        span: about `start`.
        tolerance: for all samples.
        what: what rises.

    Returns:
        The size with its standard error; `trials` counts the sizes that were tried with all samples.

    Raises:
        NotDefined: as `crossing`, of all samples.
    """
    known: dict[float, Tensor] = {}

    def of_few(size: float) -> Tensor:
        known[size] = rise(size, range(FEW))
        return known[size]

    def of_all(size: float) -> Tensor:
        if size not in known:
            return rise(size, range(samples))
        return torch.cat([known[size], rise(size, range(FEW, samples)).to(known[size])])

    trials, few = _Trials(of_all), _Trials(of_few)
    ends = None
    if samples > 2 * FEW:
        try:
            low, high = _narrowed(
                few, *_bracket(few, level, math.log(start), math.log(span), what), level, COARSE
            )
        except NotDefined:  # whether that is so of all samples, they say themselves
            pass
        else:
            guess = _between(low, few.mean(low), high, few.mean(high), level)
            exponent = _exponent(low, few.mean(low), high, few.mean(high)) or EXPONENT
            ends = _near(trials, level, guess, exponent, tolerance)
    ends = ends or _bracket(trials, level, math.log(start), math.log(span), what)
    low, high = _narrowed(trials, *ends, level, tolerance, smooth=True)
    return _found(trials, low, high, level, few)


def _found(trials: _Trials, low: float, high: float, level: float, few: _Trials | None = None) -> Crossing:
    found = _between(low, trials.mean(low), high, trials.mean(high), level)
    return Crossing(math.exp(found), _jackknife(trials, level, low, high, few), len(trials.seen))


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
        raise AlreadyPassed(
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


def _near(
    trials: _Trials, level: float, at: float, exponent: float, tolerance: float
) -> tuple[float, float] | None:
    """Two sizes between which the level is passed, from a guess on, each a little beyond where it is foretold.

    Returns:
        Both, or None where `NEAR` sizes lie on one side.
    """
    before: tuple[float, float] | None = None
    for attempt in range(NEAR):
        rise = trials.mean(at)
        if before is not None:
            if (rise > level) != (before[1] > level):
                return min(at, before[0]), max(at, before[0])
            exponent = _exponent(*before, at, rise) or exponent
        before = (at, rise)
        way = -1.0 if rise > level else 1.0
        known = rise > 0 and math.isfinite(rise)
        step = abs(math.log(level / rise)) / exponent if known else math.log(GROWTH)
        at += way * (min(step, math.log(GROWTH)) + 0.4 * tolerance * 2.0**attempt)
    return None


def _exponent(first: float, one: float, second: float, other: float) -> float | None:
    """d ln(rise) / d ln(size) between two sizes, within limits; None where it cannot be told."""
    if not (0 < one < math.inf and 0 < other < math.inf) or first == second:
        return None
    found = math.log(other / one) / (second - first)
    return min(max(found, LEAST_EXPONENT), MOST_EXPONENT)


def _narrowed(
    trials: _Trials, low: float, high: float, level: float, tolerance: float, smooth: bool = False
) -> tuple[float, float]:
    """A part of the interval no longer than `tolerance`, by interpolation.

    Of a `smooth` function it may be longer, where the crossing is interpolated within half of `tolerance` of an end
    at which the rise is the level within `SETTLED`. Sizes are tried where `_aim` says, moved towards the middle as
    in the ITP method (Oliveira and Takahashi 2020): never more than one step more than halving takes, whatever the
    function is.

    Returns:
        Its ends.
    """
    steps = 0
    most = max(0, math.ceil(math.log2((high - low) / tolerance))) + 1
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        foretold = _between(low, trials.mean(low), high, trials.mean(high), level)
        near = low if foretold - low < high - foretold else high
        settled = abs(trials.mean(near) / level - 1.0) <= SETTLED
        if smooth and settled and abs(foretold - near) <= 0.5 * tolerance:
            break
        at = _aim(low, high, foretold, tolerance)
        allowed = 0.5 * tolerance * 2.0 ** (most - steps) - 0.5 * (high - low)
        if abs(at - middle) > allowed:
            at = middle + math.copysign(allowed, at - middle)
        if trials.mean(at) > level:
            high = at
        else:
            low = at
        steps += 1
    return low, high


def _aim(low: float, high: float, foretold: float, tolerance: float) -> float:
    """Beyond where the crossing is foretold, so that it lies between this size and one that was tried already."""
    if high - foretold <= 0.5 * tolerance:
        return high - 0.98 * tolerance
    if foretold - low <= 0.5 * tolerance:
        return low + 0.98 * tolerance
    return foretold + math.copysign(0.3 * tolerance, 0.5 * (low + high) - foretold)


def _between(low: float, below: float, high: float, above: float, level: float) -> float:
    """Where the level is passed between two sizes, by a power law; the middle where one is not finite.

    Returns:
        ln(size), by a line in it where the lower rise is not positive.
    """
    if not math.isfinite(above):
        return 0.5 * (low + high)
    if below > 0:
        return low + math.log(level / below) / math.log(above / below) * (high - low)
    return low + (level - below) / (above - below) * (high - low)


def _jackknife(trials: _Trials, level: float, low: float, high: float, few: _Trials | None) -> float | None:
    """Standard error of the crossing between `low` and `high`, from those of means that leave out one sample each.

    To first order: by what each rises there, and the slope of the mean over sizes that are `APART`.

    Returns:
        Of ln(size); None for a single sample.
    """
    found = _between(low, trials.mean(low), high, trials.mean(high), level)
    below, above = trials.seen[low], trials.seen[high]
    n = len(below)
    if n < 2:
        return None
    if not bool(above.isfinite().all()):  # within the interval, however that is
        return 0.5 * (high - low)
    share = (found - low) / (high - low)
    there = (1.0 - share) * below + share * above
    without = (there.sum() - there) / (n - 1)
    slope = _slope_at(trials, found, level) or (few and _slope_at(few, _centre(few, level), level))
    slope = slope or max(trials.mean(high) - trials.mean(low), 1e-12 * level) / (high - low)
    return float((without / slope).std(correction=0)) * math.sqrt(n - 1)


def _slope_at(trials: _Trials, at: float, level: float) -> float | None:
    """d rise / d ln(size) where the level is passed; None where the sizes that were tried do not tell."""
    pair = trials.slope(at)
    if pair is None:
        return None
    below, above = map(trials.mean, pair)
    if below > 0:
        return level * math.log(above / below) / (pair[1] - pair[0])
    return (above - below) / (pair[1] - pair[0])


def _centre(trials: _Trials, level: float) -> float:
    """The largest size at which the mean is not above the level."""
    return max((s for s in trials.seen if trials.mean(s) <= level), default=-math.inf)
