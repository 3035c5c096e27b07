"""What a run will cost, before it is begun: `gapbench run SUITE --dry-run`."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gapbench.pilot.costs import (
    FamilyCost,
    NetworkCost,
    PilotSession,
    costs_of,
    family_costs,
    finished_at,
    overhead,
)
from gapbench.pilot.report import aligned, family_rows, number, size
from gapbench.population.choosing import choose
from gapbench.population.facts import facts_source
from gapbench.population.memory import MemoryPlan
from gapbench.population.plan import Cell
from gapbench.population.shards import parse_shard
from gapbench.population.updating import brought_up_to_date, part_of_plan
from gapbench.running import (
    choose_proxies,
    default_folder,
    planned,
    setup_of,
    worker_count,
)
from gapbench.runs.environment import choose_device
from gapbench.runs.folder import run_folder, suite_in
from gapbench.runs.kinds import SUBMISSION
from gapbench.runs.store import Store
from gapbench.suites.requests import ProxyRequest
from gapbench.suites.suite import Suite, load_suite
from gapbench_base.durations import duration
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from gapbench.population.jobs import Setup
    from gapbench.population.progress import Progress

SECONDS = 30.0
"""Networks are tried until so much time has passed, at least one of each task and family that is not known."""
MOST_OF_GROUP = 6
"""Networks of one task and family that are tried at most."""
ROW_BYTES = 1800
"""Of the database and the board's files, for one measurement: those of `compact` take 1,820, half of it each."""


@dataclass(frozen=True)
class RunEstimate:
    """What is left of a run.

    Attributes:
        suite: name and version.
        networks: how many there are to train or measure, of `planned`.
        planned: in all.
        workers: processes that share the work, on a `device`.
        device: kind of device.
        costs: by task and family, of the networks that are left.
        overhead_seconds: in which no network is worked on.
        memory_bytes: that all processes together take at most; NaN where nothing was tried.
        measurements: how many are left.
        known: networks of earlier runs that it rests on.
        tried: networks that were trained for it, in `trial_seconds`.
        trial_seconds: how long that took.
        task_bytes: that the largest of them asks for on a cluster (`gapbench.population.memory`).
    """

    suite: str
    networks: int
    planned: int
    workers: int
    device: str
    costs: tuple[FamilyCost, ...]
    overhead_seconds: float
    memory_bytes: float
    measurements: int
    known: int
    tried: int
    trial_seconds: float
    task_bytes: float = 0.0

    @property
    def seconds(self) -> float:
        """From begin to end, on this machine."""
        return math.fsum([self.overhead_seconds, *(3600 * own.hours for own in self.costs)])

    @property
    def disk_bytes(self) -> float:
        """Weights, database and board."""
        return math.fsum([*(own.bytes for own in self.costs), ROW_BYTES * self.measurements])


