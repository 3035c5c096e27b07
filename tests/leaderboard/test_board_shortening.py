"""Names in few columns: within them, and never two different ones as the same text."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gapbench_leaderboard.board import ranking_text
from gapbench_leaderboard.board.document import document
from gapbench_leaderboard.board.mirror import entry_records
from gapbench_leaderboard.board.shortening import ELLIPSIS, middle_cut, shortened
from leaderboard.board_cases import entries, scored

LONG = "sharpness_average_quotient[radius=2.0]"
LETTERS = "ab[]=1" + ELLIPSIS + "漢e\u0301"
NAMES = st.lists(st.text(LETTERS, min_size=1, max_size=14), max_size=8)


def test_the_middle_is_left_out_and_both_ends_stay() -> None:
    assert middle_cut(LONG, 34) == "sharpness_ave…quotient[radius=2.0]"
    assert middle_cut(LONG, len(LONG)) == LONG


@given(names=NAMES, width=st.integers(2, 12))
def test_different_names_stay_different_within_the_width(names: list[str], width: int) -> None:
    found = shortened(names, width)
    assert list(found) == list(dict.fromkeys(names))
    assert len(set(found.values())) == len(found)
    for name, lines in found.items():
        assert all(cell_len(line) <= width for line in lines)
        if cell_len(name) <= width:
            assert lines == (name,)
        elif len(lines) > 1:
            assert "".join(lines) == name


def test_names_that_differ_in_the_middle_alone_are_given_whole() -> None:
    first, second = ("proxy_" + "x" * 40 + letter + "y" * 30 + "[radius=1]" for letter in "ab")
    found = shortened([first, second, "short"], 30)
    assert found["short"] == ("short",)
    assert found[first][-1] == found[second][-1] == "[radius=1]"
    assert "".join(found[first]) == first


def test_another_place_of_the_cut_is_tried_before_more_lines() -> None:
    names = [f"{letter}{'x' * 40}{letter}{'y' * 12}" for letter in "ab"]
    assert all(len(lines) == 1 for lines in shortened(names, 20).values())
    names = ["z" * 9 + letter + "x" * 40 for letter in "ab"]  # beyond two fifths of 20 columns
    assert all(len(lines) == 1 for lines in shortened(names, 20).values())


def test_rows_of_long_names_stay_apart_on_the_terminal_in_remote_names_and_figures(tmp_path: Path) -> None:
    labels = [f"sharpness_average_quotient[radius={radius}]" for radius in (0.5, 2.0)]
    labels += [f"a_proxy_{'x' * 70}{letter}{'y' * 70}[radius=2.0]" for letter in "pq"]
    networks, values, scores = scored(("one",), 8, 2, ("plain", "constant", "partial", "noise"))
    names = dict(zip(("plain", "constant", "partial", "noise"), labels))
    scores = scores.assign(proxy=[names.get(name, name) for name in scores["proxy"]])
    text = ranking_text(scores)
    assert all(cell_len(line) <= 100 for line in text.splitlines())
    table = text.partition("marks\n")[2].partition("baselines")[0]
    column = "".join(line[9:41].strip() for line in table.splitlines())
    for shown in ("sharpness_av…uotient[radius=0.5]", "sharpness_av…uotient[radius=2.0]", *labels[2:]):
        assert shown in column  # names too alike for any cut are whole, over several lines
    values = values.assign(proxy=[names.get(name, name) for name in values["proxy"]])
    found = document(networks, values, scores, ["width"], {"name": "made"}, entries(labels), [])
    remote = [record.name for record in entry_records(found, scores)]
    assert len(set(remote)) == len(remote)
    assert all(len(name) <= 128 for name in remote)
