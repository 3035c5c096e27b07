"""Counts of pairs by cells without walking all pairs: the same whole numbers, so K keeps its last digit."""

from __future__ import annotations

import numpy as np
import pytest

from gapbench_leaderboard.statistics import mutual_information_replicates as replicates
from gapbench_leaderboard.statistics.mutual_information_replicates import (
    TargetPairs,
    _count,
    k_replicates,
)
from gapbench_leaderboard.statistics.pairs import LANES, lay_out
from gapbench_leaderboard.statistics.pairs_of_cells import FANOUT, LEAF, quicker, ranked_pairs


@pytest.mark.parametrize("members", [1, 2, LEAF, LEAF + 1, LEAF * FANOUT, LEAF * FANOUT + 1, 1500])
@pytest.mark.parametrize("decimals", [0, 1, 9])
def test_counts_are_those_of_the_walk_over_all_pairs(members, decimals):
    """Ties in both vectors, in one alone, and none."""
    random = np.random.default_rng([members, decimals])
    measure = np.round(random.standard_normal(members), decimals)
    target = np.round(measure + random.standard_normal(members), min(2 * decimals, 9))
    cell = random.integers(5, size=members)
    multiplicities = lay_out(random.multinomial(members, np.full(members, 1 / members), size=LANES))
    [weight] = multiplicities.blocks
    ranked = ranked_pairs(measure, target)
    expected = _count(cell, 5, measure, target, weight)
    np.testing.assert_array_equal(ranked.counts(cell, 5, weight), expected)
    few = ranked.counts(cell, 5, weight[:, :3])
    np.testing.assert_array_equal(few[..., :3], expected[..., :3])
    assert not few[..., 3:].any()


def test_k_has_the_same_digits_either_way(monkeypatch):
    random = np.random.default_rng(0)
    codes = random.integers(4, size=(900, 3))
    target = np.round(codes @ [0.3, 0.2, 0.1] + random.standard_normal(900), 1)
    measure = np.round(target + random.standard_normal(900), 1)
    draws = lay_out(random.multinomial(900, np.full(900, 1 / 900), size=LANES + 3))
    assert quicker(900, 16)
    found = k_replicates(codes, measure, target, draws)
    monkeypatch.setattr(replicates, "quicker", lambda members, groups: False)
    assert found.tolist() == k_replicates(codes, measure, target, draws).tolist()
    assert len(set(found.tolist())) == LANES + 3


@pytest.mark.parametrize("memory", [0, replicates.MOST_KEPT])
def test_counts_of_the_target_serve_all_measures(monkeypatch, memory):
    monkeypatch.setattr(replicates, "MOST_KEPT", memory)
    random = np.random.default_rng(1)
    codes = random.integers(4, size=(900, 3))
    target = np.round(codes @ [0.3, 0.2, 0.1] + random.standard_normal(900), 1)
    draws = lay_out(random.multinomial(900, np.full(900, 1 / 900), size=LANES + 3))
    shared = TargetPairs()
    for decimals in (0, 1, 9):
        measure = np.round(target + random.standard_normal(900), decimals)
        alone = k_replicates(codes, measure, target, draws)
        assert k_replicates(codes, measure, target, draws, shared).tolist() == alone.tolist()
    assert len(shared.found) == (6 if memory else 0)  # of three pairs of axes in two blocks


def test_few_members_or_many_cells_are_walked():
    assert not quicker(60, 4)
    assert not quicker(2000, 512)
    assert quicker(2000, 25)
