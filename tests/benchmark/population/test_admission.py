"""A budget of time: what fits in is trained, balanced; in a simulated run, and in a real one by another clock."""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from dataclasses import replace
from types import SimpleNamespace

import pytest

import gapbench
from benchmark.population.test_time_left import Cell, Configuration, row, value
from benchmark.run_cases import rows, same
from benchmark.tiny_suite import TINY
from gapbench import GapbenchError, running
from gapbench.population import driver, worker
from gapbench.population.admission import LATEST, Admission, Budget, left_out
from gapbench.population.choosing import in_order
from gapbench.population.time_left import TimeLeft
from gapbench.population.work import Guess, WorkPlan
from gapbench.proxies import measuring
from gapbench.runs.scoring_time import ScoringTime
from gapbench.runs.status import status_of
from gapbench.suites.suite import load_suite

PROXIES = 5
FAMILIES = {"cheap": (0.2, 0.5), "conv": (2.0, 1.5), "wide": (8.0, 1.0), "odd": (3.0, 0.0)}
WIDTHS = (0.5, 1.0, 2.0)
START = 3.0
"""Seconds until a worker is at work."""


def population(networks: int, seed: int) -> list[Cell]:
    """Networks in an order in which families take turns, and widths at random."""
    draw = random.Random(seed)
    queues = {
        family: [width for _ in range(networks) for width in draw.sample(WIDTHS, len(WIDTHS))]
        for family in FAMILIES
    }
    order = [(family, queues[family][place]) for place in range(networks) for family in FAMILIES]
    return [
        Cell(f"c{place}", Configuration("t", family, width)) for place, (family, width) in enumerate(order)
    ]


def scoring(networks: int) -> float:
    return 2.0 + 0.6 * networks**0.4


class Play:
    """A run with a budget by workers of a simulated clock, whose proxies share work that each is charged for."""

    def __init__(self, cells, seconds, workers, seed, slowness=1.0, work=lambda cell: None):
        self.draw, self.workers, self.slowness = random.Random(seed), workers, slowness
        self.left = TimeLeft(cells, {cell.key: PROXIES for cell in cells}, workers, 0.0, (), work)
        self.admission = Admission(Budget(seconds, 0.0), cells, self.left, scoring, 0)
        self.cells = {cell.key: cell for cell in cells}
        self.queue: deque[str] = deque()
        self.events: list[tuple[float, int, str, str, float]] = []
        self.idle = list(range(workers))
        self.done: list[Cell] = []
        self.stopped = False
        now = 0.0
        self.admit(now)
        while self.events:
            now, place, kind, key, stated = heapq.heappop(self.events)
            self.heard(now, place, kind, key, stated)
            self.admit(now)
            if self.stopped:
                break
        self.end = now + scoring(len(self.done))

    def admit(self, now: float) -> None:
        if self.admission.over(now):
            self.stopped = True
            return
        if len(self.queue) < self.workers:
            self.queue.extend(self.admission.more(now, self.workers))
        while self.queue and self.idle:
            self.work(self.idle.pop(), self.queue.popleft(), max(now, START))

    def work(self, place: int, key: str, now: float) -> None:
        cell = self.cells[key]
        base, power = FAMILIES[cell.configuration.family]
        cost = base * cell.configuration.width**power
        now += self.slowness * cost * self.draw.uniform(0.7, 1.3)
        heapq.heappush(self.events, (now, place, "trained", key, cost))
        for number in range(PROXIES):
            stated = cost / PROXIES * self.draw.uniform(0.7, 1.3)
            now += self.slowness * 0.6 * stated
            kind = "last" if number == PROXIES - 1 else "measured"
            heapq.heappush(self.events, (now, place, kind, key, stated))

    def heard(self, now: float, place: int, kind: str, key: str, stated: float) -> None:
        self.left.heard(1000 + place, now)
        if kind == "trained":
            self.left.trained(row(self.cells[key], stated))
            return
        self.left.measured(value(self.cells[key], stated))
        if kind == "last":
            self.idle.append(place)
            self.done.append(self.cells[key])


