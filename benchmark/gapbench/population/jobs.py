"""What the driver asks of a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gapbench.runs.records import CellStatus, TrainedCell, json_text
from gapbench.runs.weight_files import WeightPlace, place_at
from gapbench.suites.configuration import Configuration
from gapbench.suites.records import NONE
from gapbench.suites.requests import ProxyRequest

Description = dict[str, object]
"""All that a network or a value depends on, as plain JSON."""


@dataclass(frozen=True)
class Setup:
    """What all jobs of a run share.

    `workers` share the machine. `stacks` says which engines may train networks together: `off` none, `exact` those
    by which no number changes, `any` all. `arithmetic` is what last bits depend on. `record` is what is recorded of
    each training (`gapbench.suites.records`), `budget` how many seconds of processor time a proxy has on a network,
    `weights` the address of the weight files, None if they are in the run's folder.
    """

    run: Path
    data_dir: str | None
    device: str
    samples: int
    loss: str
    measure_seed: int
    workers: int = 1
    stacks: str = "off"
    arithmetic: str = ""
    record: str = NONE
    budget: float | None = None
    weights: str | None = None

    @property
    def weight_place(self) -> WeightPlace:
        """Where the weight files are."""
        return self.run / "weights" if self.weights is None else place_at(self.weights)


@dataclass(frozen=True)
class TrainJob:
    """Train a cell. With `restore`, only rewrite its weight file, whose sha256 must come out as given.

    `channels_last` is the order of images in memory on a CPU; None: that which pays (`computation.memory_format`).
    """

    cell: str
    seed: int
    configuration: Configuration
    description: Description
    restore: str | None = None
    channels_last: bool | None = None


@dataclass(frozen=True)
class StackJob:
    """Train cells of one architecture together, and report those whose keys are `wanted`, each when it ends."""

    members: tuple[TrainJob, ...]
    engine: str
    exact: bool
    wanted: frozenset[str]

    @property
    def cell(self) -> str:
        """The first that is wanted."""
        return next(job.cell for job in self.members if job.cell in self.wanted)

    def member(self, cell: str) -> TrainJob:
        """The job of one of its cells."""
        return next(job for job in self.members if job.cell == cell)


@dataclass(frozen=True)
class TrialJob:
    """Find out how the cells of an architecture, of which `members` are examples, are trained fastest."""

    architecture: str
    members: tuple[TrainJob, ...]

    @property
    def cell(self) -> str:
        """The first."""
        return self.members[0].cell


@dataclass(frozen=True)
class MeasureJob:
    """Measure proxies, each with the key of its measurement, on a trained cell, whose row has this `history`.

    `sibling`: key and checksum of its sibling, for proxies that need it. `data`: fingerprint of the task's data.
    """

    cell: str
    seed: int
    configuration: Configuration
    weights_sha256: str
    requests: tuple[tuple[str, ProxyRequest, Description], ...]
    history: str | None = None
    sibling: tuple[str, str] | None = None
    data: str | None = None


def data_of(description: Mapping[str, Any]) -> str:
    """Fingerprint of the data of a cell's task, from the cell's description."""
    return str(description["task"]["fingerprint"])


def cell_of(job: TrainJob, device: str, status: CellStatus) -> TrainedCell:
    """The record of a job's cell: what is known of it before it is trained."""
    configuration = job.configuration
    return TrainedCell(
        cell=job.cell,
        description=json_text(job.description),
        task=configuration.task,
        family=configuration.family,
        width=configuration.width,
        seed=configuration.seed,
        status=status,
        device=device,
    )


def failed_cell(job: TrainJob, device: str, reason: str, seconds: float | None = None) -> TrainedCell:
    """The record of a cell that could not be trained, for a reason in words."""
    return replace(cell_of(job, device, "failed"), reason=reason, seconds=seconds)


Job = TrainJob | StackJob | TrialJob | MeasureJob