def estimate(
    suite: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    device: str = "auto",
    data_dir: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    limit: int | None = None,
    shard: str | None = None,
    proxies: Sequence[str] | None = None,
    repeats: int = 1,
    stacks: str | None = None,
    seconds: float = SECONDS,
    progress: Progress | None = None,
) -> RunEstimate:
    """What `gapbench.run` with these arguments would cost, without touching its folder.

    Known are networks of the plan that a run in the same folder, or beside it, has trained and measured. Of a task
    and family without such, some networks are trained and measured now, in a folder that is thrown away.

    Args:
        suite: as in `gapbench.run`, like all that is not named here.
        out: the folder of the run.
        device: as there.
        data_dir: as there.
        workers: as there.
        limit: as there.
        shard: as there.
        proxies: as there.
        repeats: as there.
        stacks: as there.
        seconds: networks are tried until so much time has passed.
        progress: hears of those that are tried.

    Returns:
        The estimate.

    Raises:
        GapbenchError: for wrong usage or missing data.
    """
    own = run_folder(suite)
    chosen = suite_in(own) if own is not None else load_suite(os.fspath(suite))
    part = None if shard is None else parse_shard(shard)
    folder = Path(out if out is not None else own if own is not None else default_folder(chosen, part))
    device = choose_device(device)
    count = worker_count(workers, device)
    requests = choose_proxies(chosen, proxies)
    with tempfile.TemporaryDirectory(prefix="gapbench-dry-run-") as trial:
        kind = stacks or ("any" if device == "cuda" else "exact")
        setup = setup_of(chosen, Path(trial) / chosen.name, device, data_dir, count, kind)
        plan = planned(chosen, setup.data_dir, f"suite {suite}, [measure]")
        plan = list(part_of_plan(chosen, plan, part))[:limit]
        wanted = {cell.key: cell for cell in plan}
        known, trained, done = _known(folder, wanted, {request.label for request in requests}, repeats)
        left = [cell for cell in plan if cell.key not in done]
        missing = _without({cost.place[:2] for cost in known.values()}, left)
        tried: dict[str, NetworkCost] = {}
        session, memory, idle = 0.0, math.nan, 0.0
        if missing:
            order = _order(chosen, missing, data_dir=setup.data_dir)
            start = time.time()
            if progress is not None:
                progress.message(
                    "Trying a few networks of each kind for the estimate; nothing of them is kept."
                )
            _try(chosen, setup, order, requests, count, repeats, start + seconds, progress)
            end = time.time()
            tried, idle = _measured(setup.run, PilotSession(start, end), count)
            session, memory = end - start, _memory(count)
    costs = _costs([*known.values(), *tried.values()], left, trained, max(1, count))
    return RunEstimate(
        suite=f"{chosen.name} version {chosen.version}",
        networks=len(left),
        planned=len(plan),
        workers=max(1, count),
        device=device,
        costs=costs,
        overhead_seconds=idle if left else 0.0,
        memory_bytes=memory,
        measurements=len(left) * len(requests) * repeats,
        known=len(known),
        tried=len(tried),
        trial_seconds=session,
        task_bytes=MemoryPlan(setup).largest([cell.configuration for cell in left]).host if left else 0.0,
    )


def _known(
    folder: Path, wanted: Mapping[str, Cell], labels: Collection[str], repeats: int
) -> tuple[dict[str, NetworkCost], set[str], set[str]]:
    """Costs of networks of the plan that runs beside the folder have, and which of them its own run has.

    A network is whole that has all that is asked for; what else was measured on it, such as submissions, does not
    count. Runs that cannot be read are none to learn from.

    Returns:
        Cell -> cost, the cells that are trained, and those that are done.
    """
    found: dict[str, NetworkCost] = {}
    trained: set[str] = set()
    done: set[str] = set()
    for run in sorted(path.parent for path in folder.parent.glob("*/run.sqlite")):
        with contextlib.suppress(GapbenchError), Store(run, readonly=True) as store:
            rows = [row for row in store.cells() if row.cell in wanted]
            measured = [
                row
                for row in store.measurements()
                if row.cell in wanted and row.label in labels and SUBMISSION not in row.description
            ]
            own = Counter(row.cell for row in measured)
            whole = [row for row in rows if not row.measurable or own[row.cell] >= len(labels) * repeats]
            found |= costs_of(whole, measured, store.begun_at())
            if run.resolve() == folder.resolve():
                trained, done = {row.cell for row in rows}, {row.cell for row in whole}
    return found, trained, done


def _costs(
    known: Sequence[NetworkCost], left: Sequence[Cell], trained: Collection[str], workers: int
) -> tuple[FamilyCost, ...]:
    """The costs of what is left by task and family; what is trained is only measured."""
    untrained = [cell for cell in left if cell.key not in trained]
    training = {(own.task, own.family): own for own in family_costs(known, untrained, workers)}
    found = []
    for own in family_costs(known, left, workers):
        other = training.get((own.task, own.family))
        train = 0.0 if other is None else other.networks * other.train_seconds / own.networks
        hours = own.networks * (train + own.measure_seconds) / workers / 3600
        size_of = 0.0 if other is None else other.bytes
        found.append(replace(own, train_seconds=train, hours=hours, bytes=size_of))
    return tuple(found)


