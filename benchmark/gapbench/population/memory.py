"""How much memory a job is given on a machine that a cluster divides: an estimate from the plan.

It is a hint, larger than what most jobs take: a cluster keeps it free for a job, nothing holds the job to it. It
counts what a process takes before it has a network, twice the data of the task, copies of the parameters (initial
ones, gradients, moments of the optimizer, directions of a proxy) and what operations compute for a mini-batch or
for the examples that are measured. What proxies compute for all training examples they compute in parts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from gapbench.population.facts import task_of
from gapbench.population.jobs import Job, MeasureJob, Setup, StackJob, TrainJob
from gapbench.suites.configuration import load_options
from gapbench.suites.suite import Configuration
from gapbench_models import activation_count, parameter_count

MIB = 1 << 20
PROCESS = {"cpu": 700 * MIB, "cuda": 3000 * MIB}
"""Of a worker that has loaded its libraries."""
CONTEXT = 600 * MIB
"""Of a process on a card, before it has a network."""
VALUE = 4
"""Bytes of a number."""
DATA = 2
"""Copies of the data."""
TRAINED = (8, 3)
"""Copies of the parameters, and of what is computed for a mini-batch, in training."""
MEASURED = (16, 6)
"""The same in measuring, of the examples that are measured: second derivatives keep more."""


@dataclass(frozen=True)
class Sizes:
    """Numbers that a network has and computes for one example, and bytes of the data of its task."""

    parameters: int
    activations: int
    data: int
    examples: int


@dataclass(frozen=True)
class Need:
    """Bytes that a job is given, `host` in the memory of the machine, `card` in that of a GPU."""

    host: int
    card: int = 0


class MemoryPlan:
    """The needs of the jobs of one run; networks of one architecture are counted once."""

    def __init__(self, setup: Setup):
        self._setup = setup
        self._sizes: dict[str, Sizes] = {}
        self._data: dict[str, tuple[tuple[int, int, int], int, int, int]] = {}

    def of(self, job: Job) -> Need:
        """What a job is given."""
        if isinstance(job, MeasureJob):
            return self._need(self._of(job.configuration), 1, self._setup.samples, MEASURED)
        members = (job,) if isinstance(job, TrainJob) else job.members
        # A trial has all its networks twice: trained alone and together.
        count = len(members) * (1 if isinstance(job, TrainJob | StackJob) else 2)
        first = members[0].configuration
        return self._need(self._of(first), count, first.training.batch_size, TRAINED)

    def largest(self, configurations: list[Configuration]) -> Need:
        """What the largest job of some networks is given, each trained by itself and measured."""
        needs = [
            self._need(self._of(own), 1, count, copies)
            for own in configurations
            for count, copies in ((own.training.batch_size, TRAINED), (self._setup.samples, MEASURED))
        ]
        return Need(max(need.host for need in needs), max(need.card for need in needs))

    def _need(self, sizes: Sizes, networks: int, examples: int, copies: tuple[int, int]) -> Need:
        own = copies[0] * sizes.parameters + copies[1] * sizes.activations * min(examples, sizes.examples)
        values = VALUE * networks * own
        process = PROCESS.get(self._setup.device, PROCESS["cpu"]) + DATA * sizes.data
        if self._setup.device == "cpu":
            return Need(process + values)
        return Need(process + VALUE * networks * copies[0] * sizes.parameters, CONTEXT + sizes.data + values)

    def _of(self, configuration: Configuration) -> Sizes:
        key = json.dumps(
            [
                *(configuration.task, load_options(configuration)),
                *(configuration.family, configuration.width, configuration.training.depth),
            ],
            sort_keys=True,
        )
        if key not in self._sizes:
            shape, classes, data, examples = self._task(configuration)
            architecture = (configuration.family, configuration.width, shape, classes)
            counted = _counted(architecture, configuration.training.depth)
            self._sizes[key] = Sizes(*counted, data, examples)
        return self._sizes[key]

    def _task(self, configuration: Configuration) -> tuple[tuple[int, int, int], int, int, int]:
        """Shape of an input, number of classes, bytes of all inputs, number of training examples."""
        key = json.dumps([configuration.task, load_options(configuration)], sort_keys=True)
        if key not in self._data:
            task = task_of(configuration, self._setup.data_dir)
            parts = [part.inputs for part in (task.train, task.test, task.unlabelled) if part is not None]
            data = sum(inputs.numel() * inputs.element_size() for inputs in parts)
            self._data[key] = (task.input_shape, task.num_classes, data, len(task.train.targets))
        return self._data[key]


def _counted(
    architecture: tuple[str, float, tuple[int, int, int], int], depth: int | None
) -> tuple[int, int]:
    """Parameters and activations; 0 of a plug-in's network that cannot be built without values."""
    try:
        return parameter_count(*architecture, depth), activation_count(*architecture, depth)
    except Exception:  # an estimate is no reason to train nothing
        return 0, 0
