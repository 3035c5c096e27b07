"""A balanced subset of a product of axes in which neighbours exist, where the whole is too many networks."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gapbench_base.errors import GapbenchError
from gapbench_base.seeds import named_seed

Point = tuple[int, ...]  # the number of a level on each axis
TRIED = 300  # candidates of which the best balanced one is taken
STRATA = 8
"""Levels that a range has at least while points are chosen: equal shares of it."""
MOST_COMBINATIONS = 1_000_000
"""Of values on the axes that conditions name; each of them is looked at."""
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`, those of equal ratio equally often (`log`), or of equal difference."""

    low: float
    high: float
    log: bool = True

    def at(self, share: float) -> float:
        """The value below which this share of the range lies, to four digits."""
        if self.log:
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + (self.high - self.low) * share
        return min(max(float(f"{value:.4g}"), self.low), self.high)


Axes = Mapping[str, Sequence[object] | Range]


@dataclass(frozen=True)
class SampleRule:
    """How a grid is sampled: `sample` points, None for all, the share `core` of them `seeds` times in all.

    Replicates differ in `replicate`, which is `seed` or `data_seed`; `data_seed` is that of all other points.
    """

    sample: int | None = None
    core: float = 0.0
    seeds: int | None = None
    replicate: str = "seed"
    data_seed: int = 0


def points_of(
    task: str,
    axes: Axes,
    how: SampleRule,
    allowed: Callable[[Mapping[str, object]], bool],
    conditional: Collection[str],
    where: str,
) -> list[dict[str, object]]:
    """Values of the axes: of the whole product, or of a balanced sample of it with all its seeds.

    Args:
        task: part of what a sample depends on; the rest is the axes' values and the size.
        axes: values by name, `seed` among them.
        how: see `SampleRule`.
        allowed: whether a point may be taken; it is asked with the values of the axes in `conditional`, and knows
            no others.
        conditional: see `allowed`; all of them lists.
        where: names the grid in messages.

    Returns:
        Points, by axis; of a range not the value but the share of it that lies below.

    Raises:
        GapbenchError: a sample of that size cannot be taken, or one of `core` and `seeds` is missing.
    """
    ranges = [name for name, values in axes.items() if isinstance(values, Range)]
    if how.sample is None:
        if how.core or how.seeds is not None:
            raise GapbenchError(f"{where}: core and seeds need sample = NUMBER, of which core is the share.")
        if ranges:
            raise GapbenchError(f"{where}: the range of {ranges[0]} needs sample = NUMBER of points.")
        lists = [list(values) for values in axes.values() if not isinstance(values, Range)]
        everything = [dict(zip(axes, point)) for point in itertools.product(*lists)]
        return [point for point in everything if allowed(_without_seed(point))]
    if bool(how.core) != (how.seeds is not None):
        raise GapbenchError(f"{where}: core = SHARE and seeds = NUMBER are given together.")
    chosen = _chosen(task, axes, how.sample, allowed, conditional, where)
    own = {
        name: list(values)
        for name, values in axes.items()
        if name == "seed" and not isinstance(values, Range)
    }
    first = max(2, round(how.core * how.sample)) if how.core else 0  # every beginning is balanced
    points = []
    for place, values in enumerate(chosen):
        for replicate in _replicates(own["seed"], how, place < first):
            point = {**values, **replicate}
            points.append({name: point[name] for name in (*axes, *(n for n in point if n not in axes))})
    return points


def _replicates(seeds: list[object], how: SampleRule, core: bool) -> list[dict[str, object]]:
    """Seeds, and data seeds where those are the replicates, of a point of the core or another."""
    plain: list[dict[str, object]] = [{"seed": seed} for seed in seeds]
    if not core or how.seeds is None:
        return plain
    # They count on from the last, so that those of a suite with seeds drawn anew are as new as these.
    if how.replicate == "seed":
        last = max((seed for seed in seeds if isinstance(seed, int)), default=0)
        return plain + [{"seed": last + n} for n in range(1, how.seeds - len(seeds) + 1)]
    return plain + [{**one, "data_seed": how.data_seed + n} for n in range(1, how.seeds) for one in plain]


