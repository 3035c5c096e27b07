"""Simultaneous confidence sets for ranks: closed forms, a plain step-down, invariants, error rate."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gapbench_leaderboard.statistics.intervals import Sampling
from gapbench_leaderboard.statistics.rank_sets import RankSets, rank_sets, significant_signs, stepped_down
from gapbench_leaderboard.statistics.resampling import holm
from gapbench_leaderboard.statistics.signs import Signs, exact_p

DRAWS = 400
MANY = Signs(1000, 50, 1000)


def arrays(estimates: np.ndarray, noise: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray, Sampling]:
    """Differences of members that are `estimates` plus means of `noise`, (members, units): draws and deletions."""
    random = np.random.default_rng(5)
    units = noise.shape[1]
    weight = random.multinomial(units, np.full(units, 1 / units), size=DRAWS) / units
    deleted = (1 - np.eye(units)) / (units - 1)
    every = np.concatenate([np.full((1, units), 1 / units), weight, deleted])
    values = estimates[:, None] + noise @ every.T
    pairs = list(itertools.combinations(range(len(estimates)), 2))
    differences = np.stack([values[i] - values[j] for i, j in pairs])
    return pairs, differences, Sampling.of(DRAWS, [np.arange(units)])


def sets_of(estimates: list[float], spread: float = 1.0, units: int = 100, seed: int = 0) -> RankSets:
    noise = spread * np.random.default_rng(seed).standard_normal((len(estimates), units))
    noise -= noise.mean(axis=1, keepdims=True)
    pairs, differences, sampling = arrays(np.array(estimates), noise)
    return rank_sets(len(estimates), pairs, differences, sampling, [MANY] * len(pairs))


def test_far_apart_every_rank_is_certain() -> None:
    found = sets_of([1.0, 3.0, 2.0, -5.0], spread=0.01)
    for ranks in (found.rank, found.low, found.high):
        assert ranks.tolist() == [3, 1, 2, 4]


def test_close_together_every_rank_is_possible() -> None:
    found = sets_of([0.002, 0.001, 0.0], spread=1.0)
    assert found.rank.tolist() == [1, 2, 3]
    assert found.low.tolist() == [1, 1, 1]
    assert found.high.tolist() == [3, 3, 3]


def test_two_groups() -> None:
    """Two good ones and three bad ones: 1 to 2, and 3 to 5."""
    found = sets_of([5.0, 5.001, 0.0, 0.001, 0.002], spread=0.5)
    assert found.low.tolist() == [1, 1, 3, 3, 3]
    assert found.high.tolist() == [2, 2, 5, 5, 5]
    assert found.rank.tolist() == [2, 1, 5, 4, 3]


def test_equal_members_share_a_rank_and_one_alone_is_first() -> None:
    found = sets_of([0.0, 0.0], spread=0.0)
    assert (found.rank.tolist(), found.low.tolist(), found.high.tolist()) == ([1, 1], [1, 1], [2, 2])
    alone = rank_sets(1, [], np.zeros((0, 1)), Sampling.of(0, []), [])
    assert (alone.rank.tolist(), alone.low.tolist(), alone.high.tolist()) == ([1], [1], [1])


def plain_step_down(ratio: np.ndarray, drawn: np.ndarray, freedom: int, alpha: float) -> set[tuple[int, int]]:
    """Hypothesis by hypothesis: (value, sign) of those rejected."""
    left = {(k, sign) for k in range(len(ratio)) for sign in (1, -1)}
    while left:
        largest = sorted(max(sign * drawn[k, b] for k, sign in left) for b in range(drawn.shape[1]))
        quantile = largest[int(np.ceil((1 - alpha) * (drawn.shape[1] + 1))) - 1]
        critical = stats.t.isf(stats.norm.sf(quantile), freedom)
        rejected = {(k, sign) for k, sign in left if sign * ratio[k] > critical}
        if not rejected:
            break
        left -= rejected
    return {(k, sign) for k in range(len(ratio)) for sign in (1, -1)} - left


@pytest.mark.parametrize("seed", range(20))
def test_step_down_is_that_of_a_plain_rendering(seed: int) -> None:
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 12))
    drawn = random.standard_normal((size, 199)) @ np.diag(random.choice([1.0, 1.2], 199))
    ratio = 4 * random.standard_normal(size)
    found = stepped_down(ratio, drawn, 30, 0.05)
    assert {(int(k), int(found[k])) for k in np.flatnonzero(found)} == plain_step_down(ratio, drawn, 30, 0.05)


def test_stepping_down_finds_more_than_one_step() -> None:
    """Of one wild difference and one tame: once the wild one is rejected the tame one has its own quantile."""
    random = np.random.default_rng(1)
    drawn = np.stack([4 * random.standard_normal(999), random.standard_normal(999)])
    first = np.sort(np.abs(drawn).max(axis=0))[949]
    own, freedom = stats.norm.isf(0.05 / 2), 10**9
    ratio = np.array([1.3 * first, (own + first) / 2])
    assert stepped_down(ratio, drawn, freedom, 0.05).tolist() == [
        1,
        0,
    ]  # the reverse of the wild one is left, and wild
    drawn[0] = np.abs(drawn[0])  # where it is not, nothing is left but the tame one
    assert stepped_down(ratio, drawn, freedom, 0.05).tolist() == [1, 1]


def test_few_signs_have_exact_tests_with_holms_correction() -> None:
    values = np.array([0.9, 0.2, -1.8, np.nan])
    differences = np.repeat(values[:, None], 1 + DRAWS + 30, axis=1)
    few = Signs(20, 10, 20)
    found = significant_signs(differences, Sampling.of(DRAWS, [np.arange(30)]), [few] * 4)
    adjusted = holm([exact_p(v, 10, 2.0) for v in values[:3]])
    expected = [int(np.sign(v)) if p < 0.05 else 0 for v, p in zip(values, adjusted)] + [0]
    assert found.tolist() == expected
    assert expected == [0, 0, -1, 0]


def test_too_few_draws_for_a_quantile_fall_back_on_bonferroni() -> None:
    ratio, drawn = np.array([2.5, 1.9]), np.zeros((2, 5))
    assert stepped_down(ratio, drawn, 1000, 0.05).tolist() == [
        int(r > stats.t.isf(0.0125, 1000)) for r in ratio
    ]


@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=7),
    st.floats(0.01, 3),
    st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test_ranks_lie_in_their_sets_and_follow_their_members(
    estimates: list[float], spread: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    noise = spread * random.standard_normal((len(estimates), 40))
    pairs, differences, sampling = arrays(np.array(estimates), noise)
    signs = [MANY] * len(pairs)
    found = rank_sets(len(estimates), pairs, differences, sampling, signs)
    assert (found.low >= 1).all()
    assert (found.low <= found.rank).all()
    assert (found.rank <= found.high).all()
    assert (found.high <= len(estimates)).all()
    assert (found.low == 1).any()
    turned = [(j, i) for i, j in pairs]
    again = rank_sets(len(estimates), turned, -differences, sampling, signs)
    for name in ("rank", "low", "high"):
        assert getattr(again, name).tolist() == getattr(found, name).tolist()


@pytest.mark.parametrize("members", [2, 6])
def test_of_equal_members_none_is_called_better_in_about_nineteen_of_twenty(members: int) -> None:
    """Sample means of 60 units: a false call in at most 5 % of 400 samples, but for four standard errors."""
    wrong = 0
    for seed in range(400):
        noise = np.random.default_rng([seed, members]).standard_normal((members, 60))
        pairs, differences, sampling = arrays(np.zeros(members), noise)
        wrong += bool(significant_signs(differences, sampling, [MANY] * len(pairs)).any())
    assert 0.005 < wrong / 400 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)
