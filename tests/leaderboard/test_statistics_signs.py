"""Coefficients that rest on few signs: exact intervals and p-values, checked by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gapbench_leaderboard.scores import score_table
from gapbench_leaderboard.statistics import Sampling, interval, kendall_tau, within_stratum_tau
from gapbench_leaderboard.statistics.granulated import cells_of, signs_over_axes
from gapbench_leaderboard.statistics.intervals import two_sided_p
from gapbench_leaderboard.statistics.signs import (
    FEW_SIGNS,
    Signs,
    disjoint_pairs,
    exact_interval,
    exact_p,
    in_groups,
    sharing,
    signs_of,
    unanimous_interval,
    unanimous_p,
    weighted,
)

QUICK = {"replicates": 60, "pair_replicates": 10, "prediction_replicates": 3, "workers": 1}


@pytest.mark.parametrize("count", [1, 2, 5, 7, 10, 19, 29])
def test_disjoint_signs_have_the_interval_and_the_p_value_of_the_binomial_distribution(count: int) -> None:
    for agreeing in range(count + 1):
        value = 2 * agreeing / count - 1
        test = stats.binomtest(agreeing, count)
        limits = test.proportion_ci(0.95, "exact")
        low, high = exact_interval(value, count)
        assert (low, high) == pytest.approx((2 * limits.low - 1, 2 * limits.high - 1), abs=1e-12)
        assert exact_p(value, count) == pytest.approx(test.pvalue, rel=1e-9)
        assert low < high
        assert low <= value <= high
        assert (low > 0 or high < 0) == (test.pvalue < 0.05)


def test_the_examples_of_the_heat_map() -> None:
    """-0.60 from ten signs is no evidence (p = 0.11), seven of seven are (p = 0.016)."""
    low, high = exact_interval(-0.6, 10)
    assert low < -0.6 < 0 < high
    assert exact_p(-0.6, 10) == pytest.approx(112 / 1024)
    low, high = exact_interval(1.0, 7)
    assert (low, high) == pytest.approx((2 * 0.025 ** (1 / 7) - 1, 1.0))
    assert low > 0
    assert exact_p(1.0, 7) == pytest.approx(2 / 128)


@pytest.mark.parametrize("count", [1, 3, 6, 10])
def test_they_cover_what_is_true_by_enumeration_with_ties(count: int) -> None:
    """Every composition of agreeing, tied and other signs, for a grid of probabilities."""
    outcomes = [(a, t, count - a - t) for a in range(count + 1) for t in range(count + 1 - a)]
    limits = {o: exact_interval((o[0] - o[2]) / count, count) for o in outcomes}
    for agree, tie in itertools.product(np.linspace(0, 1, 21), (0.0, 0.1, 0.4)):
        other = max(0.0, 1 - agree - tie)
        if agree + tie + other > 1 + 1e-12:
            continue
        chances = [
            math.comb(count, a) * math.comb(count - a, t) * agree**a * tie**t * other**o
            for a, t, o in outcomes
        ]
        true = agree - other
        inside = [low - 1e-12 <= true <= high + 1e-12 for low, high in limits.values()]
        assert np.dot(chances, inside) >= 0.95 - 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_they_cover_where_pairs_share_networks_by_enumeration(seed: int) -> None:
    """tau-a of five networks, each one of four points: all 1,024 tables."""
    random = np.random.default_rng(seed)
    points, chance = random.integers(4, size=(4, 2)), random.dirichlet(np.ones(4))
    sign = np.sign(points[:, None, 0] - points[None, :, 0]) * np.sign(points[:, None, 1] - points[None, :, 1])
    true = float(chance @ sign @ chance)
    signs = signs_of(np.arange(5))
    assert (signs.total, signs.disjoint) == (10, 2)
    covered = 0.0
    for drawn in itertools.product(range(4), repeat=5):
        x, y = points[list(drawn)].T
        low, high = exact_interval(kendall_tau(x, y, "a"), signs.disjoint)
        covered += float(np.prod(chance[list(drawn)])) * (low <= true <= high)
    assert covered >= 0.95


@pytest.mark.parametrize("reach", [1.0, 2.0])
@pytest.mark.parametrize("value", [0.0, 0.3, -0.7, 1.0, -1.0])
def test_where_all_pairs_agree_interval_and_p_value_agree_with_each_other(value: float, reach: float) -> None:
    for count in range(1, 60):
        low, high = unanimous_interval(value, count, reach)
        p = float(unanimous_p(np.array(value), count, reach))
        assert -reach <= low <= value <= high <= reach
        assert low < high
        assert (low > 0 or high < 0) == (p < 0.05)
    assert unanimous_interval(1.0, 7) == pytest.approx(exact_interval(1.0, 7))
    assert unanimous_interval(0.5, 0) == (-1.0, 1.0)


def test_signs_that_weigh_differently_count_as_fewer() -> None:
    one, many = Signs(1, 1, 1), Signs(50, 50, 50)
    assert weighted([one, many]) == Signs(pytest.approx(4 / 1.02), pytest.approx(4 / 1.02), 51)
    assert weighted([one] * 8) == Signs(pytest.approx(8), pytest.approx(8), 8)
    assert weighted([Signs(45, 5, 45), None], [45, 7]) == Signs(pytest.approx(45), pytest.approx(5), 45)
    assert weighted([]) is None
    both = sharing([Signs(4, 4, 4)] * 3)
    assert both is not None
    assert (both.disjoint, both.total) == (pytest.approx(4), 12)


def test_signs_of_groups_are_counted_by_pairs_and_by_configurations() -> None:
    assert signs_of(np.array([0, 0, 0, 0])) == Signs(6, 2, 6)  # seeds of one configuration
    assert signs_of(np.array([0, 0, 1, 1, 2])) == Signs(10, 1, 10)
    assert cells_of(np.array([0, 0, 1, 1, 1, 2])).signs() == Signs(
        pytest.approx(4 / (1 + 1 / 3)), pytest.approx(2), 4
    )
    assert signs_over_axes([cells_of(np.array([0, 1, 2]))]) is None
    shared = in_groups([np.array([0, 1]), np.array([2, 3])], np.array([0, 1, 0, 1]))
    assert shared is not None
    assert shared.disjoint == 1.0  # the same two configurations twice
    assert disjoint_pairs(np.array([0, 0, 1, 2]), np.array([1, 2, 2, 3])) == 2


@pytest.mark.parametrize("error", [None, 0.2])
def test_few_signs_decide_the_interval_and_many_leave_it_as_it_is(error: float | None) -> None:
    random = np.random.default_rng(0)
    sampling = Sampling.of(100, [np.arange(20)])
    values = 0.4 + 0.1 * random.standard_normal(121)
    few, many = Signs(FEW_SIGNS - 1, 10, 29), Signs(FEW_SIGNS, 10, 30)
    assert interval(values, sampling, error=error, signs=few) == exact_interval(values[0], 10)
    assert interval(values, sampling, error=error, signs=many) == interval(values, sampling, error=error)
    assert float(two_sided_p(values, sampling, 1.0, few)) == exact_p(values[0], 10)
    assert float(two_sided_p(values, sampling, 1.0, many)) == float(two_sided_p(values, sampling))
    lost = np.where(np.arange(121) > 0, np.nan, values)  # one pair: nothing is left after a deletion
    assert interval(lost, sampling, error=error, signs=few) == exact_interval(values[0], 10)


def rows_of(scores: pd.DataFrame, proxy: str) -> pd.DataFrame:
    return scores[scores["proxy"] == proxy].set_index("estimator")


@pytest.mark.parametrize(("agreeing", "count"), [(2, 10), (8, 10), (7, 7), (0, 7), (5, 5), (0, 6), (1, 1)])
def test_an_axis_of_two_levels_is_a_sign_test_over_its_cells(agreeing: int, count: int) -> None:
    random = np.random.default_rng(count)
    gap = np.sort(random.random((count, 2)), axis=1)
    up = np.arange(count) < agreeing
    measure = np.where(up[:, None], gap, gap[:, ::-1]) + 10.0 * random.random(count)[:, None]
    frame = pd.DataFrame(
        {
            "problem": np.repeat([f"p{k}" for k in range(count)], 2),
            "switch": ["off", "on"] * count,
            "gap": gap.ravel(),
            "m": measure.ravel(),
        }
    )
    scores = rows_of(
        score_table(frame, ["m"], "gap", ["problem", "switch"], strata=["problem"], **QUICK), "m"
    )
    value = 2 * agreeing / count - 1
    test = stats.binomtest(agreeing, count)
    for estimator in ("granulated:switch", "tau_within", "tau_within:problem"):
        row = scores.loc[estimator]
        assert row["value"] == pytest.approx(value)
        assert (row["low"], row["high"]) == pytest.approx(exact_interval(value, count))
        assert (row["low"] > 0 or row["high"] < 0) == (test.pvalue < 0.05)
        assert scores.loc[f"pairs:{estimator}", "value"] == count


TABLES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "perfect": lambda gap: gap,
    "reversed": lambda gap: -gap,
    "constant": lambda gap: 0 * gap,
    "two levels": lambda gap: (gap > np.median(gap)).astype(float),
    "one away": lambda gap: np.where(gap == gap.max(), -1.0, gap),
}


@pytest.mark.parametrize("configurations", [1, 2, 3, 8, 12, 40])
@pytest.mark.parametrize("seeds", [1, 2, 10])
def test_no_interval_has_width_zero_and_p_values_agree_where_all_pairs_do(
    configurations: int, seeds: int
) -> None:
    random = np.random.default_rng(7)
    lr, batch = np.divmod(np.arange(configurations), 2)
    frame = pd.DataFrame({"lr": np.repeat(lr, seeds), "batch": np.repeat(batch, seeds)})
    frame["gap"] = random.permutation(len(frame)) / 1000
    for name, made in TABLES.items():
        frame[name] = made(frame["gap"].to_numpy())
    if len(frame) < 2:
        return
    scores = score_table(frame, list(TABLES), "gap", ["lr", "batch"], test_size=500, strata=["lr"], **QUICK)
    with_limits = scores[(scores["low"].notna() | scores["high"].notna()) & (scores["estimator"] != "rank")]
    assert (with_limits["low"] < with_limits["high"]).all(), with_limits[
        with_limits["low"] >= with_limits["high"]
    ]
    assert with_limits["estimator"].isin(["tau", "granulated"]).any()
    for name in ("perfect", "reversed", "constant"):
        own = rows_of(scores, name)
        low, high = own.loc["tau", ["low", "high"]]
        assert (low > 0 or high < 0) == (own.loc["p_random", "value"] < 0.05)
        assert own.loc["pairs:tau", "value"] == len(frame) * (len(frame) - 1) / 2


def test_the_plain_function_of_strata_has_the_exact_interval() -> None:
    frame = pd.DataFrame({"g": np.repeat(range(7), 2), "x": [0, 1] * 7, "y": np.arange(14)})
    found = within_stratum_tau(frame, "x", "y", ["g"], "a")
    assert found.within == 1.0
    assert found.within_interval == pytest.approx(exact_interval(1.0, 7))
