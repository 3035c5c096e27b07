"""Networks in an order of which every beginning is balanced over tasks, families and every axis.

For a pilot, which takes the first so many, and for a budget of time, which takes what fits. Every fourth network is
a second seed of a configuration, so that every beginning tells how far seeds alone make networks differ.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gapbench.population.plan import Cell, TaskFacts, describe
from gapbench.suites.suite import Configuration, configuration_values
from gapbench_base.keys import content_key

EVERY = 4
"""Every so many networks one is a second seed of a configuration that is there."""
MOST_LEVELS = 8
"""An axis of more values is balanced in quarters."""
WEIGHT_OF_PAIRS = 1e-3
"""Of the counts of two levels together, which decide between configurations that are equal by single ones."""

Facts = Callable[[Configuration], TaskFacts]


@dataclass
class _Group:
    """The configurations (of seed 0) of one task and family, and how often each of their levels was chosen."""

    waiting: dict[Configuration, list[Cell]]
    levels: Mapping[Configuration, tuple[int, ...]]
    begun: dict[Configuration, list[Cell]] = field(default_factory=dict)
    """Of those chosen, the suite's other seeds that are left."""
    seeds: dict[Configuration, list[int]] = field(default_factory=dict)
    single: Counter[tuple[int, int]] = field(default_factory=Counter)
    double: Counter[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=Counter)

    def cost(self, configuration: Configuration) -> float:
        """How often the levels of a configuration were chosen, and how often two of them together."""
        own = list(enumerate(self.levels[configuration]))
        pairs = sum(self.double[pair] for pair in itertools.combinations(own, 2))
        return sum(self.single[level] for level in own) + WEIGHT_OF_PAIRS * pairs

    def first(self) -> Cell | None:
        """A network of the configuration whose levels were chosen least often; None where none is left."""
        if not self.waiting:
            return None
        configuration = min(self.waiting, key=self.cost)
        own = list(enumerate(self.levels[configuration]))
        self.single.update(own)
        self.double.update(itertools.combinations(own, 2))
        cell, *rest = self.waiting.pop(configuration)
        self.begun[configuration] = rest
        self.seeds[configuration] = [cell.configuration.seed]
        return cell

    def second(self, facts_of: Facts | None) -> Cell | None:
        """A further seed of a configuration that has one: the suite's own where it has some, else one added.

        Returns:
            None where every configuration has two seeds and nothing is left.
        """
        alone = [configuration for configuration in self.begun if len(self.seeds[configuration]) == 1]
        for configuration in sorted(alone, key=lambda own: not self.begun[own]):  # stable
            rest = self.begun[configuration]
            if rest:
                cell = rest.pop(0)
            elif facts_of is not None:
                cell = self._added(configuration, facts_of)
            else:
                break
            self.seeds[configuration].append(cell.configuration.seed)
            return cell
        for rest in self.begun.values():
            if rest:
                return rest.pop(0)
        return None

    def _added(self, configuration: Configuration, facts_of: Facts) -> Cell:
        """The network of a seed that the suite does not have."""
        seed = next(number for number in itertools.count() if number not in self.seeds[configuration])
        new = replace(configuration, seed=seed)
        description = describe(new, facts_of(new))
        return Cell(content_key(description), new, description)


def choose(cells: Sequence[Cell], networks: int, axes: Sequence[str], facts_of: Facts) -> list[Cell]:
    """The first so many networks of `in_order`, with seeds that the suite lacks where it has no second ones.

    Args:
        cells: all of the suite.
        networks: how many.
        axes: what is balanced.
        facts_of: for the description of seeds that the suite lacks.

    Returns:
        The cells, in the order in which they are to be trained; fewer where the suite has no more.
    """
    return list(itertools.islice(in_order(cells, axes, facts_of), networks))


def in_order(cells: Sequence[Cell], axes: Sequence[str], facts_of: Facts | None = None) -> Iterator[Cell]:
    """Networks in an order of which every beginning is balanced.

    Tasks take turns, within a task its families; of a family that configuration comes next whose levels were chosen
    least often. Every fourth network is a second seed of a configuration before it, as long as there are any.

    Args:
        cells: all of the suite.
        axes: what is balanced.
        facts_of: for the description of second seeds where the suite has none; None adds none.

    Yields:
        Every cell once.
    """
    tasks: dict[str, list[_Group]] = defaultdict(list)
    for (task, _), group in sorted(_groups(cells, axes).items()):
        tasks[task].append(group)
    firsts = _in_turns(tasks, _Group.first)
    seconds = _in_turns(tasks, lambda group: group.second(facts_of))
    for place in itertools.count():
        one, other = (seconds, firsts) if place % EVERY == EVERY - 1 else (firsts, seconds)
        cell = next(one) or next(other)
        if cell is None:
            return
        yield cell


def _in_turns(
    tasks: Mapping[str, Sequence[_Group]], take: Callable[[_Group], Cell | None]
) -> Iterator[Cell | None]:
    """What is taken of groups in turn, tasks alternating and families within each; None where nothing is left."""
    families = {task: itertools.cycle(own) for task, own in tasks.items()}
    nothing = 0
    for task in itertools.cycle(tasks):
        tried = (take(next(families[task])) for _ in tasks[task])
        cell = next((found for found in tried if found is not None), None)
        nothing = 0 if cell is not None else nothing + 1
        if cell is not None:
            yield cell
        elif nothing == len(tasks):
            nothing = 0
            yield None


def _groups(cells: Sequence[Cell], axes: Sequence[str]) -> dict[tuple[str, str], _Group]:
    by_group: dict[tuple[str, str], dict[Configuration, list[Cell]]] = {}
    for cell in sorted(cells, key=lambda own: own.key):  # random with respect to every axis
        own = cell.configuration
        waiting = by_group.setdefault((own.task, own.family), {})
        waiting.setdefault(replace(own, seed=0), []).append(cell)
    return {key: _Group(waiting, _levels(list(waiting), axes)) for key, waiting in by_group.items()}


def _levels(
    configurations: Sequence[Configuration], axes: Sequence[str]
) -> dict[Configuration, tuple[int, ...]]:
    """The level of each configuration on every axis, in quarters where there are many."""
    values = [configuration_values(configuration) for configuration in configurations]
    columns = []
    for axis in axes:
        cells = [own.get(axis) for own in values]
        order = {value: place for place, value in enumerate(sorted(set(cells), key=_place))}
        parts = 4 if len(order) > MOST_LEVELS else len(order)
        columns.append([order[value] * parts // len(order) for value in cells])
    return {own: tuple(column[row] for column in columns) for row, own in enumerate(configurations)}


def _place(value: object) -> tuple[int, float, str]:
    """Numbers by size, then everything else by its text."""
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, str(value))
