"""What a whole suite will cost, from the networks of a pilot: seconds and bytes, by family and width."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gapbench.population.costs import by_width
from gapbench.population.plan import Cell
from gapbench.runs.records import StoredMeasurement, TrainedCell

Place = tuple[str, str, float]
"""Task, family and width."""


@dataclass(frozen=True)
class NetworkCost:
    """Of one network."""

    place: Place
    train_seconds: float
    measure_seconds: float
    bytes: float


@dataclass(frozen=True)
class FamilyCost:
    """Of all networks of a task and family that the suite plans."""

    task: str
    family: str
    networks: int
    train_seconds: float
    """Of one worker, per network."""
    measure_seconds: float
    hours: float
    """On this machine, with its workers."""
    bytes: float


@dataclass(frozen=True)
class PilotSession:
    """One call that trained or measured, times in seconds of the epoch."""

    start: float
    end: float


def costs_of(
    cells: Sequence[TrainedCell],
    measurements: Sequence[StoredMeasurement],
    begun: Mapping[str, float],
) -> dict[str, NetworkCost]:
    """What each network took.

    Proxies share work, which is charged to each of them. So measuring takes the time from when its first
    measurement was begun until its last was finished, but no more than what the proxies took in sum (which an
    interruption in between does not lengthen).

    Args:
        cells: trained networks.
        measurements: of them.
        begun: measurement -> when it was last begun.

    Returns:
        Cell -> its cost.
    """
    by_cell: dict[str, list[StoredMeasurement]] = defaultdict(list)
    for row in measurements:
        by_cell[row.cell].append(row)
    found = {}
    for cell in cells:
        own = by_cell[cell.cell]
        charged = sum(row.seconds or 0.0 for row in own)
        starts = [begun[row.measurement] for row in own if row.measurement in begun]
        ends = [row.finished for row in own if row.finished is not None]
        span = max(ends) - min(starts) if starts and ends else charged
        found[cell.cell] = NetworkCost(
            place=(cell.task, cell.family, cell.width),
            train_seconds=cell.seconds or 0.0,
            measure_seconds=min(charged, max(0.0, span)),
            bytes=float(cell.weights_bytes or 0),
        )
    return found


def finished_at(cells: Sequence[TrainedCell], measurements: Sequence[StoredMeasurement]) -> dict[str, float]:
    """Cell -> when its last result was stored, in seconds of the epoch."""
    finished = {row.cell: row.finished or 0.0 for row in cells}
    for row in measurements:
        finished[row.cell] = max(finished[row.cell], row.finished or 0.0)
    return finished


def overhead(
    costs: Mapping[str, NetworkCost],
    finished: Mapping[str, float],
    sessions: Sequence[PilotSession],
    workers: int,
) -> float:
    """Seconds of a session in which no network is worked on: starting workers, trials of engines, waiting.

    They hardly grow with the number of networks. (Other work on the machine makes the networks themselves slower.)

    Args:
        costs: by cell.
        finished: cell -> when its last result was stored.
        sessions: of the pilot.
        workers: that shared the work.

    Returns:
        The mean over the sessions that did something; 0 without such.
    """
    found = []
    for session in sessions:
        own = [
            costs[cell]
            for cell, end in finished.items()
            if cell in costs and session.start <= end <= session.end
        ]
        if own:
            busy = sum(cost.train_seconds + cost.measure_seconds for cost in own)
            found.append(max(0.0, session.end - session.start - busy / workers))
    return sum(found) / len(found) if found else 0.0


def family_costs(costs: Iterable[NetworkCost], planned: Sequence[Cell], workers: int) -> list[FamilyCost]:
    """The costs of all planned networks by task and family.

    The cost of a width is the mean of its networks; between widths, and beyond, it follows a power of the width.

    Args:
        costs: of the pilot's networks.
        planned: all cells of the suite.
        workers: that will share the work.

    Returns:
        By task and family; NaN where the pilot has no network of one.
    """
    known: dict[tuple[str, str], list[NetworkCost]] = defaultdict(list)
    for cost in costs:
        known[cost.place[:2]].append(cost)
    wanted: dict[tuple[str, str], list[float]] = defaultdict(list)
    for cell in planned:
        wanted[cell.configuration.task, cell.configuration.family].append(cell.configuration.width)
    found = []
    for (task, family), widths in sorted(wanted.items()):
        own = known[task, family]
        train, measure, size = (
            sum(by_width([(cost.place[2], value) for cost, value in zip(own, values)], widths))
            for values in (
                [cost.train_seconds for cost in own],
                [cost.measure_seconds for cost in own],
                [cost.bytes for cost in own],
            )
        )
        hours = (train + measure) / workers / 3600
        found.append(
            FamilyCost(task, family, len(widths), train / len(widths), measure / len(widths), hours, size)
        )
    return found
