"""Intervals of proportions."""

from __future__ import annotations

import math

from scipy import stats


def wilson(successes: int, number: int, level: float = 0.95) -> tuple[float, float]:
    """The score interval of a proportion (Wilson 1927).

    Args:
        successes: of `number` trials.
        number: 0 or more.
        level: probability that it covers, about.

    Returns:
        (low, high) within [0, 1]; (0, 1) without a trial.
    """
    if not number:
        return 0.0, 1.0
    z = float(stats.norm.ppf(0.5 * (1 + level)))
    share, weight = successes / number, z * z / number
    centre = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / number + weight / (4 * number)) / (1 + weight)
    return max(0.0, centre - half), min(1.0, centre + half)
