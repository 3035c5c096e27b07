"""A balanced subset of a product of axes in which neighbours exist, where the whole is too many networks."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gapbench_base.errors import GapbenchError
from gapbench_base.seeds import named_seed

Point = tuple[int, ...]  # the number of a level on each axis
TRIED = 300  # candidates of which the best balanced one is taken


def points_of(
    task: str,
    axes: Mapping[str, Sequence[object]],
    sample: int | None,
    core: float,
    seeds: int | None,
    where: str,
) -> Iterable[tuple[object, ...]]:
    """Values of the axes, in their order: of the whole product, or of a balanced sample of it with all its seeds.

    Args:
        task: part of what a sample depends on; the rest is the axes' values and the size.
        axes: values by name, `seed` among them.
        sample: how many points, seeds not counted; None for all.
        core: share of the sample that is trained with `seeds` seeds in all.
        seeds: see `core`.
        where: names the grid in messages.

    Returns:
        The points.

    Raises:
        GapbenchError: a sample of that size cannot be taken, or one of `core` and `seeds` is missing.
    """
    if sample is None:
        if core or seeds is not None:
            raise GapbenchError(f"{where}: core and seeds need sample = NUMBER, of which core is the share.")
        return itertools.product(*axes.values())
    if bool(core) != (seeds is not None):
        raise GapbenchError(f"{where}: core = SHARE and seeds = NUMBER are given together.")
    names = [name for name in axes if name != "seed"]
    levels = [len(axes[name]) for name in names]
    everything, most = math.prod(levels), max(levels)
    if not most <= sample <= everything:
        raise GapbenchError(
            f"{where}: sample = {sample} must be at least the values of the longest axis ({most}) and at most all "
            f"combinations ({everything}), seeds not counted."
        )
    own = list(axes["seed"])
    missing = max(0, (seeds or 0) - len(own))
    further = list(itertools.islice((n for n in itertools.count() if n not in own), missing))
    chosen = balanced_sample(levels, sample, task, repr([list(axes[name]) for name in names]))
    first = max(2, round(core * sample)) if core else 0  # every beginning is balanced
    points = []
    for place, levels_of in enumerate(chosen):
        values = {name: axes[name][level] for name, level in zip(names, levels_of)}
        for seed in [*own, *(further if place < first else [])]:
            points.append(tuple({**values, "seed": seed}[name] for name in axes))
    return points


def balanced_sample(levels: Sequence[int], count: int, *names: object) -> list[Point]:
    """`count` different points of the product of axes with so many `levels`.

    Points come in pairs that differ on one axis, the axes taking turns, so that what compares neighbours
    (granulated coefficients, sign errors) has something to compare. Each pair is the one, of `TRIED` random ones,
    that leaves the levels of every axis, then those of every two axes, counted most evenly. The same `names` give
    the same points on every machine.

    Args:
        levels: how many values each axis has.
        count: how many points, at most the product of `levels`.
        names: what the choice depends on besides.

    Returns:
        The points, in the order in which they were chosen.
    """
    generator = random.Random(named_seed("sample", *names, tuple(levels), count))
    free = [axis for axis, n in enumerate(levels) if n > 1]
    counts = _Counts(levels)
    chosen: dict[Point, None] = {}
    turns = itertools.cycle(free or [0])
    while len(chosen) < count:
        axis = next(turns)
        best = None
        if count - len(chosen) > 1:
            best = min(_pairs(levels, chosen, axis, generator), key=counts.unevenness_with, default=None)
        if best is None:  # a last one, or where no pair on this axis is left: beside one that is there
            beside = _neighbours_of(chosen, levels) if chosen else iter([[tuple(0 for _ in levels)]])
            best = min(beside, key=counts.unevenness_with)
        for point in best:
            chosen[point] = None
            counts.add(point)
    return list(chosen)


def _pairs(
    levels: Sequence[int], chosen: dict[Point, None], axis: int, generator: random.Random
) -> Iterator[list[Point]]:
    """Random points that are not chosen yet, each with a neighbour on `axis`."""
    for _ in range(TRIED if levels[axis] > 1 else 0):
        point = tuple(generator.randrange(n) for n in levels)
        others = [level for level in range(levels[axis]) if level != point[axis]]
        neighbour = (*point[:axis], generator.choice(others), *point[axis + 1 :])
        if point not in chosen and neighbour not in chosen:
            yield [point, neighbour]


def _neighbours_of(chosen: dict[Point, None], levels: Sequence[int]) -> Iterator[list[Point]]:
    """Points that are not chosen and differ from a chosen one on one axis."""
    seen = set()
    for point in chosen:
        for axis, n in enumerate(levels):
            for level in range(n):
                other = (*point[:axis], level, *point[axis + 1 :])
                if other not in chosen and other not in seen:
                    seen.add(other)
                    yield [other]


class _Counts:
    """How often every level, and every two levels of different axes, were chosen."""

    def __init__(self, levels: Sequence[int]):
        self.single = [[0] * n for n in levels]
        self.double = {
            (a, b): [[0] * levels[b] for _ in range(levels[a])]
            for a, b in itertools.combinations(range(len(levels)), 2)
        }

    def add(self, point: Point, times: int = 1) -> None:
        for axis, level in enumerate(point):
            self.single[axis][level] += times
        for (a, b), table in self.double.items():
            table[point[a]][point[b]] += times

    def unevenness_with(self, points: list[Point]) -> tuple[float, float]:
        """Sums of squares of the counts with these points; equal counts have the least."""
        for point in points:
            self.add(point)
        # An axis of few levels must not outweigh one of many.
        single = sum(len(row) * sum(c * c for c in row) for row in self.single)
        touched = sum(
            table[p[a]][p[b]] * len(table) * len(table[0])
            for p in points
            for (a, b), table in self.double.items()
        )
        for point in points:
            self.add(point, -1)
        return float(single), float(touched)
