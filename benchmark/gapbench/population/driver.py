"""Train and measure what a suite asks for and a run does not have yet."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gapbench.population.inline import Inline
from gapbench.population.jobs import (
    Description,
    MeasureJob,
    Setup,
    StackJob,
    TrainJob,
    TrialJob,
    failed_cell,
)
from gapbench.population.plan import Cell
from gapbench.population.pool import WAITING, Pool, WorkerEvent
from gapbench.population.progress import Progress
from gapbench.population.siblings import siblings
from gapbench.population.stacks import Decision, Stacks, halves, left_of, restoring_job
from gapbench.population.time_left import TimeLeft
from gapbench.proxies.registry import checked_options, proxy_entry
from gapbench.proxies.results import Measurement
from gapbench.runs.intact import damages
from gapbench.runs.records import CALIBRATED, TrainedCell, stored_measurement
from gapbench.runs.store import Store
from gapbench.suites.requests import ProxyRequest
from gapbench_base.errors import DiskFull, GapbenchError
from gapbench_base.keys import content_key

MEASURE_PROTOCOL = 1
DEATHS = 2  # how often a job may kill its worker before that is its result
DECISIONS = "training"  # name of the engines of a run's architectures in its database
Wanted = tuple[str, ProxyRequest, Description]  # key, request and description of a measurement


@dataclass
class Outcome:
    """What a driver did. `problems` are things that could not be done, in words."""

    trained: int = 0
    measured: int = 0
    problems: list[str] = field(default_factory=list)


def measurement_description(
    cell: str, request: ProxyRequest, setup: Setup, repeat: int = 0, sibling: str | None = None
) -> Description:
    """All that a measurement's value depends on; its key is the hash of this."""
    entry = proxy_entry(request.proxy)
    description: Description = {
        "protocol": MEASURE_PROTOCOL,
        "cell": cell,
        "proxy": entry.name,
        "version": entry.version,
        "options": checked_options(entry, dict(request.options)),
        "label": request.label,
        "samples": setup.samples,
        "loss": setup.loss,
        "seed": setup.measure_seed,
    }
    if repeat:
        description["repeat"] = repeat
    if "sibling" in entry.needs and sibling is not None:
        description["sibling"] = sibling
    if request.named:  # the names are those of the whole row, the numbers of this network alone
        options = checked_options(entry, dict(request.options))
        description[CALIBRATED] = {key: options[key] for key, _ in request.named}
        description["options"] = {**options, **dict(request.named)}
    return description


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
        afterwards: Callable[[], float] = lambda: 0.0,
        failed_only: bool = False,
    ):
        """What is done where, and who hears of it.

        `afterwards` says what the caller will need when all is done, in seconds. `others` are not trained or
        measured now, but their weight files are checked where they have some. With `failed_only` nothing is
        measured that was never tried, but on networks that are trained now.
        """
        self.store, self.setup, self.progress = store, setup, progress
        self.cells = {cell.key: cell for cell in cells}
        self.others = {cell.key: cell for cell in others}
        self.requests = tuple(requests)
        self.retry_failed = retry_failed
        self.repeats = repeats
        self.afterwards = afterwards
        self.failed_only = failed_only
        self.outcome = Outcome()
        self.deaths: Counter[str] = Counter()
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
        trained = self.store.statuses("cells")
        measured = self.store.statuses("measurements")
        cells = self.cells | self.others
        self.siblings = siblings({key: cell.description for key, cell in cells.items()})
        wanted = {
            key: [
                (content_key(description), request, description)
                for repeat in range(self.repeats)
                for request in own
                for description in [
                    measurement_description(key, request, self.setup, repeat, self.siblings.get(key))
                ]
            ]
            for key, cell in self.cells.items()
            for own in [[request.on(cell.configuration) for request in self.requests]]
        }
        last = {key: [entry for entry in entries if "sibling" in entry[2]] for key, entries in wanted.items()}
        self.wanted: dict[str, list[Wanted]] = {key: [] for key in self.others} | {
            key: [entry for entry in entries if "sibling" not in entry[2]] for key, entries in wanted.items()
        }
        done = {key for key, status in trained.items() if not self._redo(status)}
        self.finished = {key for key, status in measured.items() if not self._redo(status)}
        if self.failed_only:
            never = [entry[0] for key in done for entry in wanted.get(key, ()) if entry[0] not in measured]
            self.finished.update(never)
        self.rows = {row.cell: row for row in self.store.cells()}
        self.stacks = Stacks(self.setup, self.cells.values(), self.store.meta(DECISIONS) or {})
        counts = {key: len(entries) for key, entries in wanted.items()}
        self.left = TimeLeft(list(self.cells.values()), counts, workers, time.monotonic())
        keys = {entry[0] for entries in wanted.values() for entry in entries} & self.finished
        self.left.known(
            [self.rows[key] for key in done if key in self.rows],
            [row for row in self.store.measurements() if row.measurement in keys] if keys else [],
        )
        with Pool(self.setup, workers) if workers else Inline(self.setup) as pool:
            self.pool = pool
            pool.queue.extend(self.stacks.jobs([key for key in self.cells if key not in done]))
            for key, cell in self.cells.items():
                if key in done:
                    self._resume(cell, self.rows[key])
            for key, cell in self.others.items():
                if key in self.rows:
                    self._resume(cell, self.rows[key])
            self.progress.begin(
                len(self.cells),
                sum(key in done for key in self.cells),
                sum(len(entries) for entries in wanted.values()),
                sum(entry[0] in self.finished for entries in wanted.values() for entry in entries),
            )
            pool.serve(self._handle)
            self._measure_with_siblings(last)
            pool.serve(self._handle)
        return self.outcome

    def _measure_with_siblings(self, wanted: dict[str, list[Wanted]]) -> None:
        """What needs another network as well comes last, when all that can be trained are; others wait for it."""
        self.wanted = {key: [] for key in self.others} | wanted
        for key in self.cells:
            if wanted[key] and self.siblings[key] in self.rows and key in self.rows:
                row = self.rows[key]
                if row.measurable and row.weights_sha256 is not None:
                    self._measure(key, row.weights_sha256)

    def _redo(self, status: str) -> bool:
        return status == "failed" and self.retry_failed

    def _resume(self, cell: Cell, row: TrainedCell) -> None:
        """A cell that is trained: check its weight file, then measure what is missing."""
        if row.weights_sha256 is None:
            return
        found = damages(self.setup.run, [row])
        if found:
            self.devices[cell.key] = str(row.device)
            self._restore(cell.key, found[0].text)
        elif row.measurable:
            self._measure(cell.key, row.weights_sha256)

    def _restore(self, key: str, what: str) -> None:
        if key in self.restored:
            self._problem(f"{what}, also after training again.")
            return
        self.restored.add(key)
        self.progress.message(f"{what}; training the network again to restore it.")
        self.pool.queue.appendleft(restoring_job(self.rows[key], self.others | self.cells))

    def _measure(self, key: str, sha256: str) -> None:
        missing = tuple(entry for entry in self.wanted[key] if entry[0] not in self.finished)
        if missing:
            cell = self.cells[key]
            history = self.rows[key].history
            other, sibling = self.rows.get(self.siblings.get(key, "")), None
            if "sibling" in missing[0][2] and other is not None and other.measurable and other.weights_sha256:
                sibling = (other.cell, other.weights_sha256)
            job = MeasureJob(key, cell.seed, cell.configuration, sha256, missing, history, sibling)
            self.pool.queue.appendleft(job)  # finish a network before the next begins

    def _handle(self, event: WorkerEvent) -> None:
        if event.kind == "training":  # nothing is done by that
            for key in event.value:
                self.store.begun(key, event.worker)
            return
        now = time.monotonic()
        if event.kind != WAITING:
            self.left.heard(event.worker, now)
        self._take(event)
        if now - self.told >= 1.0:
            self.told = now
            seconds = self.left.seconds(now)
            self.progress.left(None if seconds is None else seconds + self.afterwards())

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
        elif event.kind == "died":
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

    def _died(self, event: WorkerEvent) -> None:
        job = event.job
        assert job is not None
        if isinstance(job, TrialJob):
            self.deaths[job.architecture] += 1
            if self.deaths[job.architecture] < DEATHS:
                self.pool.queue.append(job)
            else:
                self._decided(job, Decision(reason=f"a trial: {event.value}, {DEATHS} times"))
        elif isinstance(job, TrainJob):
            self.deaths[job.cell] += 1
            if self.deaths[job.cell] < DEATHS:
                self.pool.queue.append(job)
            else:
                self._given_up(job, event.value)
        elif isinstance(job, StackJob):
            self._stack_died(job, event.value)
        else:
            self._measuring_died(job, event.value)

    def _stack_died(self, job: StackJob, reason: str) -> None:
        left = left_of(job, self.ended)
        if left is None:
            return
        company = "+".join(sorted(member.cell for member in left.members))
        self.deaths[company] += 1
        if self.deaths[company] < DEATHS:
            self.pool.queue.append(left)
        elif len(left.wanted) > 1:
            self.pool.queue.extend(halves(left))
        else:
            self._given_up(left.member(left.cell), reason)

    def _given_up(self, job: TrainJob, reason: str) -> None:
        if job.restore is not None:
            self._problem(f"The weights of cell {job.cell} could not be restored: {reason}.")
        else:
            self.store.add_cell(failed_cell(job, self.setup.device, f"{reason}, {DEATHS} times"))

    def _measuring_died(self, job: MeasureJob, reason: str) -> None:
        key = self.measuring.get(job.cell)
        if key is not None and key not in self.finished:
            self.deaths[key] += 1
            if self.deaths[key] >= DEATHS:
                request, description = next((r, d) for k, r, d in job.requests if k == key)
                record = stored_measurement(
                    Measurement(request.proxy, None, None, 0.0, "failed", f"{reason}, {DEATHS} times"),
                    key=key,
                    cell=job.cell,
                    label=request.label,
                    description=description,
                    device=self.setup.device,
                )
                self.store.add_measurements([replace(record, seconds=None)])
                self.finished.add(key)
        else:
            self.deaths[job.cell] += 1
            if self.deaths[job.cell] > DEATHS:
                self._problem(f"Cell {job.cell} cannot be measured: {reason}.")
                return
        self._measure(job.cell, job.weights_sha256)

    def _problem(self, text: str) -> None:
        self.outcome.problems.append(text)
        self.progress.message(text)


def check_folder(run: Path) -> None:
    """Create the run's folder; raises `GapbenchError` if that is not possible."""
    try:
        (run / "weights").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GapbenchError(f"The folder {run} cannot be used: {error.strerror or error}.") from None
