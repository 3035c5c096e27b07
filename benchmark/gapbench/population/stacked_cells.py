"""Cells trained together in one process: what a worker does with a `StackJob` and a `TrialJob`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from gapbench.population.cells import problem_of, reason_of, saved_cell, train_cell
from gapbench.population.course import Trained
from gapbench.population.engines import ENGINES, Candidates, choose
from gapbench.population.facts import task_of
from gapbench.population.jobs import Setup, StackJob, TrainJob, TrialJob, failed_cell
from gapbench.population.network import untrained
from gapbench.population.stacked_parameters import out_of_memory
from gapbench.population.stacking import StackMember, train_together
from gapbench.population.stacks import Decision
from gapbench.runs.weights import state_of
from gapbench.suites.suite import load_options
from gapbench_base.errors import DiskFull
from gapbench_tasks import Task

Send = Callable[[str, str, object], None]
"""Takes the cell, the kind of message and its value."""


def tried(setup: Setup, job: TrialJob) -> Decision:
    """How cells like the job's are trained fastest; by the plain loop where that cannot be found out."""
    tasks: dict[str, Task] = {}

    def make(index: int) -> StackMember:
        return _Prepared.of(setup, job.members[index], tasks).member

    different = len({_task_name(one) for one in job.members})
    candidates = Candidates(make, len(job.members), different)
    try:
        return choose(candidates, setup.device, setup.workers, setup.stacks)
    except Exception as error:  # of a task or network that cannot be had: a result of each cell
        return Decision(reason=reason_of(error))


def train_cells(setup: Setup, job: StackJob, send: Send) -> None:
    """Train the cells of a stack; `send` hears `trained` with the record of each that is wanted, when it ends.

    Where the memory does not suffice, halves of the stack are trained one after the other; what cannot be trained
    together is trained one at a time.
    """
    _Stacked(setup, job, send).train(job.members)


class _Prepared:
    """A cell on its way: its task, its network as it was and as it is."""

    def __init__(self, job: TrainJob, member: StackMember, initial: dict[str, Tensor]):
        self.job, self.member, self.initial = job, member, initial

    @classmethod
    def of(cls, setup: Setup, job: TrainJob, tasks: dict[str, Task]) -> _Prepared:
        """Load and build; equal tasks are one object."""
        name = _task_name(job)
        if name not in tasks:
            tasks[name] = task_of(job.configuration, setup.data_dir)
        model = untrained(job.configuration, job.seed, tasks[name])
        values = job.configuration.training
        member = StackMember(job.cell, model, tasks[name], values, job.seed, setup.record)
        return cls(job, member, state_of(model))


def _task_name(job: TrainJob) -> str:
    configuration = job.configuration
    held_out = configuration.training.validation
    return json.dumps([configuration.task, load_options(configuration), held_out], sort_keys=True)


class _Stacked:
    """The cells of one job; `left` are those that have not ended."""

    def __init__(self, setup: Setup, job: StackJob, send: Send):
        self.setup, self.stack, self.send = setup, job, send
        self.left = {one.cell for one in job.members}

    def train(self, jobs: Sequence[TrainJob]) -> None:
        """Train these, together if possible."""
        try:
            self._together(jobs)
            return
        except (DiskFull, BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:  # an engine's: without it, every network has a result of its own
            short_of_memory = out_of_memory(error)
        left = [job for job in jobs if job.cell in self.left]
        if short_of_memory and len(left) > 1:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            middle = len(left) // 2
            self.train(left[:middle])
            self.train(left[middle:])
        else:
            self._alone(left)

    def _together(self, jobs: Sequence[TrainJob]) -> None:
        tasks: dict[str, Task] = {}
        found: dict[str, _Prepared] = {}
        for job in jobs:
            try:
                found[job.cell] = _Prepared.of(self.setup, job, tasks)
            except Exception as error:  # of this network alone
                self._failed(job, error)
        company = None if self.stack.exact else json.dumps(list(found))

        def ended(member: StackMember, result: Trained | Exception) -> None:
            self._ended(found[member.key], result, company)

        if found:
            members = [one.member for one in found.values()]
            train_together(members, ENGINES[self.stack.engine], self.setup.device, ended)

    def _ended(self, one: _Prepared, result: Trained | Exception, company: str | None) -> None:
        if isinstance(result, Exception):
            self._failed(one.job, result)
            return
        self.left.discard(one.job.cell)
        if one.job.cell not in self.stack.wanted:
            return
        try:
            record = saved_cell(self.setup, one.job, one.member.task, one.member.model, one.initial, result)
        except DiskFull:
            raise
        except Exception as error:  # of writing: the others go on
            self.send(one.job.cell, "unusable", problem_of(one.job.cell, error))
        else:
            self.send(one.job.cell, "trained", replace(record, engine=self.stack.engine, company=company))

    def _failed(self, job: TrainJob, error: Exception) -> None:
        self.left.discard(job.cell)
        if job.cell in self.stack.wanted:
            self.send(job.cell, "trained", failed_cell(job, self.setup.device, reason_of(error)))

    def _alone(self, jobs: Sequence[TrainJob]) -> None:
        for job in jobs:
            self.left.discard(job.cell)
            if job.cell in self.stack.wanted:
                try:
                    record = train_cell(self.setup, job)
                except DiskFull:
                    raise
                except Exception as error:
                    self.send(job.cell, "unusable", problem_of(job.cell, error))
                else:
                    self.send(job.cell, "trained", record)
