"""The estimators agree with their definitions, pair by pair, on random tables."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gapbench_leaderboard.statistics import (
    TableError,
    conditional_mutual_information,
    granulated_kendall,
    kendall_tau,
    robust_sign_error,
    spearman,
)
from gapbench_leaderboard.statistics.configurations import group_codes
from gapbench_leaderboard.statistics.granulated import (
    cell_mean,
    cell_mean_error,
    cell_mean_replicates,
    cells_of,
)
from gapbench_leaderboard.statistics.mutual_information_replicates import k_replicates
from gapbench_leaderboard.statistics.pair_lists import PairList, count_listed
from gapbench_leaderboard.statistics.pairs import count_pairs, lay_out, order_of
from gapbench_leaderboard.statistics.rank import spearman_replicates
from gapbench_leaderboard.statistics.sign_error import environments, summary, summary_replicates

AXES = ["a", "b", "c"]
FEW = settings(max_examples=40, deadline=None)


def small_values(size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 6), min_size=size, max_size=size)


@st.composite
def vectors(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    size = draw(st.integers(2, 40))
    return np.array(draw(small_values(size)), float), np.array(draw(small_values(size)), float)


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Part of a grid with axes of one to three values, one to three seeds, tied measures and targets."""
    levels = [draw(st.integers(1, 3)) for _ in AXES]
    grid = list(itertools.product(*(range(count) for count in levels)))
    chosen = draw(st.lists(st.sampled_from(grid), min_size=1, max_size=len(grid), unique=True))
    rows = [(*point, seed) for point in chosen for seed in range(draw(st.integers(1, 3)))]
    frame = pd.DataFrame(rows, columns=[*AXES, "seed"])
    frame["x"] = np.array(draw(small_values(len(frame))), float)
    frame["y"] = np.array(draw(small_values(len(frame))), float) / 8  # sums are exact, so are ties of means
    return frame


def naive_tau(x: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> tuple[float, float]:
    """tau-a and tau-b over pairs of different members with weight w_i w_j."""
    w = np.ones(len(x)) if weight is None else weight
    total = difference = in_x = in_y = 0.0
    for i, j in itertools.combinations(range(len(x)), 2):
        pair, sx, sy = w[i] * w[j], np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
        total += pair
        difference += pair * sx * sy
        in_x += pair * abs(sx)
        in_y += pair * abs(sy)
    a = difference / total if total else np.nan
    b = difference / np.sqrt(in_x * in_y) if in_x * in_y else np.nan
    return a, b


@FEW
@given(vectors())
def test_kendall_by_pairs_and_scipy(pair) -> None:
    x, y = pair
    a, b = naive_tau(x, y)
    assert kendall_tau(x, y, "a") == pytest.approx(a, abs=1e-14)
    assert kendall_tau(x, y, "b") == pytest.approx(b, abs=1e-14, nan_ok=True)
    assert kendall_tau(x, y, "b") == pytest.approx(stats.kendalltau(x, y).statistic, abs=1e-14, nan_ok=True)


@FEW
@given(vectors())
def test_spearman_by_scipy(pair) -> None:
    x, y = pair
    expected = np.nan if np.ptp(x) == 0 or np.ptp(y) == 0 else stats.spearmanr(x, y).statistic
    assert spearman(x, y) == pytest.approx(expected, abs=1e-13, nan_ok=True)


@FEW
@given(vectors(), st.integers(0, 2**32 - 1))
def test_bootstrap_counts_weigh_pairs_of_different_members(pair, seed: int) -> None:
    x, y = pair
    draws = np.random.default_rng(seed).multinomial(len(x), np.full(len(x), 1 / len(x)), size=40)
    counts = count_pairs(order_of(x), order_of(y), lay_out(draws))
    listed = PairList(*(index.astype(np.int32) for index in np.triu_indices(len(x), 1)))
    same = count_listed(x, y, listed, lay_out(draws))
    for name in ("difference", "untied_x", "untied_y", "pairs"):
        np.testing.assert_array_equal(getattr(counts, name), getattr(same, name))
    for row in (0, 17, 39):
        a, b = naive_tau(x, y, draws[row])
        assert counts.tau_a()[row] == pytest.approx(a, abs=1e-14, nan_ok=True)
        assert counts.tau_b()[row] == pytest.approx(b, abs=1e-14, nan_ok=True)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 15, 16, 17, 100, 1000])
