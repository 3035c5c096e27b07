import itertools
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gapbench.suites.sampling import balanced_sample
from gapbench.suites.suite import parse_suite
from gapbench_base.errors import GapbenchError


def neighbours(a, b):
    return sum(x != y for x, y in zip(a, b)) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(2, 60), st.integers(0, 3))
def test_samples_are_points_of_the_product_with_neighbours_evenly_chosen(levels, count, name):
    assume(max(levels) <= count <= math.prod(levels))
    chosen = balanced_sample(levels, count, name)
    assert len(set(chosen)) == len(chosen) == count
    assert all(0 <= level < n for point in chosen for level, n in zip(point, levels))
    assert chosen == balanced_sample(levels, count, name)
    for point in chosen:
        assert any(neighbours(point, other) for other in chosen)
    if count <= math.prod(levels) / 2:
        for axis, n in enumerate(levels):
            counts = [sum(point[axis] == level for point in chosen) for level in range(n)]
            assert max(counts) - min(counts) <= 3, (axis, counts)


def test_axes_take_turns_and_two_of_them_are_crossed_evenly():
    levels = (5, 4, 3, 2, 2)
    chosen = balanced_sample(levels, 96)
    pairs = [(a, b) for a, b in itertools.combinations(chosen, 2) if neighbours(a, b)]
    for axis in range(5):
        assert sum(a[axis] != b[axis] for a, b in pairs) >= 96 // 2 // 5
    for a, b in itertools.combinations(range(5), 2):
        expected = 96 / (levels[a] * levels[b])
        for x, y in itertools.product(range(levels[a]), range(levels[b])):
            assert abs(sum(p[a] == x and p[b] == y for p in chosen) - expected) <= 0.6 * expected + 1
    # Every beginning is balanced, so that a core of more seeds is.
    for axis, n in enumerate(levels):
        counts = [sum(p[axis] == level for p in chosen[:20]) for level in range(n)]
        assert max(counts) - min(counts) <= 2


SUITE = """
name = "sampled"
version = 1
[training]
max_epochs = 3
[[grid]]
task = "digits_rotations"
task_options = {{ train_size = 100 }}
{keys}
[grid.axes]
family = ["plain/mlp"]
width = [0.25, 0.5, 1, 2]
learning_rate = [0.02, 0.05]
batch_size = [20, 50, 100]
seed = {seed}
"""


def suite(keys, seed="[0]"):
    return parse_suite(SUITE.format(keys=keys, seed=seed), "here")


def test_a_sampled_grid_is_part_of_its_product_and_its_core_has_more_seeds():
    whole = {(c.width, c.training, c.seed) for c in suite("", "[0, 1, 2, 3, 4]").configurations}
    sampled = suite("sample = 12\ncore = 0.25\nseeds = 5").configurations
    assert {(c.width, c.training, c.seed) for c in sampled} < whole
    seeds = {}
    for c in sampled:
        seeds.setdefault((c.width, c.training), []).append(c.seed)
    assert len(seeds) == 12
    assert sorted(len(s) for s in seeds.values()) == [1] * 9 + [5] * 3
    assert {tuple(s) for s in seeds.values()} == {(0,), (0, 1, 2, 3, 4)}
    again = suite("sample = 12", "[7, 0]").configurations
    assert {(c.width, c.training) for c in again} == set(seeds)
    assert {c.seed for c in again} == {0, 7}
    more = suite("sample = 12\ncore = 0.1\nseeds = 4", "[7, 0]").configurations
    assert {c.seed for c in more} == {0, 7, 8, 9}
    assert len(more) == 2 * 12 + 2 * 2  # a core of two at least
    assert set(suite("sample = 24").configurations) == set(suite("").configurations)


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ("sample = 25", "at most all combinations (24)"),
        ("sample = 3", "longest axis (4)"),
        ("sample = 1", "sample"),
        ("sample = 1.5", "sample"),
        ("core = 0.5\nseeds = 2", "need sample"),
        ("seeds = 2", "need sample"),
        ("sample = 8\ncore = 0.5", "together"),
        ("sample = 8\nseeds = 3", "together"),
        ("sample = 8\ncore = 1.5\nseeds = 3", "core"),
        ("sample = 8\ncore = 0.5\nseeds = 1", "seeds"),
    ],
)
def test_what_cannot_be_sampled_is_said(keys, word):
    with pytest.raises(GapbenchError, match="grid") as error:
        suite(keys)
    assert word in str(error.value)
