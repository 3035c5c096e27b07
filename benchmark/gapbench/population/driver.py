"""Train and measure what a suite asks for and a run does not have yet."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from gapbench.population.admission import Admission, Budget, left_out
from gapbench.population.crew import WAITING, MakeCrew, WorkerEvent
from gapbench.population.jobs import (
    MeasureJob,
    Setup,
    StackJob,
    TrainJob,
    TrialJob,
    data_of,
    failed_cell,
)
from gapbench.population.plan import Cell
from gapbench.population.pool import local_crew
from gapbench.population.progress import Progress
from gapbench.population.siblings import siblings
from gapbench.population.stacks import Decision, Stacks, halves, left_of, restoring_job
from gapbench.population.time_left import TimeLeft
from gapbench.population.wanted import Measurements, Wanted
from gapbench.population.work import WorkPlan
from gapbench.proxies.results import Measurement
from gapbench.runs.intact import damages
from gapbench.runs.records import TrainedCell, stored_measurement
from gapbench.runs.store import Store
from gapbench.suites.requests import ProxyRequest
from gapbench_base.errors import DiskFull
from gapbench_base.garbage import uncollected

DEATHS = 2  # how often a job may kill its worker before that is its result
LOSSES = 5  # how often a job may be on machines that are lost before it is taken to be the reason
KEY = attrgetter("key")
DECISIONS = "training"  # name of the engines of a run's architectures in its database


@dataclass
class Outcome:
    """What a driver did. `problems` are things that could not be done, in words."""

    trained: int = 0
    measured: int = 0
    problems: list[str] = field(default_factory=list)


class Driver:
    """Brings a run up to date: see `bring_up_to_date`."""

    def __init__(
        self,
        store: Store,
        setup: Setup,
        cells: Sequence[Cell],
        requests: Sequence[ProxyRequest],
        progress: Progress,
        retry_failed: bool = False,
        repeats: int = 1,
        others: Sequence[Cell] = (),
        afterwards: Callable[[int], float] = lambda networks: 0.0,
        failed_only: bool = False,
        crew: MakeCrew = local_crew,
        budget: Budget | None = None,
        order: Iterable[Cell] = (),
    ):
        """What is done where, and who hears of it.

        `afterwards` says what the caller will need when so many networks are done, in seconds. `others` are not
        trained or measured now, but their weight files are checked where they have some. With `failed_only` nothing
        is measured that was never tried, but on networks that are trained now. `crew` makes those who do the jobs.
        With a `budget` only what fits is done of the cells, which `order` has with the most informative first.
        """
        self.store, self.setup, self.progress = store, setup, progress
        self.cells = {cell.key: cell for cell in cells}
        self.others = {cell.key: cell for cell in others}
        self.measurements = Measurements(requests, setup, repeats)
        self.retry_failed = retry_failed
        self.afterwards = afterwards
        self.failed_only, self.crew = failed_only, crew
        self.budget, self.order = budget, order
        self.admission: Admission | None = None
        self.outcome = Outcome()
        self.deaths: Counter[str] = Counter()
        self.losses: Counter[str] = Counter()
        self.measuring: dict[str, str] = {}  # cell -> measurement under way
        self.restored: set[str] = set()
        self.ended: set[str] = set()  # cells trained by this driver
        self.told = 0.0
        self.devices: dict[str, str] = {}  # of cells to be restored: on what they were trained

    def bring_up_to_date(self, workers: int) -> Outcome:
        """Train and measure what is missing; every finished result is stored at once.

        The weight file of every trained cell is checked, and what is damaged is trained again to the same bytes or
        is a problem. `workers` = 0 does it in this process.

        Returns:
            What was done, and what could not be.

        Raises:
            DiskFull: where there is no space left; what was finished is kept.
        """
        with uncollected():
            wanted = self._planned(workers)
            unfinished = {k for k in self.cells if k not in self.done or self._lacking(k, wanted[k])}
        self.missing = unfinished - self.done
        if self.budget is not None:
            order = (cell for cell in self.order if cell.key in unfinished)
            complete = len(self.cells) - len(unfinished)
            self.admission = Admission(self.budget, order, self.left, self.afterwards, complete)
        with self.crew(self.setup, workers) as pool:
            self.pool = pool
            if self.budget is None:
                pool.queue.extend(self.stacks.jobs(self.missing))
            ready = self.done if self.budget is None else self.done - unfinished
            for key in [*(key for key in self.cells if key in ready), *self.others]:
                if key in self.rows:
                    self._resume(key)
            trained, every = len(self.done & self.cells.keys()), sum(map(len, wanted.values()))
            self.progress.begin(len(self.cells), trained, every, len(self.stored))
            self._admit()
            pool.serve(self._handle)
            if self.measurements.beside:
                self._measure_with_siblings(wanted)
            pool.serve(self._handle)
        self._tell_left_out(wanted)
        return self.outcome

    def _planned(self, workers: int) -> dict[str, list[Wanted]]:
        """What every cell is to have; notes what there is of it."""
        cells = self.cells | self.others
        self.siblings = siblings({key: cell.description for key, cell in cells.items()})
        wanted = {key: self.measurements.on(cell, self.siblings.get(key)) for key, cell in self.cells.items()}
        first = wanted
        if self.measurements.beside:
            first = {key: [own for own in entries if not own.beside] for key, entries in wanted.items()}
        self.wanted: dict[str, list[Wanted]] = {key: [] for key in self.others} | first
        self.done = self.store.keys("cells", failed=not self.retry_failed)
        self.finished = self.store.keys("measurements", failed=not self.retry_failed)
        if self.failed_only:
            known = self.store.keys("measurements")
            self.finished.update(
                own.key for k in self.done for own in wanted.get(k, ()) if own.key not in known
            )
        self.rows = {row.cell: row for row in self.store.cells()}
        self.stacks = Stacks(self.setup, self.cells.values(), self.store.meta(DECISIONS) or {})
        counts = {key: len(self.wanted[key] if self.budget else entries) for key, entries in wanted.items()}
        counted = None if self.budget is None else ()
        work = WorkPlan(self.setup) if self.budget is not None else lambda cell: None
        self.left = TimeLeft(list(self.cells.values()), counts, workers, time.monotonic(), counted, work)
        self.stored = self.finished.intersection(map(KEY, itertools.chain.from_iterable(wanted.values())))
        self.left.known(
            [self.rows[key] for key in self.done if key in self.rows],
            self.store.measuring_costs(self.stored) if self.stored else (),
        )
        return wanted

    def _lacking(self, key: str, wanted: Sequence[Wanted]) -> bool:
        """Whether a network that is trained has not all of its measurements, and can have them."""
        row = self.rows[key]
        measurable = row.measurable and row.weights_sha256 is not None
        return measurable and not self.finished.issuperset(map(KEY, wanted))

    def _admit(self) -> None:
        """With a budget, begin what fits in; and give up what is under way when the time is over."""
        if self.admission is None:
            return
        now = time.monotonic()
        if self.admission.over(now):
            self.pool.stop()
        elif len(self.pool.queue) < self.setup.workers:
            chosen = self.admission.more(now, self.setup.workers)
            company = self.stacks.together(set(chosen), self.missing)
            self.admission.begin(company, now)
            new = [key for key in (*chosen, *company) if key in self.missing]
            self.missing.difference_update(new)
            self.pool.queue.extend(self.stacks.jobs(new) if new else ())
            for key in set(chosen).difference(new):
                self._resume(key)

    def _tell_left_out(self, wanted: Mapping[str, Sequence[Wanted]]) -> None:
        if self.budget is not None:
            trained = self.rows.keys() & self.cells.keys()
            unmeasured = sum(self._lacking(key, wanted[key]) for key in trained)
            self.progress.message(left_out(self.budget, list(self.cells.values()), trained, unmeasured))

    def _measure_with_siblings(self, every: dict[str, list[Wanted]]) -> None:
        """What needs another network as well comes last, when all that can be trained are; others wait for it."""
        if self.admission is not None and self.admission.over(time.monotonic()):
            return
        wanted = {key: [entry for entry in entries if entry.beside] for key, entries in every.items()}
        self.wanted = {key: [] for key in self.others} | wanted
        for key in self.cells:
            if wanted[key] and self.siblings[key] in self.rows and key in self.rows:
                row = self.rows[key]
                if row.measurable and row.weights_sha256 is not None:
                    self._measure(key, row.weights_sha256)

    def _resume(self, key: str) -> None:
        """A cell that is trained: check its weight file, then measure what is missing."""
        row = self.rows[key]
        if row.weights_sha256 is None:
            return
        found = damages(self.setup.run, [row])
        if found:
            self.devices[key] = str(row.device)
            self._restore(key, found[0].text)
        elif row.measurable:
            self._measure(key, row.weights_sha256)

    def _restore(self, key: str, what: str) -> None:
        if key in self.restored:
            self._problem(f"{what}, also after training again.")
            return
        self.restored.add(key)
        self.progress.message(f"{what}; training the network again to restore it.")
        self.pool.queue.appendleft(restoring_job(self.rows[key], self.others | self.cells))

    def _measure(self, key: str, sha256: str) -> None:
        entries = self.wanted[key]
        if self.finished.issuperset(map(KEY, entries)):
            return
        missing = [entry for entry in entries if entry.key not in self.finished]
        cell, history = self.cells[key], self.rows[key].history
        requests = tuple(self.measurements.described(key, entry, self.siblings.get(key)) for entry in missing)
        other, sibling = self.rows.get(self.siblings.get(key, "")), None
        if missing[0].beside and other is not None and other.measurable and other.weights_sha256:
            sibling = (other.cell, other.weights_sha256)
        data = data_of(cell.description)
        job = MeasureJob(key, cell.seed, cell.configuration, sha256, requests, history, sibling, data)
        self.pool.queue.appendleft(job)  # finish a network before the next begins

    def _handle(self, event: WorkerEvent) -> None:
        now = time.monotonic()
        if event.kind != WAITING:
            self.left.heard(event.worker, now)
        if event.kind == "training":  # nothing is done by that
            for key in event.value:
                self.store.begun(key, event.worker)
            return
        self._take(event)
        self._admit()
        if now - self.told >= 1.0:
            self.told = now
            self.progress.left(self._seconds_left(now))

    def _seconds_left(self, now: float) -> float | None:
        if self.admission is not None:
            return self.admission.seconds(now)
        seconds = self.left.seconds(now)
        return None if seconds is None else seconds + self.afterwards(len(self.cells))

    def _take(self, event: WorkerEvent) -> None:
        if event.kind == "disk_full":
            raise DiskFull(event.value)
        if event.kind == "measuring":
            assert event.job is not None
            self.measuring[event.job.cell] = event.value
            self.store.begun(event.value, event.worker)
        elif event.kind == "measurement":
            self.store.add_measurements([event.value])
            self.finished.add(event.value.measurement)
            self.outcome.measured += 1
            self.left.measured(event.value)
            self.progress.measured(event.value)
        elif event.kind == "trained":
            assert isinstance(event.job, TrainJob)
            self._trained(event.job, event.value)
        elif event.kind == "tried":
            assert isinstance(event.job, TrialJob)
            self._decided(event.job, event.value)
        elif event.kind == "unusable":
            self._unusable(event)
        elif event.kind == "note":
            self.progress.message(event.value)
        elif event.kind in ("died", "lost"):
            self._died(event)

    def _decided(self, job: TrialJob, decision: Decision) -> None:
        jobs = self.stacks.decided(job.architecture, decision)
        self.store.set_meta(DECISIONS, self.stacks.stored())
        self.pool.queue.extendleft(reversed(jobs))

    def _trained(self, job: TrainJob, record: TrainedCell) -> None:
        self.ended.add(job.cell)
        if job.restore is None:
            self.store.add_cell(record)
            self.rows[job.cell] = record
            self.outcome.trained += 1
            self.left.trained(record)
            self.progress.trained(record)
        elif record.status == "failed":
            self._problem(f"The weights of cell {job.cell} could not be restored: {record.reason}")
            return
        else:
            self.progress.message(f"The weights of cell {job.cell} are restored, bit for bit.")
        if record.measurable and record.weights_sha256 is not None:
            self._measure(job.cell, record.weights_sha256)

    def _unusable(self, event: WorkerEvent) -> None:
        if isinstance(event.job, MeasureJob) and "weight file" in event.value:
            self._restore(event.job.cell, event.value.rstrip("."))
        elif isinstance(event.job, TrialJob):
            self._decided(event.job, Decision(reason=event.value))
        else:
            device = self.devices.get(event.job.cell, "") if event.job is not None else ""
            other = device not in ("", self.setup.device) and isinstance(event.job, TrainJob)
            self._problem(
                f"{event.value} It was trained on {device}: try --device {device}." if other else event.value
            )

    def _given_up(self, key: str, event: WorkerEvent, deaths: int = DEATHS) -> str | None:
        """Count that a job's worker has died or its machine is lost.

        Returns:
            Why it is not tried again, None as long as it is.
        """
        lost = event.kind == "lost"
        count = self.losses if lost else self.deaths
        count[key] += 1
        return f"{event.value}, {count[key]} times" if count[key] >= (LOSSES if lost else deaths) else None

    def _died(self, event: WorkerEvent) -> None:
        job = event.job
        assert job is not None
        if isinstance(job, TrialJob):
            reason = self._given_up(job.architecture, event)
            if reason is None:
                self.pool.queue.append(job)
            else:
                self._decided(job, Decision(reason=f"a trial: {reason}"))
        elif isinstance(job, TrainJob):
            reason = self._given_up(job.cell, event)
            if reason is None:
                self.pool.queue.append(job)
            else:
                self._untrainable(job, reason)
        elif isinstance(job, StackJob):
            self._stack_died(job, event)
        else:
            self._measuring_died(job, event)

    def _stack_died(self, job: StackJob, event: WorkerEvent) -> None:
        left = left_of(job, self.ended)
        if left is None:
            return
        reason = self._given_up("+".join(sorted(member.cell for member in left.members)), event)
        if reason is None:
            self.pool.queue.append(left)
        elif len(left.wanted) > 1:
            self.pool.queue.extend(halves(left))
        else:
            self._untrainable(left.member(left.cell), reason)

    def _untrainable(self, job: TrainJob, reason: str) -> None:
        if job.restore is not None:
            self._problem(f"The weights of cell {job.cell} could not be restored: {reason}.")
        else:
            self.store.add_cell(failed_cell(job, self.setup.device, reason))

    def _measuring_died(self, job: MeasureJob, event: WorkerEvent) -> None:
        key = self.measuring.get(job.cell)
        if key is not None and key not in self.finished:
            reason = self._given_up(key, event)
            if reason is not None:
                request, description = next((r, d) for k, r, d in job.requests if k == key)
                record = stored_measurement(
                    Measurement(request.proxy, None, None, 0.0, "failed", reason),
                    key=key,
                    cell=job.cell,
                    label=request.label,
                    description=description,
                    device=self.setup.device,
                )
                self.store.add_measurements([replace(record, seconds=None)])
                self.finished.add(key)
        elif self._given_up(job.cell, event, DEATHS + 1) is not None:
            self._problem(f"Cell {job.cell} cannot be measured: {event.value}.")
            return
        self._measure(job.cell, job.weights_sha256)

    def _problem(self, text: str) -> None:
        self.outcome.problems.append(text)
        self.progress.message(text)
