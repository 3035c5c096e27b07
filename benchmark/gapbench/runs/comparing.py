"""Whether a score on networks that its author never saw bears out the claimed one."""

from __future__ import annotations

import math

from gapbench.runs.entry import Score, Verification

CONFIRMED, NOT_CONTRADICTED, CONTRADICTED = "confirmed", "not contradicted", "contradicted"
UNDECIDED = "undecided"


def compare(claimed: Score, fresh: Score) -> tuple[str, str]:
    """The outcome and its reason in words, of two scores with 95 % intervals.

    The direction is that of the claimed value's sign; both are mirrored where that is negative.

    - `contradicted`: the interval of the difference claimed - fresh (square-and-add of the two intervals, Zou
      and Donner 2008) lies above zero, so that the score shrank by more than chance; or the fresh interval lies
      wholly on the other side of zero. A claim of exactly 0 is contradicted by a difference either way.
    - `confirmed`: not contradicted, and the fresh interval lies wholly on the claimed side of zero, however much
      the score exceeds the claim.
    - `not contradicted`: neither: the fresh interval contains zero, so the networks do not tell.
    - `undecided`: a score or a limit is missing.

    Returns:
        The outcome and its reason in words.
    """
    words = f"claimed {_shown(claimed)}, on fresh networks {_shown(fresh)}"
    first, second = _interval(claimed), _interval(fresh)
    if first is None or second is None:
        return UNDECIDED, f"{words}: a score or its interval is missing"
    sign = math.copysign(1, first[0]) if first[0] else 0
    if sign < 0:
        first, second = _mirrored(first), _mirrored(second)
    (old, old_low, old_high), (new, new_low, new_high) = first, second
    difference = old - new
    least = difference - math.hypot(old - old_low, new_high - new)
    most = difference + math.hypot(old_high - old, new - new_low)
    if least > 0 or (sign == 0 and most < 0):
        amount = f"by {abs(difference):.3f}, at least {least if least > 0 else -most:.3f}"
        return CONTRADICTED, f"{words}: significantly {'smaller' if sign else 'different'} ({amount})"
    if sign and new_high < 0:
        return CONTRADICTED, f"{words}: significantly on the other side of 0"
    if sign and new_low > 0:
        return CONFIRMED, f"{words}: not significantly smaller, and significantly on the claimed side of 0"
    return (
        NOT_CONTRADICTED,
        f"{words}: not significantly smaller, but the interval on fresh networks contains 0",
    )


def outcome_of(record: Verification) -> str:
    """The outcome of a verification that an entry keeps.

    One on fresh networks is judged by its scores: before there was `not contradicted`, that was written down as
    confirmed.

    Returns:
        The outcome as `compare` has it, or as it was written down.
    """
    if record.kind != "fresh networks" or record.claimed is None or record.fresh is None:
        return record.outcome
    return compare(record.claimed, record.fresh)[0]


def _interval(score: Score) -> tuple[float, float, float] | None:
    """Value, low and high; None where one is missing or not finite."""
    value, low, high = score.value, score.low, score.high
    if value is None or low is None or high is None or not all(map(math.isfinite, (value, low, high))):
        return None
    return value, low, high


def _mirrored(interval: tuple[float, float, float]) -> tuple[float, float, float]:
    value, low, high = interval
    return -value, -high, -low


def _shown(score: Score) -> str:
    if score.value is None:
        return "tau undefined"
    limits = "" if score.low is None or score.high is None else f" [{score.low:.3f}, {score.high:.3f}]"
    return f"tau {score.value:.3f}{limits}"
