"""Which cells of a run are trained together, and by what: jobs from cells that are missing or damaged."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace

from gapbench.population.jobs import Job, Setup, StackJob, TrainJob, TrialJob
from gapbench.population.plan import Cell
from gapbench.runs.records import TrainedCell
from gapbench.suites.hyperparameters import Hyperparameters

LEAST = 3
"""Cells of one architecture from which on a trial is worth its time."""
TRIED = 16
"""Networks that a trial gets to choose from."""
OWN_OPTIONS = ("data_seed", "label_noise")
"""Options of a task that networks trained together may differ in: they change neither shapes nor numbers."""
SHARED = ("depth", "dropout", "optimizer", "batch_size")
"""Hyper-parameters that networks trained together have in common."""
SHARED_LATER = ("activation", "soft_targets", "validation")
"""The same, but named only where they are not the default's, so that decisions of earlier versions are found."""
LOOP = "loop"
CHANNELS_LAST = "loop, channels last"
"""What is recorded of a network that was trained alone on a CPU with this order of images in memory."""


@dataclass(frozen=True)
class Decision:
    """How networks of one architecture are trained in a run, as it is stored there.

    What is not `exact` gives other last bits in other company, which then belongs to what a network was made of.

    Attributes:
        engine: `loop`, one network at a time, or the name of an engine of `gapbench.population.engines`.
        exact: whether a network gets the bits of the plain loop, in any company.
        size: how many networks a stack has at most.
        reason: why, in words.
        loop_seconds: of a step of one network in the plain loop; `stack_seconds` in the stack.
    """

    engine: str = LOOP
    exact: bool = True
    size: int = 1
    reason: str = ""
    loop_seconds: float | None = None
    stack_seconds: float | None = None


def kind_of(cell: Cell) -> list[object]:
    """What networks that could be trained together have in common, as plain JSON values."""
    configuration = cell.configuration
    options = {name: value for name, value in configuration.task_options if name not in OWN_OPTIONS}
    training, defaults = configuration.training, Hyperparameters()
    shared = {name: getattr(training, name) for name in SHARED}
    for name in SHARED_LATER:
        if getattr(training, name) != getattr(defaults, name):
            shared[name] = getattr(training, name)
    return [configuration.task, options, configuration.family, configuration.width, shared]


def architecture_of(cell: Cell, setup: Setup) -> str:
    """What all cells that one decision is for have in common, as JSON text: how they are trained, and where."""
    place = [setup.device, setup.arithmetic, setup.stacks]
    return json.dumps([*kind_of(cell), place], sort_keys=True)


