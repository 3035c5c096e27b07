"""Times in words."""

import math

import pytest

from gapbench_base.durations import duration, seconds_of
from gapbench_base.errors import GapbenchError


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


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("30 min", 1800),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("90s", 90),
        ("1d", 86400),
    ],
)
def test_times_as_people_write_them(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "half an hour", "-3m", "3 weeks", "1e3s", "2h later"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(GapbenchError, match=f"{text!r} is no time: give 30m"):
        seconds_of(text)
