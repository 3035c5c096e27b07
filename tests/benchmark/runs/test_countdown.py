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
    for _ in range(total):
        clock[0] += each
        countdown.more()
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


class Shown:
    """Keeps what it is shown."""

    def __init__(self):
        self.lines, self.shown = [], []

    def __call__(self, text):
        self.lines.append(text)

    def progress(self, what, done, total, left):
        self.shown.append((what, done, total, None if left is None else round(left, 6)))


def test_what_shows_progress_is_shown_every_one_from_the_first_moment_on(monkeypatch):
    """The start is waited for once; what one typically takes gives way to what they take."""
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    shown = Shown()
    countdown = Countdown(4, shown, afterwards=lambda: 10.0, what="values", typical=1.0, before=6.0)
    countdown.total = 5
    for seconds in (7.0, 4.0, 9.0, 4.0, 4.0):
        clock[0] += seconds
        countdown.more()
    assert shown.lines == []
    assert shown.shown == [
        ("values", 0, 4, 6 + 4 + 10),
        ("values", 1, 5, 4 + 10),
        ("values", 2, 5, round(3 * (8 + 4) / 9 + 10, 6)),
        ("values", 3, 5, round(2 * (8 + 4) / 9 + 10, 6)),  # without the longest pause
        ("values", 4, 5, (8 + 8) / 10 + 10),
        ("values", 5, 5, 10),
    ]


def test_the_start_is_forecast_anew_once_something_is_known_of_it(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    shown = Shown()
    countdown = Countdown(2, shown, what="values", before=4.0, expected=lambda: 8.0)
    clock[0] = 6.0
    assert countdown.left(0, 6.0) == 8.0
    countdown.soon(3.0)
    assert countdown.left(0, 7.0) == 2.0 + 8.0
    assert shown.shown == [("values", 0, 2, 4 + 8), ("values", 0, 2, 3 + 8)]


def test_nothing_is_guessed_where_nothing_is_known(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    shown = Shown()
    countdown = Countdown(3, shown)
    assert countdown.left(0, 5.0) is None
    assert shown.shown == []
    for _ in range(3):
        clock[0] += 2.0
        countdown.more()
    assert [left for *_, left in shown.shown] == [4.0, 2.0, 0.0]