@pytest.mark.parametrize("levels", [1, 2, 30, 10**6])
def test_counts_of_every_size_and_many_ties_are_exact(size: int, levels: int) -> None:
    random = np.random.default_rng(size * 31 + levels)
    x, y = random.integers(0, levels, (2, size))
    draws = random.integers(0, 4, (33, size))
    counts = count_pairs(order_of(x), order_of(y), lay_out(draws))
    sx, sy = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    for row in (0, 31, 32):
        pair = np.outer(draws[row], draws[row])
        np.fill_diagonal(pair, 0)
        assert counts.difference[row] == (pair * sx * sy).sum() // 2
        assert counts.untied_x[row] == (pair * abs(sx)).sum() // 2
        assert counts.untied_y[row] == (pair * abs(sy)).sum() // 2
        assert counts.pairs[row] == pair.sum() // 2


def test_counts_stay_exact_where_short_floats_would_round() -> None:
    x = np.arange(20)
    draws = np.full((1, 20), 100_000)
    draws[0, 3] = 99_999
    counts = count_pairs(order_of(x), order_of(-x), lay_out(draws))
    exact = (draws.sum() ** 2 - (draws**2).sum()) // 2
    assert counts.difference[0] == -exact
    assert counts.pairs[0] == exact


@FEW
@given(vectors(), st.integers(0, 2**32 - 1))
def test_spearman_of_a_replicate_never_compares_a_member_with_its_copy(pair, seed: int) -> None:
    x, y = pair
    weight = np.random.default_rng(seed).integers(0, 3, (1, len(x)))
    below = lambda v: np.array(  # noqa: E731
        [
            sum(weight[0, j] * ((v[j] < v[i]) + 0.5 * (v[j] == v[i])) for j in range(len(v)) if j != i)
            for i in range(len(v))
        ]
    )
    chosen = np.repeat(np.arange(len(x)), weight[0])
    defined = len(chosen) > 1 and np.ptp(x[chosen]) > 0 and np.ptp(y[chosen]) > 0
    rank_x, rank_y = below(x)[chosen], below(y)[chosen]
    defined = defined and np.ptp(rank_x) > 0 and np.ptp(rank_y) > 0
    expected = np.corrcoef(rank_x, rank_y)[0, 1] if defined else np.nan
    found = spearman_replicates(order_of(x), order_of(y), lay_out(weight))[0]
    if defined:
        assert found == pytest.approx(expected, abs=1e-12)


def configuration_means(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.groupby(AXES)[["x", "y"]].mean().reset_index()


@FEW
@given(tables())
def test_granulated_by_its_definition(frame: pd.DataFrame) -> None:
    means = configuration_means(frame)
    for variant, which in (("a", 0), ("b", 1)):
        found = granulated_kendall(frame, "x", "y", AXES, variant)
        psi = {}
        for axis in AXES:
            others = [other for other in AXES if other != axis]
            cells = [cell for _, cell in means.groupby(others)]
            used = [cell for cell in cells if len(cell) > 1]
            taus = [np.nan_to_num(naive_tau(c["x"].to_numpy(), c["y"].to_numpy())[which]) for c in used]
            psi[axis] = np.mean(taus) if taus else np.nan
            assert found.cells_used[axis] == len(used)
            assert found.cells_skipped[axis] == len(cells) - len(used)
            assert found.per_axis[axis] == pytest.approx(psi[axis], abs=1e-12, nan_ok=True)
        present = [value for value in psi.values() if not np.isnan(value)]
        expected = np.mean(present) if present else np.nan
        assert found.overall == pytest.approx(expected, abs=1e-12, nan_ok=True)


def entropy(p: np.ndarray) -> float:
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum())


def naive_k(means: pd.DataFrame, axes: list[str], pgdl: bool, self_pairs: bool) -> float:
    points, x, y = means[axes].to_numpy(), means["x"].to_numpy(), means["y"].to_numpy()
    if len(x) > 1 and np.ptp(x) == 0:
        return 0.0
    best = np.nan
    for size in (2,) if pgdl else (0, 1, 2):
        for chosen in itertools.combinations(range(len(axes)), size):
            cells: dict[tuple, np.ndarray] = {}
            for i, j in itertools.product(range(len(x)), repeat=2):
                if i == j and not self_pairs:
                    continue
                key = (tuple(points[i, list(chosen)]), tuple(points[j, list(chosen)]))
                cells.setdefault(key, np.zeros((2, 2)))[int(x[i] > x[j]), int(y[i] > y[j])] += 1
            information = hidden = 0.0
            for table in cells.values():
                weight = 1.0 if pgdl else table.sum()
                p = table / table.sum()
                h = entropy(p.sum(axis=0))
                information += weight * (entropy(p.sum(axis=1)) + h - entropy(p.ravel()))
                hidden += weight * h
            if hidden > 1e-12:
                best = np.fmin(best, information / hidden)
    return float(best)


