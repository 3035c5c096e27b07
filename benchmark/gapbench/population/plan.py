"""From a suite to cells: each network's complete description, its key and its seeds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gapbench.suites.hyperparameters import Hyperparameters
from gapbench.suites.suite import Configuration, Suite, configuration_values
from gapbench_base.errors import GapbenchError
from gapbench_base.keys import content_key
from gapbench_base.seeds import named_seed

PROTOCOL = 2
"""Of everything between a suite's text and a trained network. By 1, training went on to the end of the epoch in
which its criterion was found to be met, and augmented rotations interpolated turned images a second time."""


@dataclass(frozen=True)
class TaskFacts:
    """What a cell's key needs of a task: protocol version, fingerprint, source, whether it is shifted.

    Also the number of classes, which the measured examples must cover, and the sizes of its splits, where known.
    """

    version: int
    fingerprint: str
    source: str
    shift: bool
    num_classes: int = 2
    train_size: int | None = None
    test_size: int | None = None


@dataclass(frozen=True)
class Cell:
    """One network to be trained. `key` is a hash of `description`, which is complete."""

    key: str
    configuration: Configuration
    description: dict[str, object]

    @property
    def seed(self) -> int:
        """Seed of everything random in this cell: a hash of its named dimensions."""
        return named_seed("cell", self.key)


def describe(configuration: Configuration, facts: TaskFacts, protocol: int = PROTOCOL) -> dict[str, object]:
    """A cell's complete description as plain JSON values.

    Hyper-parameters at their default are left out, so that an axis added later changes no key of before.

    Returns:
        The description, whose hash is the cell's key.
    """
    defaults = Hyperparameters().normalised()
    training = {
        field.name: getattr(configuration.training, field.name)
        for field in dataclasses.fields(Hyperparameters)
        if getattr(configuration.training, field.name) != getattr(defaults, field.name)
    }
    return {
        "protocol": protocol,
        "task": {
            "name": configuration.task,
            "version": facts.version,
            "options": dict(configuration.task_options),
            "fingerprint": facts.fingerprint,
        },
        "family": configuration.family,
        "width": configuration.width,
        "training": training,
        "seed": configuration.seed,
    }


def plan(
    suite: Suite, facts_of: Callable[[Configuration], TaskFacts], protocol: int = PROTOCOL
) -> list[Cell]:
    """All cells of a suite, in the order in which they are trained (see `balanced`)."""
    cells = []
    for configuration in suite.configurations:
        description = describe(configuration, facts_of(configuration), protocol)
        cells.append(Cell(content_key(description), configuration, description))
    return balanced(cells)


def protocol_of(descriptions: Iterable[str]) -> int:
    """The number of the protocol by which networks were trained, of their stored descriptions (JSON).

    Returns:
        `PROTOCOL` if there are none.
    """
    for text in descriptions:
        found = json.loads(text)
        if isinstance(found, dict) and isinstance(found.get("protocol"), int):
            return int(found["protocol"])
    return PROTOCOL


def check_sizes(suite: Suite, facts_of: Callable[[Configuration], TaskFacts]) -> None:
    """A training or test size that is an axis shares its column with the size that was recorded.

    Raises:
        GapbenchError: for a task whose option of that name means something else.
    """
    for axis in ("train_size", "test_size"):
        if axis not in suite.axes:
            continue
        for configuration in suite.configurations:
            asked = configuration_values(configuration).get(axis)
            found = getattr(facts_of(configuration), axis)
            if asked is not None and found is not None and asked != found:
                raise GapbenchError(
                    f"suite {suite.name}: {axis} cannot be an axis of the task {configuration.task}: asked for "
                    f"{axis} = {asked}, it has {found} examples, and population.csv has one column {axis}. Give "
                    "the task's option another name, or do not vary it."
                )


def balanced(cells: Sequence[Cell]) -> list[Cell]:
    """Order cells so that every beginning of the list is balanced over tasks, then families.

    Tasks take turns; within a task its families take turns; within a family the order is that of the keys,
    which is random with respect to every axis.

    Returns:
        The same cells in another order.
    """
    by_task: dict[str, dict[str, list[Cell]]] = {}
    for cell in sorted(cells, key=lambda c: c.key):
        families = by_task.setdefault(cell.configuration.task, {})
        families.setdefault(cell.configuration.family, []).append(cell)
    return _take_turns([_take_turns([by_task[t][f] for f in sorted(by_task[t])]) for t in sorted(by_task)])


def _take_turns(lists: Sequence[Sequence[Cell]]) -> list[Cell]:
    longest = max((len(entries) for entries in lists), default=0)
    return [entries[i] for i in range(longest) for entries in lists if i < len(entries)]
