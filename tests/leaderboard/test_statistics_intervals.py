"""Standard errors and intervals: the jackknife, its linear part, dyads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from gapbench_leaderboard.statistics import LinearPart, Sampling, draw_configurations, interval
from gapbench_leaderboard.statistics.ceiling import reliability
from gapbench_leaderboard.statistics.dyads import PAIR_PART, Dyads
from gapbench_leaderboard.statistics.intervals import two_sided_p
from gapbench_leaderboard.statistics.pair_lists import PairList, count_dyads, count_listed
from gapbench_leaderboard.statistics.pairs import lay_out
from gapbench_leaderboard.statistics.partial import tau_b_error
from gapbench_leaderboard.statistics.resampling import deletion_numbers, deletions


def test_the_linear_part_of_a_mean_is_all_of_it_and_gives_its_textbook_error() -> None:
    random = np.random.default_rng(12)
    values = random.standard_normal(40)
    draws = draw_configurations(40, 4000, random)
    linear = LinearPart.of([draws])
    means = draws @ values / 40
    assert linear.share(means[1:]) == pytest.approx(1.0, abs=1e-9)
    assert linear.standard_error(means) == pytest.approx(values.std() / np.sqrt(40), rel=0.04)
    product = (draws[:, 0] - 1.0) * (draws[:, 1] - 1.0)  # no linear part at all
    assert linear.share(product[1:].astype(float)) < 0.3


def test_the_jackknife_of_a_mean_is_its_textbook_error_and_the_interval_students() -> None:
    random = np.random.default_rng(13)
    values = 0.2 * random.standard_normal(25)
    numbers = np.arange(25)
    every = np.concatenate([draw_configurations(25, 20_000, random), deletions(numbers, 25)])
    means = (every @ values) / every.sum(axis=1)
    sampling = Sampling.of(20_000, [numbers])
    error = values.std(ddof=1) / 5
    assert sampling.standard_error(means) == pytest.approx(error, rel=1e-12)
    low, high = interval(means, sampling, bounded=False)
    assert (low + high) / 2 == pytest.approx(values.mean(), abs=0.1 * error)
    assert high - low == pytest.approx(2 * stats.t.ppf(0.975, 24) * error, rel=0.03)
    expected = 2 * stats.t.sf(abs(values.mean()) / error, 24)
    assert two_sided_p(means, sampling) == pytest.approx(expected, rel=1e-9)
    assert two_sided_p(np.zeros(len(means)), sampling) == 1.0


def test_deletions_of_another_task_change_nothing_and_independent_tasks_add_their_variances() -> None:
    random = np.random.default_rng(14)
    first, second = random.standard_normal(12), random.standard_normal(7)
    numbers = [np.arange(12), 12 + np.arange(7)]
    means = []
    for values, own in zip((first, second), numbers):
        every = np.concatenate([np.ones((1, len(values))), deletions(own, 19)])
        means.append((every @ values) / every.sum(axis=1))
    errors = [values.std(ddof=1) / np.sqrt(len(values)) for values in (first, second)]
    for own, values, error in zip(numbers, means, errors):
        assert Sampling.of(0, [own]).standard_error(values) == pytest.approx(error, rel=1e-12)
    both = Sampling.of(0, numbers)
    assert both.freedom == 17
    joint = both.standard_error((means[0] + means[1]) / 2)
    assert joint == pytest.approx(np.hypot(*errors) / 2, rel=1e-12)


def test_many_configurations_are_deleted_in_groups_of_equal_size() -> None:
    numbers = deletion_numbers(1000, np.random.default_rng(0))
    assert set(np.bincount(numbers)) == {3, 4}
    assert len(np.unique(numbers)) == 300
    assert (deletion_numbers(5, np.random.default_rng(0)) == np.arange(5)).all()
    assert (deletions(np.array([1, 0, 1]), 3) == [[1, 0, 1], [0, 1, 0], [1, 1, 1]]).all()


def test_intervals_of_a_coefficient_stay_within_its_range_and_none_is_a_point() -> None:
    random = np.random.default_rng(15)
    numbers = np.arange(10)
    sampling = Sampling.of(500, [numbers])
    wild = np.concatenate([[0.97], np.clip(0.97 + 0.05 * random.standard_normal(500), -1, 1)])
    values = np.concatenate([wild, 0.97 - 0.03 * np.arange(10) / 10])
    low, high = interval(values, sampling)
    assert -1 <= low < 0.97 < high <= 1
    assert interval(np.ones(511), sampling) == pytest.approx(
        (2 * 0.025 ** (1 / 5) - 1, 1.0)
    )  # 5 disjoint pairs
    assert np.isnan(interval(np.ones(20))).all()  # replicates alone, all alike, tell nothing
    lost = np.concatenate([wild, np.full(10, np.nan)])  # nothing is left after a deletion
    assert np.isnan(interval(lost, sampling)).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_error_over_dyads_by_its_definition(seed: int) -> None:
    """Sum over all pairs of pairs that share a configuration, by brute force."""
    random = np.random.default_rng(seed)
    count, size = 7, 30
    first, second = random.integers(count, size=(2, size))
    influence = random.standard_normal(size)
    influence -= influence.mean()
    variance, own = 0.0, 0.0
    for p, q in itertools.product(range(size), repeat=2):
        one, other = {first[p], second[p]}, {first[q], second[q]}
        shared = len(one & other)
        variance += influence[p] * influence[q] * (shared > 0)
        own += influence[p] * influence[q] * (one == other and len(one) == 2)
    expected = (variance + (1 - PAIR_PART) * own) * count / (count - 1)
    found = Dyads.of(first, second, count).standard_error(influence)
    assert found == pytest.approx(np.sqrt(max(0.0, expected)), rel=1e-9)


def test_the_influences_of_partial_tau_are_derivatives_by_the_weights() -> None:
    random = np.random.default_rng(3)
    x, y = random.integers(4, size=(2, 12)).astype(float)
    first, second = np.triu_indices(12, 1)
    pairs = PairList(first.astype(np.int32), second.astype(np.int32))
    dyads = Dyads.of(first, second, 12)

    def tau(weight: np.ndarray) -> float:
        dx, dy = np.sign(x[first] - x[second]), np.sign(y[first] - y[second])
        return (weight @ (dx * dy)) / np.sqrt((weight @ abs(dx)) * (weight @ abs(dy)))

    ones = np.ones(len(first))
    step = 1e-6 * np.eye(len(first))
    derivative = np.array([(tau(ones + row) - tau(ones - row)) / 2e-6 for row in step])
    assert tau_b_error(x, y, pairs, dyads) == pytest.approx(dyads.standard_error(derivative), rel=1e-6)


def test_reliability_is_one_less_the_share_of_the_noise() -> None:
    random = np.random.default_rng(4)
    target, noise = random.standard_normal(20), 0.3 * random.standard_normal((50, 20))
    weight = np.ones((2, 20))
    weight[1, 3] = 0
    expected = []
    for row in weight:
        kept = row > 0
        expected.append(1 - noise[:, kept].var(axis=1, ddof=1).mean() / target[kept].var(ddof=1))
    np.testing.assert_allclose(reliability(target, noise, weight), expected, rtol=1e-12)
    assert reliability(target, noise + 7.0, weight) == pytest.approx(expected, rel=1e-9)  # shared: no noise
    assert np.isnan(reliability(np.zeros(5), noise[:, :5], np.ones((1, 5)))).all()


@pytest.mark.parametrize("seed", range(4))
def test_counts_by_dyads_are_those_pair_by_pair(seed: int) -> None:
    random = np.random.default_rng(seed)
    configuration = random.integers(9, size=25)
    x, y = random.integers(4, size=(2, 25)).astype(float)
    first, second = np.triu_indices(25, 1)
    kept = random.random(len(first)) < 0.4
    pairs = PairList(first[kept].astype(np.int32), second[kept].astype(np.int32))
    draws = draw_configurations(9, 40, random)
    dyads = Dyads.of(configuration[pairs.first], configuration[pairs.second], 9)
    found = count_dyads(x, y, pairs, dyads, lay_out(draws))
    expected = count_listed(x, y, pairs, lay_out(draws[:, configuration]))
    for name in ("difference", "untied_x", "untied_y", "pairs"):
        assert (getattr(found, name) == getattr(expected, name)).all()


@pytest.mark.parametrize("count", [2, 3, 6, 12, 40])
@pytest.mark.parametrize(("value", "reach"), [(1.0, 1.0), (-0.5, 1.0), (1.0, 2.0), (2.0, 2.0)])
def test_where_nothing_changes_the_value_few_configurations_prove_nothing(
    count: int, value: float, reach: float
) -> None:
    """A standard error of 0 is no certainty: p follows from disjoint pairs that all say the same."""
    sampling = Sampling.of(20, [np.arange(count)])
    values = np.full(1 + 20 + count, value)
    assert sampling.standard_error(values) == 0
    found = float(two_sided_p(values, sampling, reach))
    assert found == pytest.approx(min(1.0, 2 * (reach / (reach + abs(value))) ** (count // 2)))
    # at least what the worst distribution of mean 0 gives: v, or -reach
    random = np.random.default_rng(count)
    says_v = random.random((200_000, count // 2)) < reach / (reach + abs(value))
    assert found >= 0.9 * says_v.all(axis=1).mean()


def test_differences_stay_within_two() -> None:
    random = np.random.default_rng(2)
    sampling = Sampling.of(200, [np.arange(5)])
    values = np.concatenate([[1.6], 1.6 + random.standard_normal(200), 1.6 + random.standard_normal(5)])
    low, high = interval(values, sampling, bounded=False)
    assert high == 2
    assert low >= -2
