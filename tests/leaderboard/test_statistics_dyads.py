"""Dyads of parts that are joined: the same standard error, to the last digit, as from all their pairs."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.statistics.dyads import Dyads


def test_parts_that_share_no_dyad_are_joined_with_the_same_digits():
    random = np.random.default_rng(0)
    configurations = 40
    parts, first, second = [], [], []
    for own in (np.arange(20, 40), np.arange(0, 20)):  # the part with larger numbers stands first
        pairs = random.choice(own, size=(500, 2))
        first.append(pairs[:, 0])
        second.append(pairs[:, 1])
        parts.append(Dyads.of(pairs[:, 0], pairs[:, 1], configurations))
    influence = random.standard_normal(1000)
    whole = Dyads.of(np.concatenate(first), np.concatenate(second), configurations)
    dyads, order = Dyads.joined(parts, configurations)
    assert dyads.first.tolist() == whole.first.tolist()
    assert dyads.second.tolist() == whole.second.tolist()
    sums = [
        np.bincount(own.dyad, part, len(own.first))
        for own, part in zip(parts, (influence[:500], influence[500:]))
    ]
    found = dyads.error_of_sums(np.concatenate(sums)[order])
    assert found == whole.standard_error(influence)
    assert found > 0


def test_parts_that_share_a_dyad_are_not_joined():
    one = Dyads.of(np.array([0, 1]), np.array([1, 2]), 3)
    other = Dyads.of(np.array([2]), np.array([1]), 3)
    assert Dyads.joined([one, other], 3) is None
