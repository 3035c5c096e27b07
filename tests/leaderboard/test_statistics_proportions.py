"""Wilson's interval against its equation."""

from __future__ import annotations

import math

import pytest

from gapbench_leaderboard.statistics.proportions import wilson


@pytest.mark.parametrize(("successes", "number"), [(0, 5), (2, 8), (47, 48), (7, 7), (50, 100)])
def test_the_ends_are_the_proportions_that_the_score_test_just_accepts(successes: int, number: int) -> None:
    low, high = wilson(successes, number)
    share = successes / number
    assert 0 <= low <= share <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            assert abs(share - end) / math.sqrt(end * (1 - end) / number) == pytest.approx(1.959964, abs=1e-5)


def test_a_published_interval_and_no_trial_at_all() -> None:
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, table I
    assert wilson(0, 0) == (0.0, 1.0)