def _without(groups: set[tuple[str, str]], cells: Sequence[Cell]) -> list[Cell]:
    """The cells of tasks and families that nothing is known of."""
    return [cell for cell in cells if (cell.configuration.task, cell.configuration.family) not in groups]


def _order(suite: Suite, cells: Sequence[Cell], data_dir: str | None) -> list[list[Cell]]:
    """Rounds of networks to be tried: of each task and family one, balanced over the axes."""
    taken: dict[tuple[str, str], int] = defaultdict(int)
    rounds: list[list[Cell]] = [[] for _ in range(MOST_OF_GROUP)]
    for cell in choose(cells, len(cells), suite.axes, facts_source(data_dir)):
        group = (cell.configuration.task, cell.configuration.family)
        if taken[group] < MOST_OF_GROUP:
            rounds[taken[group]].append(cell)
            taken[group] += 1
    return [own for own in rounds if own]


def _try(
    suite: Suite,
    setup: Setup,
    rounds: Sequence[Sequence[Cell]],
    requests: Sequence[ProxyRequest],
    workers: int,
    repeats: int,
    until: float,
    progress: Progress | None,
) -> None:
    """Train and measure rounds of networks, the first in any case, others while there is time.

    Raises:
        GapbenchError: for what could not be done.
    """
    begun: list[Cell] = []
    took = 0.0
    for own in rounds:
        if begun and time.time() + took > until:
            return
        start = time.time()
        begun += own
        problems = brought_up_to_date(
            suite, setup, begun, requests, workers, repeats=repeats, progress=progress
        )
        if problems:
            raise GapbenchError(f"A network could not be tried, so that nothing can be said: {problems[0]}")
        took = time.time() - start


def _measured(run: Path, session: PilotSession, workers: int) -> tuple[dict[str, NetworkCost], float]:
    """What the networks of a trial cost, and how long none was worked on."""
    with Store(run, readonly=True) as store:
        rows, measurements = store.cells(), store.measurements()
        costs = costs_of(rows, measurements, store.begun_at())
    return costs, overhead(costs, finished_at(rows, measurements), [session], max(1, workers))


def _memory(workers: int) -> float:
    """Bytes of this process and of as many workers as the largest that it had."""
    unit = 1 if sys.platform == "darwin" else 1024
    own, largest = (
        resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return float(unit * (own + workers * largest))


def estimate_text(found: RunEstimate) -> str:
    """An estimate as lines of at most 100 columns."""
    if not found.networks:
        return (
            f"Nothing is left to do of {found.suite}: all {found.planned} networks are trained and measured."
        )
    left = "" if found.networks == found.planned else f", {found.networks} of them left to train or measure"
    workers = f"{found.workers} worker{'' if found.workers == 1 else 's'}"
    lines = [f"{found.suite}: {found.planned} networks{left}; {workers} on {found.device}", ""]
    whole = ("in all", "", str(found.networks), "", "", duration(found.seconds), size(found.disk_bytes))
    lines += [*aligned([*family_rows(found.costs), whole]), "", *_about(found)]
    return "\n".join(lines)


def _about(found: RunEstimate) -> Iterator[str]:
    yield "Seconds of one worker for each network; in all with measurements and the board on disk."
    if math.isfinite(found.memory_bytes):
        yield f"Memory: about {size(found.memory_bytes)} for all processes together."
    if found.task_bytes:
        yield f"On a Ray cluster a network asks for at most {size(found.task_bytes)}."
    sources = []
    if found.known:
        sources.append(f"{found.known} networks of earlier runs in the same place")
    if found.tried:
        sources.append(
            f"{found.tried} networks trained and measured now ({number(found.trial_seconds, 2)} s)"
        )
    yield f"From {' and '.join(sources)}; nothing of it is kept." if found.tried else f"From {sources[0]}."