@FEW
@given(tables())
def test_mutual_information_by_its_definition(frame: pd.DataFrame) -> None:
    means = configuration_means(frame)
    jiang = conditional_mutual_information(frame, "x", "y", AXES)
    assert jiang.value == pytest.approx(naive_k(means, AXES, False, False), abs=1e-9, nan_ok=True)
    for self_pairs in (True, False):
        pgdl = conditional_mutual_information(frame, "x", "y", AXES, "pgdl", self_pairs=self_pairs)
        expected = naive_k(means, AXES, True, self_pairs)
        assert pgdl.value == pytest.approx(expected, abs=1e-9, nan_ok=True)


@FEW
@given(tables(), st.integers(0, 2**32 - 1))
def test_k_of_a_replicate_by_repeating_configurations(frame: pd.DataFrame, seed: int) -> None:
    means = configuration_means(frame)
    codes = means[AXES].to_numpy().astype(np.int64)
    draws = np.random.default_rng(seed).integers(0, 3, (3, len(means)))
    draws[0] = 1
    found = k_replicates(codes, means["x"].to_numpy(), means["y"].to_numpy(), lay_out(draws))
    whole = conditional_mutual_information(frame, "x", "y", AXES).value
    assert found[0] == pytest.approx(whole, abs=1e-9, nan_ok=True)
    one = (draws[1] > 0).astype(int)[None]  # multiplicities 0 and 1 are the table without some configurations
    kept = means[one[0] > 0]
    if len(kept) > 1 and np.ptp(kept["x"]) > 0:
        expected = conditional_mutual_information(kept, "x", "y", AXES).value
        found = k_replicates(codes, means["x"].to_numpy(), means["y"].to_numpy(), lay_out(one))[0]
        assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)


def naive_sign_error(frame: pd.DataFrame, size: int) -> list[float]:
    losses = []
    groups = [(key, group) for key, group in frame.groupby(AXES)]
    for (one, first), (other, second) in itertools.combinations(groups, 2):
        if sum(a != b for a, b in zip(one, other)) != 1:
            continue
        weights, errors = [], []
        for r, s in itertools.product(range(len(first)), range(len(second))):
            d = abs(first["y"].iloc[r] - second["y"].iloc[s])
            certain = max(0.0, 1 - 2 * np.exp(-2 * size * (d / 2) ** 2)) ** 2
            weights.append(max(0.0, certain - 0.5))
            sx = np.sign(first["x"].iloc[r] - second["x"].iloc[s])
            sy = np.sign(first["y"].iloc[r] - second["y"].iloc[s])
            errors.append((1 - sx * sy) / 2)
        w = np.array(weights)
        if (w**2).sum() == 0:
            continue
        effective = w.sum() ** 2 / (w**2).sum()
        if effective >= 12 or np.isclose(effective, 12):
            losses.append(float((w * errors).sum() / w.sum()))
    return losses


@pytest.mark.parametrize("seed", range(6))
def test_sign_error_by_its_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    grid = [point for point in itertools.product(range(3), range(2), range(2)) if random.random() < 0.9]
    frame = pd.DataFrame([(*p, s) for p in grid for s in range(5 + p[0])], columns=[*AXES, "seed"])
    frame["x"] = random.integers(0, 5, len(frame)).astype(float)
    frame["y"] = random.integers(0, 4, len(frame)) / 50
    losses = naive_sign_error(frame, 5_000)
    found = robust_sign_error(frame, "x", "y", AXES, "seed", 5_000)
    assert found.environments == len(losses) > 0
    np.testing.assert_allclose(np.sort(found.losses), np.sort(losses), atol=1e-12)
    doubled = losses + losses
    assert found.mean == pytest.approx(np.mean(doubled), abs=1e-12)
    assert found.p90 == pytest.approx(np.percentile(doubled, 90), abs=1e-12)
    assert found.maximum == pytest.approx(max(doubled), abs=1e-12)


def test_sign_error_of_a_replicate_repeats_environments() -> None:
    random = np.random.default_rng(3)
    codes = np.array(list(itertools.product(range(3), range(3))))
    row_of = np.repeat(np.arange(9), 5)
    x, y = random.integers(0, 9, 45).astype(float), random.integers(0, 6, 45) / 50
    found = environments(x, y, row_of, codes, 5_000)
    draws = random.integers(0, 3, (5, 9))
    draws[0] = 1
    replicates = summary_replicates(found, draws)
    whole = summary(found, ["p", "q"])
    assert replicates["mean"][0] == pytest.approx(whole.mean)
    assert replicates["p90"][0] == pytest.approx(whole.p90)
    assert replicates["maximum"][0] == whole.maximum
    for row in range(1, 5):
        repeated = np.repeat(found.loss, 2 * draws[row, found.first] * draws[row, found.second])
        assert replicates["mean"][row] == pytest.approx(repeated.mean())
        assert replicates["p90"][row] == pytest.approx(np.percentile(repeated, 90))
        assert replicates["maximum"][row] == repeated.max()


