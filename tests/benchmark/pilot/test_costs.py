"""Costs of a whole suite from some of its networks."""

import math

import pytest

from gapbench.pilot.costs import NetworkCost, PilotSession, costs_of, family_costs, overhead
from gapbench.population.choosing import choose
from gapbench.population.costs import by_width
from gapbench.population.plan import TaskFacts, plan
from gapbench.runs.records import StoredMeasurement, TrainedCell
from gapbench.suites.suite import load_suite


def test_power_laws_are_followed_between_and_beyond():
    known = [(w, 3 * w**2) for w in (0.25, 0.5, 2.0)]
    wanted = [0.125, 0.25, 1.0, 4.0]
    assert by_width(known, wanted) == pytest.approx([3 * w**2 for w in wanted])


def test_equal_widths_have_their_mean_and_one_width_stands_for_all():
    assert by_width([(1.0, 2.0), (1.0, 4.0)], [0.5, 1.0, 7.0]) == pytest.approx([3.0] * 3)
    assert by_width([(1.0, 0.0), (2.0, 4.0)], [1.0, 2.0]) == pytest.approx([2.0, 2.0])
    assert math.isnan(by_width([], [1.0])[0])


def test_many_widths_are_taken_in_quarters():
    known = [(0.1 * k, 5 * 0.1 * k) for k in range(1, 41)]
    found = by_width(known, [0.6, 1.55, 3.5])
    assert found == pytest.approx([3.0, 7.75, 17.5], rel=0.2)


def facts(configuration):
    return TaskFacts(1, "fingerprint", "official", False)


def test_the_whole_of_a_known_law_is_predicted_from_the_pilot():
    suite = load_suite("quick")
    whole = plan(suite, facts)

    def cost(cell):
        own = cell.configuration
        scale = len(own.family) * own.width**0.7
        return NetworkCost((own.task, own.family, own.width), scale, 2 * scale, 1000 * own.width**2)

    rows = family_costs(map(cost, choose(whole, 48, suite.axes, facts)), whole, workers=2)
    assert {(row.task, row.family) for row in rows} == {
        (c.configuration.task, c.configuration.family) for c in whole
    }
    for row in rows:
        own = [
            cost(c) for c in whole if (c.configuration.task, c.configuration.family) == (row.task, row.family)
        ]
        assert row.networks == len(own)
        assert row.bytes == pytest.approx(sum(c.bytes for c in own))
        seconds = sum(c.train_seconds + c.measure_seconds for c in own)
        assert row.hours * 3600 == pytest.approx(seconds / 2)
        assert row.train_seconds * len(own) == pytest.approx(seconds / 3)


def cell(name, seconds, finished):
    return TrainedCell(
        cell=name, description="{}", task="t", family="f", width=1.0, seed=0, status="converged", seconds=seconds,
        weights_bytes=10, finished=finished,
    )  # fmt: skip


def measurement(name, of, seconds, finished):
    return StoredMeasurement(
        measurement=name, cell=of, proxy="p", label="p", description="{}", status="ok", seconds=seconds,
        finished=finished,
    )  # fmt: skip


def test_shared_work_counts_once_and_interruptions_not_at_all():
    cells = [cell("a", 2.0, 10.0), cell("b", 3.0, 50.0), cell("c", 1.0, 60.0)]
    measured = [
        measurement("a1", "a", 3.0, 13.0),
        measurement("a2", "a", 3.0, 14.0),  # 6 s charged in 4: two of them shared
        measurement("b1", "b", 1.0, 51.0),
        measurement("b2", "b", 1.0, 900.0),  # after an interruption
    ]
    found = costs_of(cells, measured, {"a1": 10.0, "a2": 13.0, "b1": 50.0, "b2": 899.0})
    assert [found[name].measure_seconds for name in "abc"] == [4.0, 2.0, 0.0]
    assert [found[name].train_seconds for name in "abc"] == [2.0, 3.0, 1.0]


def test_the_overhead_is_what_sessions_that_did_something_took_beside_the_work():
    costs = {name: NetworkCost(("t", "f", 1.0), 3.0, 1.0, 0.0) for name in "abc"}
    finished = {"a": 4.0, "b": 9.0, "c": 105.0}
    sessions = [PilotSession(0.0, 10.0), PilotSession(100.0, 106.0), PilotSession(200.0, 900.0)]
    assert overhead(costs, finished, sessions, 2) == pytest.approx((10 - 8 / 2 + 6 - 4 / 2) / 2)
    assert overhead(costs, finished, sessions[2:], 2) == 0.0