class Stacks:
    """Makes jobs of cells; `decisions` by architecture are those of the run, and it adds to them."""

    def __init__(self, setup: Setup, cells: Iterable[Cell], decisions: Mapping[str, Mapping[str, object]]):
        """`cells`: all that are asked for, trained or not, in the plan's order."""
        known = {field.name for field in fields(Decision)}
        self.setup = setup
        self.decisions = {
            name: Decision(**{key: value for key, value in decision.items() if key in known})  # type: ignore[arg-type]
            for name, decision in decisions.items()
        }
        self._cells: dict[str, list[Cell]] = {}
        cells = list(cells)
        self._position = {cell.key: index for index, cell in enumerate(cells)}
        for cell in cells:
            self._cells.setdefault(architecture_of(cell, setup), []).append(cell)
        self._tried: dict[str, set[str]] = {}  # architecture -> cells that wait for its trial
        self._share = 1  # cells of those asked for last, for each worker

    def stored(self) -> dict[str, dict[str, object]]:
        """All decisions as plain JSON."""
        return {name: asdict(decision) for name, decision in self.decisions.items()}

    def jobs(self, missing: Collection[str]) -> list[Job]:
        """Jobs that train these cells, or first find out how: `decided` then gives the others.

        Returns:
            Jobs, in the order of the first of their cells.
        """
        missing = frozenset(missing)
        self._share = -(-len(missing) // max(1, self.setup.workers))
        found: list[tuple[int, Job]] = []
        for architecture, cells in self._cells.items():
            wanted = [cell for cell in cells if cell.key in missing]
            if not wanted:
                continue
            if architecture in self._tried:
                self._tried[architecture].update(cell.key for cell in wanted)
                continue
            if architecture in self.decisions or len(wanted) < LEAST or self.setup.stacks == "off":
                jobs = self._training(architecture, missing)
            else:
                jobs = [TrialJob(architecture, tuple(train_job(cell) for cell in wanted[:TRIED]))]
                self._tried[architecture] = {cell.key for cell in wanted}
            found += [(self._position[job.cell], job) for job in jobs]
        return [job for _, job in sorted(found, key=lambda entry: entry[0])]

    def decided(self, architecture: str, decision: Decision) -> list[Job]:
        """Take note of what a trial has found.

        Returns:
            Jobs that train the cells of the architecture that waited for it.
        """
        self.decisions[architecture] = decision
        return self._training(architecture, frozenset(self._tried.pop(architecture, ())))

    def together(self, chosen: Collection[str], missing: Collection[str]) -> list[str]:
        """The missing cells that are trained when those chosen are, because the company belongs to the result.

        Returns:
            Keys of others than those chosen.
        """
        found: list[str] = []
        for architecture, cells in self._cells.items():
            decision = self.decisions.get(architecture, Decision())
            if decision.engine == LOOP or decision.exact or self.setup.stacks == "off":
                continue
            for part in evenly(cells, decision.size):
                keys = [cell.key for cell in part]
                if any(key in chosen for key in keys):
                    found += [key for key in keys if key in missing and key not in chosen]
        return found

    def _training(self, architecture: str, missing: frozenset[str]) -> list[Job]:
        decision = self.decisions.get(architecture, Decision())
        cells = self._cells[architecture]
        wanted = [cell for cell in cells if cell.key in missing]
        if decision.engine == LOOP or self.setup.stacks == "off":
            return [train_job(cell) for cell in wanted]
        if decision.exact:
            # No more at once than leaves something for every worker.
            parts = evenly(wanted, max(2, min(decision.size, self._share)))
        else:  # the company belongs to the result, so it is always the same
            parts = evenly(cells, decision.size)
        return [
            stack_job([train_job(cell) for cell in part], decision.engine, decision.exact, missing)
            for part in parts
            if any(cell.key in missing for cell in part)
        ]


def evenly(cells: Sequence[Cell], most: int) -> list[Sequence[Cell]]:
    """Cut into as few parts as possible of at most `most`, which differ in length by at most one.

    Returns:
        The parts, in order.
    """
    count = -(-len(cells) // most)
    bounds = [index * len(cells) // count for index in range(count + 1)]
    return [cells[start:stop] for start, stop in itertools.pairwise(bounds)]


def train_job(cell: Cell, restore: str | None = None) -> TrainJob:
    """The job that trains a cell by itself."""
    return TrainJob(cell.key, cell.seed, cell.configuration, cell.description, restore)


def stack_job(members: Sequence[TrainJob], engine: str, exact: bool, wanted: Collection[str]) -> StackJob:
    """The job that trains cells together and reports those that are wanted."""
    keys = frozenset(job.cell for job in members if job.cell in wanted)
    return StackJob(tuple(members), engine, exact, keys)


def restoring_job(row: TrainedCell, cells: Mapping[str, Cell]) -> Job:
    """The job that trains a cell again to the weights that its row records, in the company it was trained in.

    Args:
        row: what is recorded of the cell.
        cells: all cells of the plan, by key.

    Returns:
        The job.
    """
    job = train_job(cells[row.cell], restore=row.weights_sha256)
    if row.engine in (None, LOOP, CHANNELS_LAST):
        return replace(job, channels_last=row.engine == CHANNELS_LAST)
    company = [row.cell] if row.company is None else json.loads(row.company)
    if not set(company) <= set(cells):  # it will be said that the weights are others
        return job
    members = [job if key == row.cell else train_job(cells[key]) for key in company]
    return stack_job(members, str(row.engine), row.company is None, {row.cell})


def left_of(job: StackJob, ended: Collection[str]) -> StackJob | None:
    """What is left of a stack: the same company where it matters, without the members that have ended elsewhere."""
    left = [member for member in job.members if member.cell in job.wanted and member.cell not in ended]
    if not left:
        return None
    keys = {member.cell for member in left}
    return stack_job(left if job.exact else job.members, job.engine, job.exact, keys)


def halves(job: StackJob) -> list[Job]:
    """A stack of several wanted cells as two, so that a network that kills its worker is found."""
    left = [member for member in job.members if member.cell in job.wanted]
    middle = len(left) // 2
    return [stack_job(part, job.engine, job.exact, job.wanted) for part in (left[:middle], left[middle:])]
