"""The networks of a pilot: balanced, the suite's own, some with two seeds."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from gapbench.population.choosing import choose, in_order
from gapbench.population.plan import TaskFacts, plan
from gapbench.suites.suite import configuration_values, list_suites, load_suite, parse_suite
from gapbench_base.keys import content_key

SAMPLED = """
name = "sampled"
version = 1
[measure]
proxies = ["param_norm"]
[[grid]]
task = "separable"
sample = 60
core = 0.2
seeds = 2
[grid.axes]
family = ["plain/mlp", "plain/deep_linear"]
width = [0.25, 0.5, 1, 2]
learning_rate = [0.01, 0.02, 0.04, 0.08]
weight_decay = [0.0, 0.001, 0.01]
seed = [0]
"""

RANGES = SAMPLED.replace('"sampled"', '"ranges"').replace(
    "[0.01, 0.02, 0.04, 0.08]", "{ range = [0.001, 1.0] }"
)


def facts(configuration):
    return TaskFacts(1, "fingerprint", "official", False)


def suites():
    return [
        *(load_suite(name) for name in list_suites()),
        *(parse_suite(text, "here") for text in (SAMPLED, RANGES)),
    ]


def point(cell):
    return replace(cell.configuration, seed=0)


@pytest.fixture(scope="module", params=suites(), ids=lambda suite: suite.name)
def suite(request):
    return request.param


def test_cells_are_those_of_the_suite_but_for_added_seeds(suite):
    whole = plan(suite, facts)
    keys = {cell.key for cell in whole}
    chosen = choose(whole, 48, suite.axes, facts)
    assert len({cell.key for cell in chosen}) == len(chosen) == 48
    points = {point(cell) for cell in whole}
    for cell in chosen:
        assert point(cell) in points
        assert cell.key == content_key(cell.description)
        if cell.key not in keys:
            assert cell.description == {
                **next(c for c in whole if point(c) == point(cell)).description,
                "seed": cell.configuration.seed,
            }
            assert json.dumps(cell.description)


def test_seeds_that_the_suite_has_are_not_replaced_by_others():
    suite = load_suite("width_study")
    whole = plan(suite, facts)
    chosen = choose(whole, 48, suite.axes, facts)
    assert {cell.key for cell in chosen} <= {cell.key for cell in whole}


def test_seeds_of_the_core_are_taken_before_others_are_added():
    whole = plan(parse_suite(SAMPLED, "here"), facts)
    keys = {cell.key for cell in whole}
    chosen = choose(whole, 60, ("width", "learning_rate", "weight_decay"), facts)
    added = [place for place, cell in enumerate(chosen) if cell.key not in keys]
    assert added
    for place in added:
        before = {cell.key for cell in chosen[:place]}
        mine = [
            cell for cell in chosen[:place] if cell.configuration.family == chosen[place].configuration.family
        ]
        for cell in mine:
            same = {other.key for other in whole if point(other) == point(cell)}
            assert len(same & before) == len(same)


def test_a_quarter_is_a_second_seed_of_every_family(suite):
    chosen = choose(plan(suite, facts), 48, suite.axes, facts)
    seeds = Counter(point(cell) for cell in chosen)
    assert set(seeds.values()) == {1, 2}
    assert sum(number == 2 for number in seeds.values()) == 12
    twice = {(own.task, own.family) for own, number in seeds.items() if number == 2}
    groups = {(cell.configuration.task, cell.configuration.family) for cell in chosen}
    tasks = Counter(task for task, _ in groups)
    # Tasks take turns, so a task has its share of the twelve: enough for all of its families or not.
    assert len(twice) == sum(min(families, 12 // len(tasks)) for families in tasks.values())


def test_tasks_families_and_levels_are_balanced(suite):
    whole = plan(suite, facts)
    chosen = choose(whole, 48, suite.axes, facts)
    firsts = list(dict.fromkeys(point(cell) for cell in chosen))
    tasks = Counter(own.task for own in firsts)
    most = Counter(own.task for own in {point(cell) for cell in whole})
    left = [number for task, number in tasks.items() if number < most[task]]
    assert max(tasks.values()) - min(left, default=max(tasks.values())) <= 1
    groups = Counter((own.task, own.family) for own in firsts)
    for task in tasks:
        left = Counter((own.task, own.family) for own in {point(cell) for cell in whole})
        counts = [n for key, n in groups.items() if key[0] == task and n < left[key]]
        assert not counts or max(counts) - min(counts) <= 1
    for group in groups:
        mine = [own for own in firsts if (own.task, own.family) == group]
        every = {point(cell) for cell in whole if (point(cell).task, point(cell).family) == group}
        for axis in suite.axes:
            levels = {configuration_values(own).get(axis) for own in every}
            counts = Counter(configuration_values(own).get(axis) for own in mine)
            if len(levels) > 8:
                order = {level: place for place, level in enumerate(sorted(levels))}
                quarters = Counter(
                    order[configuration_values(own).get(axis)] * 4 // len(order) for own in mine
                )
                numbers = [quarters[quarter] for quarter in range(4)]
            else:
                numbers = [counts[level] for level in levels]
            # Levels that hang together (a rate for each optimizer) cannot all be even.
            assert max(numbers) - min(numbers) <= 3, (group, axis, counts)


def test_more_networks_begin_with_fewer(suite):
    whole = plan(suite, facts)
    many = [cell.key for cell in choose(whole, 60, suite.axes, facts)]
    assert [cell.key for cell in choose(whole, 24, suite.axes, facts)] == many[:24]


def test_more_than_the_suite_has_are_all_of_it_and_a_second_seed_of_each(suite):
    whole = plan(suite, facts)
    chosen = choose(whole, 10_000, suite.axes, facts)
    assert {cell.key for cell in chosen} >= {cell.key for cell in whole}
    seeds = Counter(point(cell) for cell in whole)
    assert Counter(point(cell) for cell in chosen) == {own: max(2, number) for own, number in seeds.items()}


def test_every_cell_of_the_suite_comes_once_and_none_is_added(suite):
    whole = plan(suite, facts)[:300]
    ordered = [cell.key for cell in in_order(whole, suite.axes)]
    assert len(ordered) == len(whole)
    assert set(ordered) == {cell.key for cell in whole}


def test_every_fourth_is_a_second_seed_where_there_are_some():
    whole = plan(load_suite("width_study"), facts)
    ordered = list(in_order(whole, ("width",)))[:12]
    again = [point(cell) in {point(other) for other in ordered[:place]} for place, cell in enumerate(ordered)]
    assert again == [False, False, False, True] * 3
