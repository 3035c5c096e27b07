"""The time left of a series of measurements."""

import pytest

from gapbench.runs import countdown as module
from gapbench.runs.countdown import Countdown


@pytest.mark.parametrize(
    ("total", "each", "first"),
    [
        (100, 1.0, "10/100 networks measured, about 90 s left"),
        (1000, 2.0, "5/1000 networks measured, about 33 min left"),
    ],
)
def test_it_says_how_far_it_is_every_ten_seconds(monkeypatch, total, each, first):
    clock = [5.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    said = []
    countdown = Countdown(total, said.append)
    for count in range(1, total + 1):
        clock[0] += each
        countdown.done(count)
    assert said[0] == first
    assert len(said) == int(total * each / 10) - 1  # the last is said by what comes after it


def test_threads_count_together(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    said = []
    countdown = Countdown(4, said.append, afterwards=lambda: 3.0, what="measurements")
    for _ in range(4):
        clock[0] += 11.0
        countdown.more()
    assert said == [
        "1/4 measurements, about 36 s left",
        "2/4 measurements, about 25 s left",
        "3/4 measurements, about 14 s left",
    ]
