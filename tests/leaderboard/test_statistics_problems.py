"""The parts that estimators within problems are made of: errors, reliability, signs, correction for test noise."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapbench_leaderboard.scores import score_population
from gapbench_leaderboard.statistics import kendall_tau
from gapbench_leaderboard.statistics.ceiling import reliability
from gapbench_leaderboard.statistics.dyads import Dyads
from gapbench_leaderboard.statistics.grouped import equal_mean
from gapbench_leaderboard.statistics.matched import MatchedFamilies
from gapbench_leaderboard.statistics.pairs import once
from gapbench_leaderboard.statistics.signs import between
from leaderboard.test_scores_population import measurements, value_of


def weighted_coefficient(
    x: np.ndarray,
    y: np.ndarray,
    groups: list[list[tuple[int, int, int]]],
    family: list[int],
    weight: np.ndarray,
) -> float:
    """The coefficient over listed pairs (first, second, number), each of a weight of its own."""
    numerator: dict[int, float] = {}
    denominator: dict[int, float] = {}
    for pairs, own in zip(groups, family):
        d = ux = uy = n = 0.0
        for i, j, k in pairs:
            dx, dy, w = np.sign(x[i] - x[j]), np.sign(y[i] - y[j]), weight[k]
            d, ux, uy, n = d + w * dx * dy, ux + w * dx**2, uy + w * dy**2, n + w
        if uy > 0:
            numerator[own] = numerator.get(own, 0.0) + (n * d / np.sqrt(ux * uy) if ux > 0 else 0.0)
            denominator[own] = denominator.get(own, 0.0) + n
    return float(np.mean([numerator[own] / denominator[own] for own in denominator]))


@pytest.mark.parametrize("seed", range(5))
def test_the_error_of_matched_pairs_is_that_of_numerical_derivatives(seed: int) -> None:
    """By the weight of each pair, through tau of its group, the weights of groups and the mean over families."""
    random = np.random.default_rng(seed)
    size = 40
    group = random.integers(0, 5, size)
    family = np.array([0, 0, 1, 1, 2])[group]
    configuration = np.arange(size) // 2
    group, family = group[2 * configuration], family[2 * configuration]
    x, y = random.integers(0, 6, size).astype(float), random.integers(0, 6, size).astype(float)
    frame = pd.DataFrame({"size": random.random(size)})
    matched = MatchedFamilies.of(frame, ["size"], group, family, configuration, once(size // 2))
    number = itertools.count()
    groups = [[(int(i), int(j), next(number)) for i, j in zip(p.first, p.second)] for p in matched.pairs]
    count = next(number)
    own = list(map(int, matched.family))
    ones = np.ones(count)
    value = weighted_coefficient(x, y, groups, own, ones)
    assert matched.tau_b(x, y)[0] == pytest.approx(value, abs=1e-12)
    step = 1e-5
    influence = np.array(
        [
            weighted_coefficient(x, y, groups, own, ones + step * (np.arange(count) == k))
            - weighted_coefficient(x, y, groups, own, ones - step * (np.arange(count) == k))
            for k in range(count)
        ]
    ) / (2 * step)
    first, second = (configuration[[pair[side] for pairs in groups for pair in pairs]] for side in (0, 1))
    expected = Dyads.of(first, second, size // 2).standard_error(influence)
    assert matched.standard_error(x, y) == pytest.approx(expected, rel=1e-6)


def test_reliability_is_that_within_groups() -> None:
    """Levels between groups are no signal; variances are means of half squared differences over their pairs."""
    random = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], [3, 5, 1])
    target = random.random(9)
    noise = 0.2 * random.standard_normal((50, 9))
    weight = np.stack([np.ones(9), random.integers(0, 3, 9)]).astype(float)
    found = reliability(target + 100 * group, noise, weight, group)
    for sample, expected in zip(weight, found):
        pairs = [(i, j) for i, j in itertools.combinations(range(9), 2) if group[i] == group[j]]
        masses = np.array([sample[i] * sample[j] for i, j in pairs])
        measured = np.array([0.5 * (target[i] - target[j]) ** 2 for i, j in pairs])
        of_noise = np.array([0.5 * ((noise[:, i] - noise[:, j]) ** 2).mean() for i, j in pairs])
        share = 1 - (masses @ of_noise) / (masses @ measured)
        assert expected == pytest.approx(np.clip(share, 0, 1), abs=1e-9)


def most_disjoint(edges: list[tuple[int, int]]) -> int:
    if not edges:
        return 0
    (i, j), rest = edges[0], edges[1:]
    free = [edge for edge in rest if i not in edge and j not in edge]
    return max(1 + most_disjoint(free), most_disjoint(rest))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_disjoint_pairs_of_different_groups_are_as_many_as_can_be(groups: list[int]) -> None:
    group = np.array(groups)
    edges = [(i, j) for i, j in itertools.combinations(range(len(group)), 2) if group[i] != group[j]]
    found = between(group, np.arange(len(group)))
    if not edges:
        assert found is None
        return
    assert found is not None
    assert (found.pairs, found.disjoint, found.total) == (len(edges), most_disjoint(edges), len(edges))


def test_equal_means_leave_out_what_is_undefined() -> None:
    values = np.array([[1.0, np.nan, np.nan], [0.0, 0.5, np.nan]])
    assert np.array_equal(equal_mean(values), [0.5, 0.5, np.nan], equal_nan=True)


def test_the_true_gap_is_found_within_problems() -> None:
    """600 networks, four problems of very different levels: tau with the true gap, from gaps of 300 examples."""
    random = np.random.default_rng(3)
    problem = np.repeat(np.arange(4), 150)
    signal = random.standard_normal(600)
    error = 0.2 + 0.1 * problem + 0.025 * signal
    measured = random.binomial(300, error) / 300
    x = 0.8 * signal + 0.6 * random.standard_normal(600)
    table = pd.DataFrame(
        {
            "cell": [f"c{k}" for k in range(600)],
            "task": "a",
            "family": "mlp",
            "width": 1.0,
            "status": "converged",
        }
        | {"label_noise": problem / 10, "rate": np.arange(600), "gap": measured, "test_error": measured}
    ).assign(test_size=300)
    scores = score_population(
        table, measurements(table, x=x), axes=["label_noise", "rate"], problem=["label_noise"], replicates=20,
        pair_replicates=2, prediction_replicates=2,
    )  # fmt: skip
    truth = np.mean([kendall_tau(x[problem == k], error[problem == k]) for k in range(4)])
    attenuated = value_of(scores, "x", "tau")
    assert attenuated < truth - 0.1
    assert value_of(scores, "x", "tau_true_gap") == pytest.approx(truth, abs=0.04)
