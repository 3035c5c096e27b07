"""Lines with a bar below them on a terminal."""

import io
import sys

import pytest
from rich.console import Console

from gapbench.commands.progress import Networks, Plain, networks_of
from gapbench.commands.showing import Bar, showing
from gapbench.runs.countdown import Countdown, Showing
from gapbench.runs.records import TrainedCell


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def bar():
    console = Console(file=io.StringIO(), width=50, force_terminal=True, color_system=None)
    return Bar(console)


def shown(bar):
    return [(t.description, t.completed, t.total, str(t.fields["last"])) for t in bar.bars.tasks]


def test_each_kind_of_work_has_a_bar_and_only_the_last_a_time(bar):
    with bar:
        bar.progress("measurements", 1, 4, 90.0)
        bar.progress("measurements", 2, 6, 61.0)
        assert shown(bar) == [("measurements", 2, 6, "61 s left")]
        bar("[a] line with *marks*")
        bar.progress("scoring", 0, 100, None)
        bar.progress("scoring", 30, 100, 7.0)
        assert shown(bar) == [("measurements", 2, 6, ""), ("scoring", 30, 100, "7 s left")]
    assert shown(bar)[1] == ("scoring", 30, 100, "")
    text = bar.bars.console.file.getvalue()
    assert "[a] line with *marks*\n" in text
    assert "measurements" in text.splitlines()[-3]


@pytest.mark.parametrize(
    ("seconds", "left"), [(36.0, "36 s left"), (640.0, "11 min left"), (40_000.0, "11.1 h left")]
)
def test_the_time_left_is_read_whole_in_fifty_columns(bar, seconds, left):
    with bar:
        bar.progress("networks measured", 368, 368, None)
        bar.progress("scoring", 24, 100, seconds)
        bar.bars.refresh()
    assert left in bar.bars.console.file.getvalue()


def test_what_comes_before_all_counting_is_shown_until_something_is_counted(bar, capsys):
    first = Bar(bar.bars.console, "Loading the libraries.")
    with first:
        assert shown(first) == [("starting", 0, None, "Loading the libraries.")]
        assert "Loading the libraries." in bar.bars.console.file.getvalue()
        first("a line")
        first.progress("networks", 1, 4, None)
        assert shown(first) == [("networks", 1, 4, "")]
    with Bar(bar.bars.console, "Loading.") as other:
        pass
    assert shown(other) == []
    with showing(err=True, first="Loading."):
        assert capsys.readouterr() == ("", "Loading.\n")
    with showing():
        assert capsys.readouterr() == ("", "")


def test_a_series_of_measurements_is_shown_where_it_can_be(bar):
    assert isinstance(bar, Showing)
    with bar:
        countdown = Countdown(2, bar, what="values", typical=3.0)
        assert shown(bar) == [("values", 0, 2, "6 s left")]
        countdown.more()
        assert shown(bar)[0][:3] == ("values", 1, 2)


def test_networks_that_are_trained_beside_other_work_share_the_bar(bar):
    networks = networks_of(bar)
    assert isinstance(networks, Networks)
    assert isinstance(networks_of(print), Plain)
    record = TrainedCell(
        cell="c",
        task="t",
        family="f",
        width=1.0,
        seed=0,
        description="{}",
        status="failed",
        reason="no",
    )
    with bar:
        networks.begin(9, 3, 0, 0)
        networks.left(50.0)
        networks.trained(record)
    assert shown(bar) == [("networks", 4, 9, "")]
    assert "failed: no" in bar.bars.console.file.getvalue()


@pytest.mark.parametrize("err", [False, True])
def test_a_bar_is_for_terminals_alone(err, monkeypatch):
    with showing(err) as say:
        assert not isinstance(say, Showing)
    monkeypatch.setattr(sys, "stderr" if err else "stdout", Terminal())
    with showing(err) as say:
        assert isinstance(say, Bar)
        assert say.bars.console.stderr == err
