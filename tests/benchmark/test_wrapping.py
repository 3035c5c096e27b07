"""On a terminal long lines break between words; elsewhere they stay whole."""

import io
import sys

from hypothesis import given
from hypothesis import strategies as st

from gapbench.checking.report import FAIL, PASS, Point, Report
from gapbench.commands.wrapping import echo, terminal_width
from gapbench_base.wrapping import broken

LONG = "tau with the gap 0.583 [-0.069, 1.000] over 24 of 24 networks: claimed, not verified."


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_line_breaks_between_words_only_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    assert terminal_width() is None
    echo(LONG)
    assert capsys.readouterr().out == f"{LONG}\n"
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert terminal_width() == 60
    assert terminal_width(err=True) is None
    echo(f"{LONG}\n  {LONG}\nshort")
    assert terminal.getvalue().splitlines() == [
        "tau with the gap 0.583 [-0.069, 1.000] over 24 of 24",
        "  networks: claimed, not verified.",
        "  tau with the gap 0.583 [-0.069, 1.000] over 24 of 24",
        "    networks: claimed, not verified.",
        "short",
    ]


@given(st.lists(st.text("abc-/", min_size=1, max_size=30), min_size=1, max_size=12), st.integers(8, 80))
def test_no_word_is_lost_or_broken(words, width):
    lines = broken(" ".join(words), width, 0).split("\n")
    assert " ".join(lines).split() == " ".join(words).split()
    assert all(len(line) <= width or " " not in line for line in lines)


def test_what_a_check_found_stays_in_its_column():
    report = Report(
        "mine", (Point("loads", PASS, LONG), Point("values", FAIL, "no\nnone", "return a number")), True
    )
    assert report.text(60).splitlines() == [
        "  ok  loads   tau with the gap 0.583 [-0.069, 1.000] over 24",
        "              of 24 networks: claimed, not verified.",
        "FAIL  values  no",
        "              none",
        "              -> return a number",
    ]
    assert report.text().splitlines()[0] == f"  ok  loads   {LONG}"
    assert report.text(20) == report.text()  # too narrow for a column of its own
    assert broken("short", 60) == "short"
