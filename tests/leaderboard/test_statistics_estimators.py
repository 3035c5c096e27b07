"""Selection, partial tau, strata, calibration, incremental information, transport, noise and ceilings."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from gapbench_leaderboard.statistics import (
    Domain,
    TableError,
    ceilings,
    cross_fitted_calibration,
    disattenuated,
    draw_multiplicities,
    holm,
    incremental_information,
    kendall_tau,
    partial_tau,
    precision_at_k,
    regret_at_1,
    simpson_flag,
    transport,
    within_stratum_tau,
)
from gapbench_leaderboard.statistics.calibration import calibration_replicates, isotonic_curve
from gapbench_leaderboard.statistics.incremental import incremental_replicates, proxy_features
from gapbench_leaderboard.statistics.noise import (
    BinomialNoise,
    JointNoise,
    joint_noise,
    noise_by_size,
)
from gapbench_leaderboard.statistics.pairs import count_pairs, lay_out, order_of
from gapbench_leaderboard.statistics.regression import cross_fitted, design, folds_of


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6), st.data())
def test_precision_is_the_mean_over_all_orders_of_ties(pairs, data) -> None:
    x, y = np.array(pairs, float).T
    k = data.draw(st.integers(1, len(x)))
    orders = list(itertools.permutations(range(len(x))))
    best = [{order[i] for i in np.argsort(y[list(order)], kind="stable")[:k]} for order in orders]
    chosen = [{order[i] for i in np.argsort(x[list(order)], kind="stable")[:k]} for order in orders]
    expected_best = np.mean([[i in group for i in range(len(x))] for group in best], axis=0)
    expected_chosen = np.mean([[i in group for i in range(len(x))] for group in chosen], axis=0)
    assert precision_at_k(x, y, k) == pytest.approx((expected_best * expected_chosen).sum() / k)


def test_selection_of_known_values() -> None:
    assert precision_at_k([1, 2, 3, 4], [4, 1, 2, 3], 2) == 0.5
    assert regret_at_1([1, 2, 3], [0.3, 0.1, 0.2]) == pytest.approx(0.2)
    assert regret_at_1([1, 1, 3], [0.3, 0.1, 0.2]) == pytest.approx(0.1)
    with pytest.raises(ValueError, match="between 1 and"):
        precision_at_k([1.0], [1.0], 2)


def test_partial_tau_is_tau_over_matched_pairs() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": random.integers(0, 8, 60).astype(float),
            "y": random.integers(0, 8, 60).astype(float),
            "z": random.standard_normal(60),
            "family": random.choice(["a", "b"], 60),
        }
    )
    reach = 0.2 * frame["z"].std(ddof=0)
    difference = in_x = in_y = 0.0
    for i, j in itertools.combinations(range(60), 2):
        if frame["family"][i] == frame["family"][j] and abs(frame["z"][i] - frame["z"][j]) <= reach:
            sx, sy = np.sign(frame["x"][i] - frame["x"][j]), np.sign(frame["y"][i] - frame["y"][j])
            difference, in_x, in_y = difference + sx * sy, in_x + abs(sx), in_y + abs(sy)
    expected = difference / np.sqrt(in_x * in_y)
    assert partial_tau(frame, "x", "y", ["family", "z"]) == pytest.approx(expected, abs=1e-14)
    assert partial_tau(frame, "x", "y", []) == pytest.approx(kendall_tau(frame["x"], frame["y"], "b"))


def test_partial_tau_vanishes_where_a_third_variable_explains_everything() -> None:
    random = np.random.default_rng(1)
    z = random.standard_normal(3000)
    frame = pd.DataFrame(
        {"z": z, "x": z + random.standard_normal(3000), "y": z + random.standard_normal(3000)}
    )
    assert kendall_tau(frame["x"], frame["y"], "b") > 0.3
    assert abs(partial_tau(frame, "x", "y", ["z"])) < 0.02


def test_strata_and_the_simpson_flag_on_a_reversal() -> None:
    random = np.random.default_rng(2)
    stratum = np.repeat(np.arange(4), 30)
    y = stratum + 0.1 * random.standard_normal(120)
    x = stratum - 0.5 * (y - stratum) * 10
    frame = pd.DataFrame({"s": stratum, "x": x, "y": y})
    found = within_stratum_tau(frame, "x", "y", ["s"])
    assert found.within == -1.0
    assert found.pooled > 0
    assert found.simpson
    honest = within_stratum_tau(frame.assign(x=y + 0.01 * random.standard_normal(120)), "x", "y", ["s"])
    assert honest.within > 0.5
    assert not honest.simpson
    assert (found.strata_used, found.strata_skipped) == (4, 0)


def test_the_simpson_flag_by_its_three_conditions() -> None:
    spread = np.linspace(-0.1, 0.1, 401)
    replicates = lambda value, width=1.0: np.concatenate([[value], value + width * spread])  # noqa: E731
    assert not simpson_flag(replicates(0.05), replicates(-0.5))  # the pooled value is not significant
    assert simpson_flag(replicates(0.5), replicates(-0.01))
    assert simpson_flag(replicates(0.5), replicates(0.05))
    assert not simpson_flag(replicates(0.5), replicates(0.2))
    far = np.concatenate([[0.05], 0.05 - 8 * spread])  # contains 0, but so does the paired difference
    assert not simpson_flag(replicates(0.2), far)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_isotonic_fit_solves_its_least_squares_problem(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = random.integers(0, 6, 12).astype(float), random.standard_normal(12)
    weight = random.integers(1, 4, 12).astype(float)
    curve = isotonic_curve(x, y, weight)
    assert (np.diff(curve.values) >= -1e-12).all()
    indicator = (x[:, None] >= curve.levels[None, :]).astype(float)  # heights of steps, the first is free
    bounds = ([-np.inf] + [0.0] * (len(curve.levels) - 1), np.inf)
    root = np.sqrt(weight)
    solved = optimize.lsq_linear(indicator * root[:, None], y * root, bounds, tol=1e-12)
    np.testing.assert_allclose(curve.values, np.cumsum(solved.x), atol=1e-4)


def test_calibration_by_fitting_each_fold_alone() -> None:
    random = np.random.default_rng(3)
    x = random.integers(0, 15, 40).astype(float)
    y = 0.1 * x + random.standard_normal(40)
    fold = random.integers(0, 4, 40)
    draws = random.integers(0, 3, (3, 40))
    draws[0] = 1
    found = calibration_replicates(x, y, fold, draws)
    for row, weight in enumerate(draws):
        prediction = np.zeros(40)
        for number in range(4):
            inside = (fold != number) & (weight > 0)
            curve = isotonic_curve(x[inside], y[inside], weight[inside].astype(float))
            prediction[fold == number] = curve.predict(x[fold == number])
        repeated = np.repeat(np.arange(40), weight)
        error = y[repeated] - prediction[repeated]
        spread = y[repeated] - y[repeated].mean()
        assert found[row, 0] == pytest.approx(1 - (error**2).sum() / (spread**2).sum(), abs=1e-12)
        assert found[row, 1] == pytest.approx(np.abs(error).mean(), abs=1e-12)
    single = cross_fitted_calibration(x, y, fold)
    assert (single.r_squared, single.mean_absolute_error) == (found[0, 0], found[0, 1])


def test_a_wrong_direction_calibrates_no_better_than_the_mean() -> None:
    y = np.linspace(0, 1, 50)
    fold = np.arange(50) % 5
    assert cross_fitted_calibration(y, y, fold).r_squared > 0.99
    assert cross_fitted_calibration(-y, y, fold).r_squared < 0.01


def grid(random: np.random.Generator) -> pd.DataFrame:
    rows = [(a, b, s) for a in range(5) for b in ("p", "q", "r") for s in range(4)]
    frame = pd.DataFrame(rows, columns=["a", "b", "seed"])
    hidden = random.standard_normal(len(frame))
    frame["hidden"] = hidden
    frame["y"] = 0.5 * frame["a"] + (frame["b"] == "q") + hidden
    return frame


def test_incremental_information_tells_what_the_axes_do_not() -> None:
    random = np.random.default_rng(4)
    frame = grid(random)
    frame = pd.concat([frame.assign(c=c) for c in range(4)], ignore_index=True)
    hidden = random.standard_normal(len(frame))
    frame = frame.assign(y=frame["y"] - frame["hidden"] + hidden, hidden=hidden)
    frame["repeats"] = 3.0 * frame["a"] + (frame["b"] == "q")
    frame["noise"] = random.standard_normal(len(frame))
    assert incremental_information(frame, "hidden", "y", ["a", "b", "c"]) > 0.6
    assert abs(incremental_information(frame, "repeats", "y", ["a", "b", "c"])) < 0.15
    assert incremental_information(frame, "noise", "y", ["a", "b", "c"]) < 0.1


def test_the_bordered_system_equals_two_plain_ridge_regressions() -> None:
    random = np.random.default_rng(5)
    frame = grid(random)
    features, y = design(frame, ["a", "b"]), frame["y"].to_numpy()
    fold = folds_of(frame.groupby(["a", "b"]).ngroup().to_numpy(), 5, random)
    proxies = np.stack(
        [proxy_features(frame["hidden"].to_numpy()), proxy_features(random.standard_normal(60))]
    )
    weight = random.integers(0, 3, (1, 60)).astype(float)
    found = incremental_replicates(features, proxies, y, fold, weight)[0]
    more = random.integers(0, 3, (9, 60)).astype(float)
    alone = incremental_replicates(features, proxies, y, fold, more)
    assert incremental_replicates(features, proxies, y, fold, more, workers=3).tolist() == alone.tolist()
    from gapbench_leaderboard.statistics.regression import best_penalty

    penalty = best_penalty(features, y)
    for number, proxy in enumerate(proxies):
        errors = []
        for columns, extra in ((features, 0), (np.column_stack([features, proxy]), 2)):
            total = 0.0
            for part in np.unique(fold):
                inside, outside = fold != part, fold == part
                w = weight[0][inside]
                d = np.column_stack([np.ones(inside.sum()), columns[inside]])
                ridge = np.array([1e-9] + [penalty] * features.shape[1] + [1e-3 * w.sum()] * extra)
                beta = np.linalg.solve(d.T @ (d * w[:, None]) + np.diag(ridge), d.T @ (w * y[inside]))
                residual = y[outside] - np.column_stack([np.ones(outside.sum()), columns[outside]]) @ beta
                total += (weight[0][outside] * residual**2).sum()
            errors.append(total)
        assert found[number] == pytest.approx(1 - errors[1] / errors[0], abs=1e-9)


def test_folds_keep_configurations_together_and_predictions_never_see_their_own() -> None:
    random = np.random.default_rng(6)
    configuration = random.integers(0, 12, 100)
    fold = folds_of(configuration, 5, random)
    for number in range(12):
        assert len(np.unique(fold[configuration == number])) <= 1
    features = (configuration[:, None] == np.arange(12)).astype(float)
    target = random.standard_normal(12)[configuration]
    changed = target.copy()
    changed[configuration == 3] += 100.0
    one, other = cross_fitted(features, target, fold), cross_fitted(features, changed, fold)
    held_out = fold == fold[np.flatnonzero(configuration == 3)[0]]
    np.testing.assert_array_equal(one[held_out], other[held_out])


def test_transport_of_a_scale_that_carries_over_and_of_one_that_does_not() -> None:
    y = np.linspace(0, 1, 40)
    ones = np.ones(40)
    same = transport([Domain("a", y, y, ones), Domain("b", y, y, ones)])
    assert same.worst()[0] > 0.999
    shifted = transport([Domain("a", y, y, ones), Domain("b", y + 10, y, ones), Domain("c", y, y, ones)])
    assert shifted.worst()[0] < 0
    assert shifted.r_squared["b"] < shifted.r_squared["a"]
    assert shifted.mean()[0] == pytest.approx(np.mean(list(shifted.r_squared.values())))


def test_networks_on_test_sets_of_different_sizes_share_draws_with_their_own_set_only() -> None:
    random = np.random.default_rng(5)
    hard = [random.random(200), random.random(300)]
    right = {str(k): hard[k % 2] > 0.2 + 0.05 * random.random(len(hard[k % 2])) for k in range(4)}
    sizes: list[int | None] = [200, 300, 200, 300]
    found = noise_by_size(list("0123"), right, sizes)
    draws = found.draw(random, 6000)
    for k, entry in right.items():
        assert draws[:, int(k)].std() == pytest.approx(np.sqrt(entry.var() / len(entry)), rel=0.05)
    correlation = np.corrcoef(draws.T)
    assert correlation[0, 2] > 0.5
    assert correlation[1, 3] > 0.5
    assert np.abs(correlation[[0, 0, 1, 2], [1, 3, 2, 3]]).max() < 0.06
    part = found.select(np.array([3, 0])).draw(random, 6000)
    assert part[:, 0].std() == pytest.approx(draws[:, 3].std(), rel=0.05)
    assert part[:, 1].std() == pytest.approx(draws[:, 0].std(), rel=0.05)
    assert isinstance(noise_by_size(["0", "2"], right, [200, 200]), JointNoise)
    with pytest.raises(TableError, match="share their test set"):
        noise_by_size(list("0123"), {**right, "2": right["1"]}, sizes)


def test_joint_noise_keeps_the_covariance_of_networks_on_one_test_set() -> None:
    random = np.random.default_rng(7)
    wrong = random.random((3, 400)) < 0.3
    wrong[1] = wrong[0]
    draws = JointNoise(wrong).draw(random, 4000)
    np.testing.assert_array_equal(draws[:, 0], draws[:, 1])
    expected = np.cov(wrong.astype(float), bias=True) / 400
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=4e-5)
    independent = BinomialNoise(np.array([0.3, 0.3]), np.array([400, 400])).draw(random, 4000)
    assert independent.var(axis=0) == pytest.approx([0.3 * 0.7 / 400] * 2, rel=0.1)
    assert abs(np.corrcoef(independent.T)[0, 1]) < 0.06


def test_correctness_is_read_packed_and_unpacked() -> None:
    random = np.random.default_rng(8)
    right = random.random((2, 13)) < 0.7
    packed = {"a": (b"", np.packbits(right[0]).tobytes()), "b": (None, np.packbits(right[1]))}
    found = joint_noise(["a", "b"], packed, [13, 13])
    np.testing.assert_array_equal(found.wrong, ~right)
    plain = joint_noise(["a", "b"], {"a": right[0], "b": right[1]}, [None, None])
    np.testing.assert_array_equal(plain.wrong, ~right)
    with pytest.raises(TableError, match="1 of 2 networks have no"):
        joint_noise(["a", "c"], packed, [13, 13])
    with pytest.raises(TableError, match="share their test set"):
        joint_noise(["a", "b"], {"a": right[0], "b": right[1][:9]}, [None, None])
    with pytest.raises(TableError, match="do not fit"):
        joint_noise(["a", "b"], packed, [130, 130])
    with pytest.raises(TableError, match="bool array"):
        joint_noise(["a"], {"a": np.arange(4)}, [4])


def test_ceilings_are_near_the_simulated_truth_on_average() -> None:
    random = np.random.default_rng(9)
    code = np.repeat(np.arange(60), 3)
    once = np.ones((1, 180), dtype=np.int64)
    single = lay_out(once)
    found, truth = [], []
    for _ in range(40):
        mean = 0.25 + 0.03 * random.standard_normal(60)
        true = mean[code] + 0.015 * random.standard_normal(180)
        gap = random.binomial(1000, true) / 1000
        noise = BinomialNoise(gap, np.full(180, 1000)).draw(random, 50)
        estimate = ceilings(gap, code, noise, once, random)
        found.append((estimate.network[0], estimate.configuration[0]))
        measured = order_of(gap)
        truth.append([count_pairs(order_of(v), measured, single).tau_b()[0] for v in (true, mean[code])])
    np.testing.assert_allclose(np.mean(found, axis=0), np.mean(truth, axis=0), atol=0.02)


def test_ceilings_without_noise_or_without_seeds() -> None:
    random = np.random.default_rng(10)
    gap = random.standard_normal(40)
    once = np.ones((1, 40), dtype=np.int64)
    exact = ceilings(gap, np.arange(40), np.zeros((1, 40)), once, random)
    assert exact.network[0] == pytest.approx(1.0)
    assert np.isnan(exact.configuration[0])
    unknown = ceilings(gap, np.repeat(np.arange(20), 2), None, once, random)
    assert np.isnan(unknown.network[0])
    assert np.isfinite(unknown.configuration[0])


def test_disattenuation_is_exact_for_gaussian_vectors() -> None:
    rho, reliability = 0.6, 0.8
    tau = lambda r: 2 / np.pi * np.arcsin(r)  # noqa: E731
    assert disattenuated(tau(rho * reliability), tau(reliability)) == pytest.approx(tau(rho))
    assert disattenuated(0.9, 0.5) == 1.0
    assert disattenuated(-0.9, 0.5) == -1.0
    assert np.isnan(disattenuated(0.3, 0.01))
    assert np.isnan(disattenuated(0.3, np.nan))


def test_seeds_stay_with_their_configuration_in_the_bootstrap() -> None:
    random = np.random.default_rng(11)
    configuration = np.array([5, 5, 2, 2, 2, 9])
    drawn = draw_multiplicities(configuration, 50, random)
    assert (drawn[0] == 1).all()
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert (drawn[:, 2] == drawn[:, 4]).all()
    assert (drawn[1:, [0, 2, 5]].sum(axis=1) == 3).all()


def test_holm_by_hand() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, np.nan]), [0.03, 0.06, 0.06, np.nan])
    np.testing.assert_allclose(holm([0.9, 0.9]), [1.0, 1.0])
