"""Times in words."""

import math

import pytest

from gapbench_base.durations import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (59.6, "60 s"),
        (299.0, "299 s"),
        (300.0, "5 min"),
        (754.0, "13 min"),
        (3599.0, "60 min"),
        (5500.0, "1.5 h"),
        (math.nan, "unknown time"),
    ],
)
def test_times_are_short_and_keep_what_matters(seconds, text):
    assert duration(seconds) == text
