"""How much work networks are, guessed before any of their kind was trained: from operations and multiplications.

A guess is in seconds of no machine in particular, and counts on training to the last epoch. What matters is how
guesses compare: `time_left` corrects them by what networks really took.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from gapbench.population.facts import task_of
from gapbench.population.jobs import Setup
from gapbench.population.plan import Cell
from gapbench.suites.configuration import Configuration, load_options
from gapbench_models import work_count

CALL = 1e-5
"""Seconds of calling an operation."""
PRODUCT = 5e-11
"""Seconds of a multiplication."""
PASSES = 3
"""Of a training step, in the work of a forward pass; of a proxy as well, and so many examples at a time."""


class Guess(NamedTuple):
    """Seconds of training a network, and of measuring a proxy on it."""

    train: float
    measure: float


class WorkPlan:
    """Guesses of the networks of a run; those of one architecture are counted once."""

    def __init__(self, setup: Setup):
        self._setup = setup
        self._counts: dict[str, tuple[int, int]] = {}
        self._tasks: dict[str, tuple[tuple[int, int, int], int, int]] = {}

    def __call__(self, cell: Cell) -> Guess | None:
        """The guess of a network; None of a plug-in's network that cannot be built without values."""
        own, training = cell.configuration, cell.configuration.training
        shape, classes, examples = self._task(own)
        operations, products = self._count(own, shape, classes)
        if not operations:
            return None
        batch = min(training.batch_size, examples)
        steps = training.max_steps or training.max_epochs * -(-examples // batch)
        passes = PASSES * (2 if training.optimizer == "sam" else 1)
        return Guess(
            steps * passes * (operations * CALL + batch * products * PRODUCT),
            PASSES * (operations * CALL + self._setup.samples * products * PRODUCT),
        )

    def _task(self, own: Configuration) -> tuple[tuple[int, int, int], int, int]:
        """Shape of an input, number of classes, and of training examples; of few tasks the data are kept."""
        key = json.dumps([own.task, load_options(own), own.training.validation], sort_keys=True)
        if key not in self._tasks:
            task = task_of(own, self._setup.data_dir)
            self._tasks[key] = task.input_shape, task.num_classes, len(task.train.targets)
        return self._tasks[key]

    def _count(self, own: Configuration, shape: tuple[int, int, int], classes: int) -> tuple[int, int]:
        key = json.dumps([own.family, own.width, shape, classes, own.training.depth])
        if key not in self._counts:
            try:
                self._counts[key] = work_count(own.family, own.width, shape, classes, own.training.depth)
            except Exception:  # a guess is no reason to train nothing
                self._counts[key] = 0, 0
        return self._counts[key]