@pytest.mark.parametrize("slowness", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("workers", [1, 2, 6])
@pytest.mark.parametrize("seed", range(3))
def test_the_budget_is_kept_within_a_tenth_and_used(seed, workers, slowness):
    seconds = 1200.0
    play = Play(population(1000, seed), seconds, workers, seed, slowness)
    assert 0.9 * seconds <= play.end <= 1.1 * seconds
    assert play.admission.count - len(play.done) <= (workers if play.stopped else 0)
    families = Counter(cell.configuration.family for cell in play.done)
    assert set(families) == set(FAMILIES)
    assert max(families.values()) - min(families.values()) <= 2


def test_all_is_trained_where_all_fits():
    play = Play(population(6, 0), 1e5, 2, 0)
    assert len(play.done) == 24
    assert play.admission.count == 24
    assert play.end < 1e4


def test_nothing_is_begun_that_cannot_end_in_time_once_that_is_known():
    """A kind of network that takes longer than the budget is tried once and given up when the time is over."""
    cells = population(50, 1)
    slow = [
        replace(cell, configuration=replace(cell.configuration, width=1e4)) if "wide" in str(cell) else cell
        for cell in cells
    ]
    play = Play(slow, 300.0, 2, 1)
    families = Counter(cell.configuration.family for cell in play.done)
    assert play.stopped
    assert families["wide"] == 0
    assert min(families[name] for name in ("cheap", "conv", "odd")) >= 3
    begun = Counter(play.cells[key].configuration.family for key in play.admission._begun)
    assert begun["wide"] == 1


def dear_first(networks: int) -> list[Cell]:
    """Networks of which the first takes a third of a short budget, and others of other families little."""
    families = ("dear", "cheap", "conv", "odd", "new")
    return [
        Cell(f"c{place}", Configuration("t", families[place % len(families)], 1.0))
        for place in range(networks)
    ]


def guessed(error: float, seed: int):
    """Guesses in seconds of another machine, each wrong by up to a factor, one for each family."""
    draw = random.Random(seed)
    wrong = {family: error ** draw.uniform(-1, 1) for family in FAMILIES}

    def work(cell):
        cost = FAMILIES[cell.configuration.family][0] * wrong[cell.configuration.family] / 50
        return Guess(cost, cost / PROXIES)

    return work


@pytest.mark.parametrize(
    ("error", "slowness"),
    [(1.0, 0.5), (1.0, 1.0), (1.0, 1.5), (1.0, 3.0), (3.0, 0.5), (3.0, 1.0), (3.0, 1.5)],
)
@pytest.mark.parametrize("seed", range(4))
def test_a_dear_first_network_does_not_leave_most_of_a_short_budget_unused(
    monkeypatch, seed, slowness, error
):
    """By the forecast of the only network that is known no second one would fit."""
    monkeypatch.setitem(FAMILIES, "dear", (50.0, 1.0))
    monkeypatch.setitem(FAMILIES, "new", (20.0, 1.0))
    play = Play(dear_first(100), 180.0, 1, seed, slowness, guessed(error, seed))
    assert 0.9 * 180.0 <= play.end <= 1.1 * 180.0
    assert {cell.configuration.family for cell in play.done} >= {"cheap", "conv", "odd"}


def test_the_cheapest_are_begun_as_long_as_nothing_is_known(monkeypatch):
    monkeypatch.setitem(FAMILIES, "dear", (50.0, 1.0))
    monkeypatch.setitem(FAMILIES, "new", (20.0, 1.0))
    cells = dear_first(20)
    left = TimeLeft(cells, {cell.key: PROXIES for cell in cells}, 2, 0.0, (), guessed(1.0, 0))
    admission = Admission(Budget(180.0, 0.0), cells, left, scoring, 0)
    assert admission.more(0.0, 2) == ["c1", "c2"]  # of the cheap family and of the next


def test_what_is_late_is_given_up_at_a_twentieth_over():
    cells = population(4, 0)
    left = TimeLeft(cells, {cell.key: PROXIES for cell in cells}, 1, 0.0, ())
    admission = Admission(Budget(100.0, 50.0), cells, left, lambda networks: 10.0, 0)
    assert not admission.over(50.0 + LATEST * 100.0 - 10.5)
    assert admission.over(50.0 + LATEST * 100.0 - 9.5)
    assert admission.more(50.0, 1) == ["c0"]
    assert admission.more(51.0, 1) == []  # as long as nothing is known, one for each worker
    assert admission.seconds(60.0) == 90.0  # others wait, so all of it will be used


def test_company_that_is_begun_is_not_begun_again():
    cells = population(4, 0)
    left = TimeLeft(cells, {cell.key: PROXIES for cell in cells}, 2, 0.0, ())
    admission = Admission(Budget(1000.0, 0.0), cells, left, scoring, 3)
    admission.begin(["c1", "c2"], 0.0)
    assert admission.count == 5
    left.trained(row(cells[1], 1.0))
    left.trained(row(cells[2], 1.0, "failed"))
    for _ in range(PROXIES):
        left.measured(value(cells[1], 0.1))
    chosen = admission.more(2.0, 2)
    assert chosen[:2] == ["c0", "c3"]
    assert not {"c1", "c2"} & set(chosen)


def test_what_was_left_out_is_told_by_task_and_family():
    cells = population(3, 0)
    told = left_out(Budget(1800.0, 0.0), cells, {"c0", "c1", "c2", "c3", "c4"}, 2)
    assert told == (
        "Budget of 30 min: 5 of 12 networks are trained. Left out: 7 networks (2 of t, conv; 2 of t, wide; 2 of t, "
        "odd; 1 of t, cheap) and measurements on 2 networks. The same command without the budget does the rest."
    )
    every = {cell.key for cell in cells}
    assert left_out(Budget(90.0, 0.0), cells, every, 0) == (
        "Budget of 90 s: 12 of 12 networks are trained, nothing is left out."
    )


class Clock:
    """Stands in for `time`: networks take 10 s to train, and 1 s for each measurement."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    train, measure = worker.train_cell, measuring.measure_in

    def trained(*arguments):
        found.now += 10.0
        return replace(train(*arguments), seconds=10.0)

    def measured(*arguments):
        found.now += 1.0
        return replace(measure(*arguments), seconds=1.0)

    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=found.monotonic))
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=found.monotonic))
    monkeypatch.setattr(worker, "train_cell", trained)
    monkeypatch.setattr(measuring, "measure_in", measured)
    return found


class Listener:
    def __init__(self):
        self.messages: list[str] = []

    def begin(self, *_):
        pass

    trained = measured = about = left = begin

    def message(self, text):
        self.messages.append(text)


@pytest.fixture
def suite_file(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return path


def run(suite_file, folder, **options):
    return gapbench.run(suite_file, folder, device="cpu", workers=0, board=False, stacks="off", **options)


def test_a_run_with_a_budget_trains_what_fits_and_a_later_one_the_rest(suite_file, tmp_path, clock):
    """Of 12 networks of 15 s each."""
    began = clock.now
    part = run(suite_file, tmp_path / "run", budget=100)
    assert clock.now - began == 90.0
    suite = load_suite(str(suite_file))
    order = [cell.key for cell in in_order(running.planned(suite, None, "here"), suite.axes)]
    assert set(part.population["cell"]) == set(order[:6])
    assert len(part.measurements) == 30
    status = status_of(tmp_path / "run")
    assert (status.planned, status.wanted) == (6, 30)
    before = {table: rows(tmp_path / "run", table) for table in ("cells", "measurements")}
    more = run(suite_file, tmp_path / "run", budget="50s")
    assert set(more.population["cell"]) == set(order[:9])
    rest = run(suite_file, tmp_path / "run")
    assert len(rest.population) == 12
    for table, own in before.items():
        assert set(own) <= set(rows(tmp_path / "run", table))
    same(run(suite_file, tmp_path / "whole"), rest)


def test_measurements_of_trained_networks_are_part_of_the_budget(suite_file, tmp_path, clock):
    run(suite_file, tmp_path / "run", proxies=["random"])
    began = clock.now
    part = run(suite_file, tmp_path / "run", budget=21)
    assert clock.now - began == 20.0
    assert len(part.measurements) == 12 + 5 * 4


def test_it_is_told_what_is_left_out(suite_file, tmp_path, clock, monkeypatch):
    monkeypatch.setattr(ScoringTime, "predicted", lambda self, networks=None: 20.0)
    listener = Listener()
    part = run(suite_file, tmp_path / "run", budget="2m", progress=listener)
    assert len(part.population) == 6  # 90 s, and 20 s for scoring
    assert listener.messages[-1] == (
        "Budget of 120 s: 6 of 12 networks are trained. Left out: 6 networks (6 of separable, plain/mlp). "
        "The same command without the budget does the rest."
    )


def test_guesses_of_a_suite_grow_with_widths_and_steps(suite_file, tmp_path):
    suite = load_suite(str(suite_file))
    work = WorkPlan(running.setup_of(suite, tmp_path, "cpu", None, 1, "off"))
    cell = running.planned(suite, None, "here")[0]
    own = cell.configuration
    first = work(cell)
    wide = work(replace(cell, configuration=replace(own, width=8 * own.width)))
    assert wide.train > first.train > 0
    assert wide.measure > first.measure > 0
    longer = replace(own.training, max_epochs=2 * own.training.max_epochs)
    assert work(replace(cell, configuration=replace(own, training=longer))).train == 2 * first.train
    assert work(replace(cell, configuration=replace(own, family="no/such"))) is None


@pytest.mark.parametrize("budget", ["soon", "30", 0, -3.0, float("nan"), "0m"])
def test_what_is_no_budget_is_refused(suite_file, tmp_path, budget):
    with pytest.raises(GapbenchError, match=r"is no time: give 30m|must be more than nothing, such as 30m"):
        run(suite_file, tmp_path / "run", budget=budget)
    assert not (tmp_path / "run").exists()