@FEW
@given(st.integers(0, 2**32 - 1))
def test_a_perfectly_ordered_table_has_granulated_coefficient_one_in_every_replicate(seed: int) -> None:
    random = np.random.default_rng(seed)
    target = random.permutation(24).astype(float)
    cells = cells_of(random.integers(0, 6, 24))
    draws = random.multinomial(24, np.full(24, 1 / 24), size=64)
    found = cell_mean_replicates(np.exp(target), target, cells, lay_out(draws))
    assert (found[np.isfinite(found)] == 1.0).all()
    assert np.isfinite(found).any() or not cells.count


@FEW
@given(st.integers(0, 2**32 - 1))
def test_granulated_replicates_weigh_pairs_and_drop_cells_without_two_configurations(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = random.integers(0, 5, (2, 15)).astype(float)
    cell = random.integers(0, 5, 15)
    draws = random.integers(0, 3, (4, 15))
    draws[0] = 1
    found = cell_mean_replicates(x, y, cells_of(cell), lay_out(draws))
    assert found[0] == pytest.approx(cell_mean(x, y, cells_of(cell), "a"), abs=1e-14, nan_ok=True)
    for row in range(4):
        taus = [
            naive_tau(x[cell == c], y[cell == c], draws[row][cell == c])[0]
            for c in range(5)
            if (draws[row][cell == c] > 0).sum() > 1
        ]
        expected = np.mean(taus) if taus else np.nan
        assert found[row] == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_by_vectors_and_left_out_of_tables(bad: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        kendall_tau([1.0, bad, 3.0], [1.0, 2.0, 3.0])
    frame = pd.DataFrame({"a": [0, 1, 2], "x": [1.0, bad, 3.0], "y": [0.1, 0.9, 0.3]})
    found = granulated_kendall(frame, "x", "y", ["a"])
    assert (found.overall, found.rows_left_out) == (1.0, 1)


def test_degenerate_inputs() -> None:
    assert np.isnan(kendall_tau([1.0], [2.0], "a"))
    assert np.isnan(kendall_tau([1.0, 1.0], [1.0, 2.0], "b"))
    assert kendall_tau([1.0, 1.0], [1.0, 2.0], "a") == 0.0
    frame = pd.DataFrame(
        {"a": [0, 1, 2], "b": [0, 0, 0], "x": [1.0, 1.0, 1.0], "y": [0.1, 0.2, 0.3], "seed": 0}
    )
    assert conditional_mutual_information(frame, "x", "y", ["a", "b"]).value == 0.0
    assert conditional_mutual_information(frame, "x", "y", ["a", "b"], "pgdl").value == 0.0
    assert np.isnan(conditional_mutual_information(frame.assign(x=[1, 2, 3], y=0.0), "x", "y", ["a"]).value)
    single = granulated_kendall(frame.iloc[:1], "x", "y", ["a", "b"])
    assert np.isnan(single.overall)
    assert robust_sign_error(frame, "x", "y", ["a"]).environments == 0
    with pytest.raises(TableError, match="did you mean 'x'"):
        granulated_kendall(frame, "X", "y", ["a"])
    with pytest.raises(TableError, match="at least one axis"):
        granulated_kendall(frame, "x", "y", [])
    with pytest.raises(ValueError, match="variant"):
        kendall_tau([1, 2], [1, 2], "c")


def test_equal_seeds_give_equal_means() -> None:
    equal = pd.DataFrame({"a": [0, 0, 0, 1], "x": [0.1, 0.1, 0.1, 0.1], "y": [1.0, 1.0, 1.0, 2.0]})
    assert granulated_kendall(equal, "x", "y", ["a"]).overall == 0.0


@given(st.lists(st.integers(0, 4), min_size=2, max_size=30), st.integers(1, 7), st.sampled_from([-1.0, 1.0]))
@FEW
def test_where_all_pairs_agree_the_error_is_zero_to_the_last_digit(
    cells: list[int], modulus: int, sign: float
) -> None:
    order = np.arange(float(len(cells)))
    axes = [cells_of(np.array(cells)), cells_of(np.arange(len(cells)) % modulus)]
    used = [axis for axis in axes if axis.count]
    for chosen in [*([axis] for axis in used), used]:
        if chosen:
            assert cell_mean_error(order, sign * order, chosen) == 0.0


@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 10**4, 2**40, 2**62]))
def test_groups_of_equal_rows_are_numbered_in_sorted_order(seed: int, largest: int) -> None:
    """However large the codes: where one whole number cannot hold a row, rows are compared as they are."""
    random = np.random.default_rng(seed)
    codes = random.integers(-largest, largest, (20, 3))[random.integers(0, 20, 30)]
    expected = np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)
    np.testing.assert_array_equal(group_codes(codes), expected)
