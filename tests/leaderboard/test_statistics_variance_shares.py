"""Shares of variance against closed forms and simulation with known truth."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.levels_of_axes import levels_of_axis
from gapbench_leaderboard.statistics.variance_shares import variance_shares


def grid(*sizes: int) -> NDArray[np.int64]:
    return np.array(list(itertools.product(*map(range, sizes))), dtype=np.int64)


def repeated(levels: NDArray[np.int64], seeds: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.repeat(levels, seeds, axis=0), np.repeat(np.arange(len(levels)), seeds)


def test_an_additive_grid_has_the_shares_of_its_effects() -> None:
    # variances of the effects over their levels: a 2/3, b 4 * 2/3, c 0; no noise, two equal seeds
    levels, configuration = repeated(grid(3, 3, 2), 2)
    value = 1.0 * levels[:, 0] + 2.0 * levels[:, 1] + 5
    found = variance_shares(value, configuration, levels)
    np.testing.assert_allclose(found.axes, [1 / 5, 4 / 5, 0], atol=1e-12)
    assert found.seeds == pytest.approx(0, abs=1e-12)
    assert found.total == pytest.approx(10 / 3)
    alone = variance_shares(
        value[::2], configuration[::2], levels[::2]
    )  # without seeds the total is that of a sample
    np.testing.assert_allclose(np.array(alone.axes) * alone.total, [2 / 3, 8 / 3, 0], atol=1e-12)
    assert np.isnan(alone.seeds)


def test_an_interaction_belongs_to_no_axis_of_a_complete_grid() -> None:
    levels, configuration = repeated(grid(2, 2), 2)
    value = np.where(levels[:, 0] == levels[:, 1], 1.0, -1.0)
    found = variance_shares(value, configuration, levels)
    np.testing.assert_allclose(found.axes, [0, 0], atol=1e-12)
    both = variance_shares(value + 2 * levels[:, 0], configuration, levels)  # variances 1 and 1
    np.testing.assert_allclose(both.axes, [0.5, 0], atol=1e-12)


def test_seeds_have_their_share() -> None:
    # in every configuration a pair -1, 1: variance between seeds 2; configurations: 0 and 4 with variance 4
    levels, configuration = repeated(grid(2), 2)
    value = 4.0 * levels[:, 0] + np.tile([-1.0, 1.0], 2)
    found = variance_shares(value, configuration, levels)
    # the sample variance of the means is 8, 1 of it by seeds; over the two levels (8 - 1) / 2
    assert found.total == pytest.approx(3.5 + 2)
    assert found.seeds == pytest.approx(2 / 5.5)
    assert found.axes[0] == pytest.approx(3.5 / 5.5)


@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("sample", [0, 30])
def test_an_axis_without_effect_averages_to_0_and_others_to_their_share(seeds: int, sample: int) -> None:
    random = np.random.default_rng(0)
    every = grid(4, 3, 5)
    found = []
    for _ in range(400):
        own = every if not sample else every[random.choice(len(every), sample, replace=False)]
        levels, configuration = repeated(own, seeds)
        noise = random.standard_normal(len(levels))
        value = 1.5 * levels[:, 0] + noise  # 1.5^2 * 15 / 12 = 2.8125 of 3.8125
        one = variance_shares(value, configuration, levels)
        found.append([share * one.total for share in one.axes] + [one.total])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / 20
    for value, truth, own in zip(mean, [2.8125, 0, 0, 3.8125], error):
        assert abs(value - truth) < 4 * own + (0.06 if sample else 0.04) * truth


def test_an_unbalanced_sample_gives_no_axis_what_belongs_to_another() -> None:
    # b follows a in most configurations; only a matters
    random = np.random.default_rng(1)
    found = []
    for _ in range(300):
        a = random.integers(0, 3, 60)
        b = np.where(random.random(60) < 0.7, a, random.integers(0, 3, 60))
        levels = np.column_stack([a, b])
        value = 2.0 * a + random.standard_normal(60)
        found.append(variance_shares(value, np.arange(60), levels, fraction=0.0).axes)
    mean = np.mean(found, axis=0)
    assert abs(mean[1]) < 0.01
    assert mean[0] == pytest.approx(8 / 3 / (8 / 3 + 1), abs=0.03)


def test_seeds_of_a_core_alone_are_enough() -> None:
    # variance 1 of configurations beyond the axis, 0.25 of seeds; a quarter of the configurations has three seeds
    random = np.random.default_rng(2)
    found = []
    for _ in range(300):
        a = np.tile(np.arange(4), 10)
        configuration = np.concatenate([np.arange(40), np.repeat(np.arange(10), 2)])
        effect = random.standard_normal(40)
        value = effect[configuration] + 0.5 * random.standard_normal(60) + a[configuration]
        one = variance_shares(value, configuration, a[configuration][:, None], fraction=0.0)
        found.append([one.axes[0] * one.total, one.seeds * one.total, one.total])
    np.testing.assert_allclose(np.mean(found, axis=0), [1.25, 0.25, 2.5], atol=0.1)


def test_axes_that_cannot_be_told_apart_have_the_same_share() -> None:
    levels, configuration = repeated(grid(4, 6), 2)
    value = levels[:, 0] + np.tile([-0.1, 0.1], 24)
    alone = variance_shares(value, configuration, levels)
    twice = variance_shares(value, configuration, levels[:, [0, 0, 1]])
    assert twice.axes[0] == twice.axes[1]
    assert twice.axes[0] == pytest.approx(alone.axes[0], abs=0.05)
    assert twice.axes[2] == pytest.approx(0, abs=0.01)


def test_more_axes_than_configurations_are_fitted_one_by_one() -> None:
    random = np.random.default_rng(3)
    found = []
    for _ in range(400):
        levels = random.integers(0, 4, (16, 8))
        value = 2.0 * levels[:, 0] + random.standard_normal(16)
        one = variance_shares(value, np.arange(16), levels)
        found.append([share * one.total for share in one.axes])
    mean = np.nanmean(found, axis=0)
    assert mean[0] == pytest.approx(5, abs=0.5)
    np.testing.assert_allclose(mean[1:], 0, atol=0.3)


@pytest.mark.parametrize("networks", [0, 1, 2])
def test_few_networks_say_nothing(networks: int) -> None:
    found = variance_shares(np.zeros(networks), np.arange(networks), np.zeros((networks, 2), dtype=np.int64))
    assert np.isnan(found.axes).all()
    assert np.isnan(found.total)


def test_many_numbers_are_divided_into_quarters_and_few_are_not() -> None:
    frame = pd.DataFrame(
        {"x": np.arange(100) / 100, "few": np.arange(100) % 8, "text": [f"t{k}" for k in range(100)]}
    )
    found = levels_of_axis(frame, "x")
    assert np.bincount(found.codes).tolist() == [25, 25, 25, 25]
    assert found.names[0] == "0 to 0.24"
    assert found.distinct == 100
    assert levels_of_axis(frame, "few").names == tuple("01234567")
    assert len(levels_of_axis(frame, "text").names) == 100
    frame.loc[:9, "x"] = np.nan
    found = levels_of_axis(frame, "x")
    assert found.names[-1] == "empty"
    assert np.bincount(found.codes)[-1] == 10


def test_quarters_keep_fifteen_sixteenths_of_a_straight_effect() -> None:
    frame = pd.DataFrame({"x": (np.arange(4000) + 0.5) / 4000})
    found = variance_shares(
        frame["x"].to_numpy(), np.arange(4000), levels_of_axis(frame, "x").codes[:, None], fraction=0.0
    )
    assert found.axes[0] == pytest.approx(15 / 16, abs=1e-3)
