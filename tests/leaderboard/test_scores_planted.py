"""Planted proxies have the tau that they are said to have; what is told apart is what the board's test tells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

from gapbench_leaderboard.scores import score_population
from gapbench_leaderboard.scoring.resolving import (
    STRONG,
    WEAK,
    _random,
    _scale,
    headline_of,
    smallest_difference,
    told_apart,
)
from gapbench_leaderboard.scoring.scope import Scope, StudySet
from gapbench_leaderboard.scoring.study import studies
from gapbench_leaderboard.statistics.planting import expected_tau, noise_scale, planted
from gapbench_leaderboard.statistics.rank import kendall_tau


@pytest.mark.parametrize("common", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("tau", [0.2, 0.4])
def test_the_expected_tau_is_the_mean_over_noise(common: float, ties: bool, tau: float) -> None:
    random = np.random.default_rng(0)
    target = random.gamma(2.0, 1.0, 24)  # skewed: no formula of the bivariate normal would do
    if ties:
        target = np.round(target, 1)
    configuration = np.repeat(np.arange(12), 2)
    scale = noise_scale(target, configuration, tau, common)
    assert expected_tau(target, configuration, scale, common) == pytest.approx(tau, abs=1e-6)
    found = [
        kendall_tau(planted(target, configuration, np.full(24, scale), common, random), target, "b")
        for _ in range(3000)
    ]
    assert np.mean(found) == pytest.approx(tau, abs=4 * np.std(found) / np.sqrt(3000))


def test_what_ties_make_impossible_is_not_promised() -> None:
    target = np.array([0.0] * 19 + [1.0])  # 19 of 190 pairs differ: tau-b is at most sqrt(0.1)
    configuration = np.arange(20)
    assert noise_scale(target, configuration, 0.4, 0.0) == 0
    assert expected_tau(target, configuration, 1e-9, 0.0) == pytest.approx(np.sqrt(0.1))
    assert noise_scale(np.ones(5), np.arange(5), 0.2, 0.0) == 0


def networks(configurations: int, random: np.random.Generator, seeds: int = 2) -> pd.DataFrame:
    """Two tasks; the first with two families and two problems of unequal sizes and spreads."""
    rows = []
    for task, family, problem, share in (
        ("one", "a", 0.0, 0.4), ("one", "a", 0.2, 0.1), ("one", "b", 0.0, 0.2), ("two", "a", 0.0, 0.3),
    ):  # fmt: skip
        for number in range(int(share * configurations)):
            level = random.standard_normal()
            for seed in range(seeds):
                gap = (0.1 + problem) * (level + 0.5 * random.standard_normal()) + problem
                rows.append((task, family, problem, number, seed, gap))
    table = pd.DataFrame(rows, columns=["task", "family", "label_noise", "lr", "seed", "gap"])
    return table.assign(cell=[f"{k:04d}" for k in range(len(table))], status="converged")


def measured_on(table: pd.DataFrame, proxies: dict[str, NDArray[np.float64]]) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"cell": table["cell"], "proxy": name, "value": value, "status": "ok"})
        for name, value in proxies.items()
    ]
    return pd.concat(parts, ignore_index=True)


def study_set(table: pd.DataFrame, replicates: int = 200) -> StudySet:
    values = pd.DataFrame(index=range(len(table)))
    found = studies(
        table, values, values, "gap", ["label_noise", "lr"], ["converged"], problem=["label_noise"]
    )
    return StudySet.of(found, replicates, 0)


def test_planted_headlines_are_what_they_are_said_to_be() -> None:
    sets = study_set(networks(60, np.random.default_rng(3)), replicates=1)
    for tau in (WEAK, STRONG):
        scales = [_scale(part, tau, 0.3) for part in sets.parts]
        found = []
        for number in range(400):
            made = [
                planted(p.study.target, p.study.configuration, s, 0.3, _random(1, p, number, tau))
                for p, s in zip(sets.parts, scales)
            ]
            found.append(headline_of(sets, made)[0])
        assert np.mean(found) == pytest.approx(tau, abs=4 * np.std(found) / 20)


def test_the_headline_of_a_planted_proxy_is_that_of_a_measured_one() -> None:
    table = networks(40, np.random.default_rng(4))
    values = pd.DataFrame({"p": np.random.default_rng(5).standard_normal(len(table))})
    found = studies(
        table,
        values,
        values.iloc[:, :0],
        "gap",
        ["label_noise", "lr"],
        ["converged"],
        problem=["label_noise"],
    )
    sets = StudySet.of(found, 50, 0)
    own = [part.study.proxies["p"] for part in sets.parts]
    np.testing.assert_array_equal(headline_of(sets, own), sets.headline("p", Scope()))


def test_more_configurations_tell_more_apart() -> None:
    few = told_apart(study_set(networks(30, np.random.default_rng(6))), 0, 0.3, 3.0, 30)
    many = told_apart(study_set(networks(400, np.random.default_rng(6))), 0, 0.3, 3.0, 30)
    assert few.alone < 0.6
    assert many.alone > 0.9
    assert few.among <= few.alone
    assert many.among <= many.alone


def test_the_power_is_that_of_fresh_noise_around_two_truths() -> None:
    # By the normal distribution: the difference of the two headlines has the error that 200 plantings show.
    sets = study_set(networks(120, np.random.default_rng(7)), replicates=400)
    found = told_apart(sets, 0, 0.0, 2.0, 200)
    differences = []
    for number in range(200):
        pair = []
        for tau in (WEAK, STRONG):
            pair.append(
                headline_of(
                    sets,
                    [
                        planted(p.study.target, p.study.configuration, _scale(p, tau, 0.0), 0.0,
                                _random(0, p, number, tau))
                        for p in sets.parts
                    ],
                )[0]
            )  # fmt: skip
        differences.append(pair[1] - pair[0])
    assert np.mean(differences) == pytest.approx(0.2, abs=0.03)
    expected = stats.norm.sf(1.96 - 0.2 / np.std(differences))
    assert found.alone == pytest.approx(expected, abs=0.2)


def test_a_difference_is_significant_from_the_smallest_on() -> None:
    # All proxies have one standard error of differences, about: those beyond `smallest` are told apart, others not.
    random = np.random.default_rng(8)
    table = networks(200, random)
    proxies = {
        f"p{k}": table["gap"].to_numpy() + (0.05 + 0.1 * k) * random.standard_normal(len(table))
        for k in range(6)
    }
    scores = score_population(
        table, measured_on(table, proxies), axes=["label_noise", "lr"], problem=["label_noise"], replicates=400,
        pair_replicates=5, prediction_replicates=2, workers=1,
    )  # fmt: skip
    row = scores[scores["estimator"] == "smallest_significant_difference"]
    assert len(row) == 1
    smallest = float(row["value"].iloc[0])
    head = scores[(scores["task"] == "") & (scores["family"] == "")].set_index(["proxy", "estimator"])[
        "value"
    ]
    for a in proxies:
        for b in proxies:
            gap = head[a, "tau"] - head[b, "tau"]
            if gap > 1.5 * smallest:
                assert head[b, "rank_low"] > 1
                assert head[a, "rank_high"] < 6
    told = scores.set_index("estimator").loc[["planted_told_apart", "planted_told_apart_among_all"], "value"]
    assert 0 <= told.iloc[1] <= told.iloc[0] <= 1


@pytest.mark.parametrize("count", [0, 1])
def test_without_two_proxies_no_difference_is_defined(count: int) -> None:
    sets = study_set(networks(30, np.random.default_rng(9)))
    found = smallest_difference(sets, [])
    assert np.isnan(found.smallest)
    table = networks(30, np.random.default_rng(9)).iloc[: 4 * count]
    if len(table):
        told = told_apart(study_set(table), 0, 0.0, float("nan"))
        assert np.isnan(told.among)