def _without_seed(point: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in point.items() if name != "seed"}


def _chosen(
    task: str,
    axes: Axes,
    sample: int,
    allowed: Callable[[Mapping[str, object]], bool],
    conditional: Collection[str],
    where: str,
) -> list[dict[str, object]]:
    """The points of a sample, without seeds."""
    names = [name for name in axes if name != "seed"]
    listed = {name: values for name in names if not isinstance(values := axes[name], Range)}
    lengths = [len(listed[name]) if name in listed else 0 for name in names]
    levels = _levels(lengths, sample)

    bound = [place for place, name in enumerate(names) if name in conditional]
    if math.prod(levels[place] for place in bound) > MOST_COMBINATIONS:
        raise GapbenchError(
            f"{where}: the axes that conditions name have more than {MOST_COMBINATIONS:,} combinations of values."
        )
    every = itertools.product(*(range(levels[place]) for place in bound))
    combinations = [
        levels_of
        for levels_of in every
        if allowed({names[place]: listed[names[place]][level] for place, level in zip(bound, levels_of)})
    ]
    open_to = _Open(tuple(bound), tuple(combinations), frozenset(combinations))
    most = max(levels)
    room = len(combinations) * math.prod(n for place, n in enumerate(levels) if place not in bound)
    if not most <= sample <= room:
        raise GapbenchError(
            f"{where}: sample = {sample} must be at least the values of the longest axis ({most}) and at most all "
            f"combinations ({room}), seeds not counted."
        )
    what = [list(listed[name]) if name in listed else repr(axes[name]) for name in names]
    points = based_sample(levels, sample, task, repr(what), open_to=open_to)
    shares = _shares(
        points, levels, [name not in listed for name in names], named_seed("range", task, repr(what))
    )
    return [
        {
            name: listed[name][level] if name in listed else share
            for name, level, share in zip(names, point, of_point)
        }
        for (point, _), of_point in zip(points, shares)
    ]


def _levels(lengths: Sequence[int], sample: int) -> list[int]:
    """How many levels each axis has, of whose values there are so many; 0 for a range, which has what is needed."""
    strata = min(STRATA, sample)
    while True:
        levels = [length or strata for length in lengths]
        if math.prod(levels) >= 2 * sample or strata >= sample or all(lengths):
            return levels
        strata = min(2 * strata, sample)


@dataclass(frozen=True)
class _Open:
    """Which points may be chosen: on the axes `bound` those of `combinations`, on all others every one."""

    bound: tuple[int, ...] = ()
    combinations: tuple[Point, ...] = ((),)
    known: frozenset[Point] = frozenset({()})

    def __contains__(self, point: Point) -> bool:
        return tuple(point[axis] for axis in self.bound) in self.known

    def random(self, levels: Sequence[int], generator: random.Random) -> Point:
        """One of them, all equally likely."""
        point = [generator.randrange(n) for n in levels]
        if self.bound:
            for axis, level in zip(self.bound, generator.choice(self.combinations)):
                point[axis] = level
        return tuple(point)

    def others(self, levels: Sequence[int], chosen: Mapping[Point, int]) -> Iterator[Point]:
        """All of them that are not chosen."""
        free = [axis for axis in range(len(levels)) if axis not in self.bound]
        for combination in self.combinations:
            for values in itertools.product(*(range(levels[axis]) for axis in free)):
                own = dict(zip((*self.bound, *free), (*combination, *values)))
                point = tuple(own[axis] for axis in range(len(levels)))
                if point not in chosen:
                    yield point


EVERYWHERE = _Open()


