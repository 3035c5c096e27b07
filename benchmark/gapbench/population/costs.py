"""How costs follow the width of a family's networks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

MOST_WIDTHS = 8
"""More widths of a family are taken together in quarters."""


def by_width(known: Sequence[tuple[float, float]], widths: Sequence[float]) -> list[float]:
    """Values at widths, from pairs of width and value: means of equal widths, and power laws between and beyond.

    Returns:
        One value for each width; NaN where nothing is known.
    """
    if not known:
        return [math.nan] * len(widths)
    groups = _groups(known)
    points = [
        (sum(math.log(w) for w, _ in own) / len(own), sum(v for _, v in own) / len(own)) for own in groups
    ]
    positive = [(x, math.log(v)) for x, v in points if v > 0]
    if len(positive) < len(points):  # a mean of 0 has no power law
        mean = sum(v for _, v in known) / len(known)
        return [mean] * len(widths)
    return [math.exp(_interpolated(positive, math.log(width))) for width in widths]


def _groups(known: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The pairs of each width, in order; of many widths those of each quarter of the pairs."""
    ordered = sorted(known)
    widths = sorted({width for width, _ in ordered})
    if len(widths) <= MOST_WIDTHS:
        return [[pair for pair in ordered if pair[0] == width] for width in widths]
    cuts = [round(len(ordered) * part / 4) for part in range(5)]
    return [ordered[a:b] for a, b in itertools.pairwise(cuts) if b > a]


def _interpolated(points: Sequence[tuple[float, float]], x: float) -> float:
    """A straight line between neighbours, and beyond the ends as between the last two."""
    if len(points) == 1:
        return points[0][1]
    place = next((k for k in range(1, len(points) - 1) if x <= points[k][0]), len(points) - 1)
    (x0, y0), (x1, y1) = points[place - 1], points[place]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0) if x1 > x0 else 0.5 * (y0 + y1)
