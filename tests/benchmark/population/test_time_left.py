"""The prediction of the time left, in a simulated run with a simulated clock."""

import heapq
import random
from dataclasses import dataclass

import pytest

from gapbench.population.time_left import TimeLeft
from gapbench.runs.records import StoredMeasurement, TrainedCell


@dataclass(frozen=True)
class Configuration:
    task: str
    family: str
    width: float


@dataclass(frozen=True)
class Cell:
    key: str
    configuration: Configuration


PROXIES = 5
FAMILIES = {"cheap": (0.2, 0.5, 30), "conv": (2.0, 1.5, 6), "wide": (8.0, 1.0, 6), "odd": (3.0, 0.0, 4)}


def simulated(seed, workers, sharing=0.6):
    """Networks in an order balanced over families, and the moments at which their results come in."""
    generator = random.Random(seed)
    queues = {
        family: [(family, width) for _ in range(count * workers) for width in (0.5, 1.0, 2.0)]
        for family, (_, _, count) in FAMILIES.items()
    }
    for queue in queues.values():
        generator.shuffle(queue)
    order = []
    while any(queues.values()):
        order += [queue.pop() for queue in queues.values() if queue]
    cells = [Cell(f"c{i}", Configuration("t", family, width)) for i, (family, width) in enumerate(order)]
    events, free = [], [(0.0, worker) for worker in range(workers)]
    heapq.heapify(free)
    for cell in cells:
        base, power, _ = FAMILIES[cell.configuration.family]
        cost = base * cell.configuration.width**power
        now, worker = heapq.heappop(free)
        now += cost * generator.uniform(0.6, 1.4)
        train = now
        events.append((train, worker, "trained", cell, cost))
        for _ in range(PROXIES):
            stated = cost / PROXIES * generator.uniform(0.6, 1.4)
            now += sharing * stated  # each is charged for what is computed once
            events.append((now, worker, "measured", cell, stated))
        heapq.heappush(free, (now, worker))
    return cells, sorted(events, key=lambda event: event[0])


def row(cell, seconds, status="converged"):
    return TrainedCell(
        cell=cell.key,
        description="{}",
        task="t",
        family=cell.configuration.family,
        width=cell.configuration.width,
        seed=0,
        status=status,
        device="cpu",
        seconds=seconds,
        train_error=0.0,
        test_error=0.1,
        weights_sha256="0",
    )


def value(cell, seconds):
    return StoredMeasurement(
        measurement="m",
        cell=cell.key,
        proxy="p",
        label="p",
        description="{}",
        value=1.0,
        standard_error=None,
        seconds=seconds,
        status="ok",
        reason="",
        details="{}",
        device="cpu",
    )


def heard(left, event):
    at, worker, kind, cell, seconds = event
    left.heard(1000 + worker, at)
    if kind == "trained":
        left.trained(row(cell, seconds))
    else:
        left.measured(value(cell, seconds))


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("seed", range(6))
def test_after_a_tenth_of_the_time_it_is_right_within_a_factor_of_1_5(seed, workers):
    cells, events = simulated(seed, workers)
    left = TimeLeft(cells, {cell.key: PROXIES for cell in cells}, workers, 0.0)
    end = events[-1][0]
    for event in events:
        heard(left, event)
        at = event[0]
        if 0.1 * end <= at <= 0.9 * end:
            assert (end - at) / 1.5 <= left.seconds(at) <= 1.5 * (end - at), at / end
    assert left.seconds(end) == 0.0


def test_it_counts_down_while_nothing_is_heard():
    cells, events = simulated(0, 2)
    left = TimeLeft(cells, {cell.key: PROXIES for cell in cells}, 2, 0.0)
    for event in events[: len(events) // 2]:
        heard(left, event)
    now = events[len(events) // 2 - 1][0]
    assert left.seconds(now + 0.5) == pytest.approx(left.seconds(now) - 0.5, rel=0.02)


def test_nothing_is_known_before_the_first_network_is_measured():
    cells, events = simulated(0, 1)
    left = TimeLeft(cells, {cell.key: PROXIES for cell in cells}, 1, 0.0)
    assert left.seconds(1.0) is None
    heard(left, events[0])
    assert left.seconds(events[0][0]) is None
    for event in events[1 : PROXIES + 1]:
        heard(left, event)
    assert left.seconds(events[PROXIES][0]) > 0


def test_what_was_done_before_teaches_costs_and_is_not_to_be_done_again():
    cells, events = simulated(1, 1)
    half = len(cells) // 2
    before = [event for event in events if event[3] in cells[:half]]
    left = TimeLeft(cells, {cell.key: PROXIES for cell in cells}, 1, 0.0)
    left.known(
        [row(e[3], e[4]) for e in before if e[2] == "trained"],
        [(e[3].key, e[4], 1) for e in before if e[2] == "measured"],
    )
    truth = events[-1][0] - before[-1][0]
    assert truth / 1.7 <= left.seconds(0.0) <= 1.7 * truth  # that sharing makes it faster is not known yet


def test_networks_that_cannot_be_measured_are_not_waited_for():
    cells, _ = simulated(0, 1)
    two = cells[:2]
    left = TimeLeft(two, {cell.key: PROXIES for cell in two}, 1, 0.0)
    left.trained(row(two[0], 1.0, "failed"))
    left.trained(row(two[1], 1.0))
    for _ in range(PROXIES):
        left.measured(value(two[1], 0.1))
    assert left.seconds(2.0) == 0.0


@pytest.mark.parametrize("seed", range(4))
def test_after_a_resume_the_start_of_workers_does_not_pass_for_slowness(seed):
    """Half is done; the workers take 30 s to start, and the first results come soon after."""
    cells, events = simulated(seed, 2)
    half = set(cells[: len(cells) // 2])
    before = [event for event in events if event[3] in half]
    after = [event for event in events if event[3] not in half]
    left = TimeLeft(cells, {cell.key: PROXIES for cell in cells}, 2, 0.0)
    left.known(
        [row(e[3], e[4]) for e in before if e[2] == "trained"],
        [(e[3].key, e[4], 1) for e in before if e[2] == "measured"],
    )
    shift = 30.0 - after[0][0]
    end = after[-1][0] + shift
    for event in after:
        at = event[0] + shift
        heard(left, (at, *event[1:]))
        if at <= 0.8 * end:
            assert (end - at) / 2 <= left.seconds(at) <= 2 * (end - at), at