def _shares(
    points: Sequence[tuple[Point, int]], levels: Sequence[int], continuous: Sequence[bool], seed: int
) -> list[list[float]]:
    """Where in the range each point lies on each axis: within its level evenly, and as its base where it can.

    The golden section of a level after that of the point before keeps values apart from all others of the level.

    Returns:
        Shares by point and axis; 0 where the axis is no range.
    """
    generator = random.Random(seed)
    starts = [[generator.random() for _ in range(n)] for n in levels]
    found: list[list[float]] = []
    for point, base in points:
        shares = []
        for axis, level in enumerate(point):
            if not continuous[axis]:
                shares.append(0.0)
            elif base >= 0 and points[base][0][axis] == level:
                shares.append(found[base][axis])
            else:
                starts[axis][level] = (starts[axis][level] + GOLDEN) % 1.0
                shares.append((level + starts[axis][level]) / levels[axis])
        found.append(shares)
    return found


def balanced_sample(levels: Sequence[int], count: int, *names: object) -> list[Point]:
    """`count` different points of the product of axes with so many `levels`; see `based_sample`."""
    return [point for point, _ in based_sample(levels, count, *names)]


def based_sample(
    levels: Sequence[int],
    count: int,
    *names: object,
    open_to: _Open = EVERYWHERE,
) -> list[tuple[Point, int]]:
    """`count` different points of the product of axes with so many `levels`.

    Points come in pairs that differ on one axis, the axes taking turns, so that what compares neighbours
    (granulated coefficients, sign errors) has something to compare. Each pair is the one, of `TRIED` random ones,
    that leaves the levels of every axis, then those of every two axes, counted most evenly. The same `names` give
    the same points on every machine.

    Args:
        levels: how many values each axis has.
        count: how many points, at most those of the product of `levels` that may be chosen.
        names: what the choice depends on besides.
        open_to: which points may be chosen; all if not given.

    Returns:
        The points, in the order in which they were chosen, each with the place of the neighbour that was chosen
        before it, -1 where there was none.
    """
    generator = random.Random(named_seed("sample", *names, tuple(levels), count))
    free = [axis for axis, n in enumerate(levels) if n > 1]
    counts = _Counts(levels)
    chosen: dict[Point, int] = {}
    turns = itertools.cycle(free or [0])
    while len(chosen) < count:
        axis = next(turns)
        best = None
        if count - len(chosen) > 1:
            pairs = _pairs(levels, chosen, axis, generator, open_to)
            best = min(pairs, key=counts.unevenness_with, default=None)
        base = -1
        if best is None:  # a last one, or where no pair on this axis is left: beside one that is there
            beside = [one for one in _neighbours_of(chosen, levels) if one[0] in open_to]
            if not beside:
                beside = [[point] for point in itertools.islice(open_to.others(levels, chosen), TRIED)]
            best = min(beside, key=counts.unevenness_with)
            base = next((place for place, other in enumerate(chosen) if _differ(other, best[0]) == 1), -1)
        for point in best:
            chosen[point] = base
            counts.add(point)
            base = len(chosen) - 1
    return list(chosen.items())


def _differ(one: Point, other: Point) -> int:
    return sum(a != b for a, b in zip(one, other))


def _pairs(
    levels: Sequence[int], chosen: Mapping[Point, int], axis: int, generator: random.Random, open_to: _Open
) -> Iterator[list[Point]]:
    """Random points that are not chosen yet, each with a neighbour on `axis`."""
    for _ in range(TRIED if levels[axis] > 1 else 0):
        point = open_to.random(levels, generator)
        others = [level for level in range(levels[axis]) if level != point[axis]]
        neighbour = (*point[:axis], generator.choice(others), *point[axis + 1 :])
        if point not in chosen and neighbour not in chosen and neighbour in open_to:
            yield [point, neighbour]


def _neighbours_of(chosen: Mapping[Point, int], levels: Sequence[int]) -> Iterator[list[Point]]:
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
