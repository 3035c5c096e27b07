"""The registry of estimators: complete, and all that a new column needs is one file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from gapbench_leaderboard.board import doubts, standing
from gapbench_leaderboard.board.columns import heat_maps, page_columns
from gapbench_leaderboard.board.marks import meanings, page_marks
from gapbench_leaderboard.scoring import registry
from gapbench_leaderboard.scoring.engine import rows_made
from gapbench_leaderboard.scoring.registry import (
    LETTERS_TAKEN,
    NAMES_TAKEN,
    Estimator,
    Mark,
    RowMaker,
    estimators,
    for_each_proxy,
)
from leaderboard.board_cases import STATES, scored
from leaderboard.chromium import CHROMIUM, browser, needs_browser

TOY = '''
"""Twice the headline."""

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import BOARDS, SCORE, SUBMIT, Estimator, Mark, for_each_proxy
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope

MOST = 0.5

TWICE = Estimator(
    "twice",
    "Twice the headline, to show how little a column needs.",
    heading="doubled",
    shown_in=(*BOARDS, SCORE, SUBMIT),
    note="twice the headline",
    mark=Mark("D", "doubled", "twice tau beyond 0.5", "Twice the headline is beyond 0.5.", at_least=MOST),
)


@for_each_proxy(TWICE)
def twice_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """Twice the headline over all tasks."""
    value = 2 * data.studies.headline(proxy, Scope())[0]
    rows.add(proxy, TWICE.name, float(value), data.studies.models(proxy, Scope()), Scope())
'''
SHOW = """
import json, sys
from pathlib import Path
import gapbench_leaderboard.scoring.estimators as room
room.__path__.append(sys.argv[1])
from gapbench_leaderboard.board import ranking_text
from gapbench_leaderboard.board.mirror import entry_records
from leaderboard.board_cases import STATES, board
folder = Path(sys.argv[2])
given = board(folder, ("one",), 16, 2, STATES)
print(ranking_text(given["scores"]))
document = json.loads((folder / "data.json").read_text())
records = entry_records(document, given["scores"])
(folder / "mirror.json").write_text(json.dumps([record.as_dict() for record in records]))
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A board made with one more file in the room of estimators, and what the terminal shows."""
    room, folder = tmp_path_factory.mktemp("room"), tmp_path_factory.mktemp("board")
    (room / "twice.py").write_text(TOY)
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", SHOW, str(room), str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])},
    )
    assert done.returncode == 0, done.stderr[-800:]
    return folder, done.stdout


def test_one_file_is_a_column_on_terminal_markdown_and_mirror(extended: tuple[Path, str]) -> None:
    folder, terminal = extended
    assert "doubled" in terminal.splitlines()[2]
    assert "doubled: twice the headline" in terminal
    assert "D: twice tau beyond 0.5" in terminal
    table = terminal.partition("rank  ")[2].partition("\n\n")[0]
    assert all(len(line) <= 100 for line in table.splitlines())
    markdown = (folder / "board.md").read_text()
    assert re.search(r"\| rank \| proxy .*\| doubled \|.* networks \|", markdown)
    assert "- D: twice tau beyond 0.5." in markdown
    records = {
        record["name"]: record["summary"] for record in json.loads((folder / "mirror.json").read_text())
    }
    plain = records["plain"]
    assert plain["gap/all/twice"] == 2 * plain["gap/all/tau"]


@needs_browser
def test_one_file_is_a_column_and_a_mark_on_the_page(extended: tuple[Path, str]) -> None:
    assert CHROMIUM is not None
    with browser(CHROMIUM) as page:
        page.open((extended[0] / "index.html").as_uri())
        row = (
            "[...document.querySelectorAll('#ranking tbody tr')].find((row) => row.dataset.proxy === 'plain')"
        )
        heads = "[...document.querySelectorAll('#ranking th button')]"
        at = f"{heads}.findIndex((head) => head.dataset.sort === 'twice')"
        shown = page.value(f"[{row}.cells[3].dataset.value, {row}.cells[{at}].dataset.value].map(Number)")
        assert shown[1] == 2 * shown[0]
        assert "doubled" in page.value(f"{row}.querySelector('.marks').textContent")
        assert "Twice the headline, to show" in page.value("document.getElementById('glossary').textContent")
        assert page.complaints == []


def test_every_row_bears_a_registered_estimator() -> None:
    scores = scored(("one", "two"), 16, 2, tuple(STATES))[2]
    known = {estimator.name: estimator for estimator in estimators()}
    made = set()
    for name, rows in scores.groupby("estimator"):
        base, colon, _ = str(name).removeprefix("pairs:").partition(":")
        assert base in known, name
        assert known[base].each or not colon, name
        assert known[base].counted or not str(name).startswith("pairs:"), name
        if rows["low"].notna().any():
            assert known[base].interval, name
        made.add(base)
    never = {name for name in set(known) - made if not name.startswith("sign_error")}
    # need second measurements and several problems, and sign errors more seeds
    assert never == {"repeatability", "repeatable", "tau_across_problems"}


@pytest.mark.parametrize(
    "clash",
    [
        Estimator("tau", "again"),
        Estimator("other", "again", column="within"),
        Estimator("other", "again", mark=Mark("S", "other", "", "")),
        Estimator("other", "again", mark=Mark("X", "Simpson", "", "")),
    ],
)
def test_two_estimators_or_marks_of_one_name_are_refused(
    monkeypatch: pytest.MonkeyPatch, clash: Estimator
) -> None:
    registry.row_makers()
    monkeypatch.setattr(registry, "_makers", [*registry._makers])
    for_each_proxy(clash)(lambda rows, data, proxy: None)
    with pytest.raises(ValueError, match="are called"):
        registry._known.__wrapped__()


def test_a_mark_applies_from_its_threshold_on_and_never_to_what_is_undefined() -> None:
    mark = Mark("x", "x", "", "", at_least=0.8, of_baselines=False)
    assert [mark.applies(value) for value in (0.8, -0.8, 0.79, float("nan"))] == [True, True, False, False]
    assert not mark.applies(1.0, baseline=True)
    low = replace(mark, at_least=None, below=0.9, of_baselines=True)
    assert [low.applies(value, True) for value in (0.89, 0.9, float("nan"))] == [True, False, False]


def test_the_page_spells_out_no_estimator_that_the_registry_can_tell_it() -> None:
    assets = files("gapbench_leaderboard.board") / "assets"
    text = "".join(path.read_text() for path in assets.iterdir() if path.name.endswith(".js"))
    spelled = {known.name for known in estimators() if re.search(rf"[\"'`]{known.name}[\"'`:]", text)}
    assert spelled <= {"tau", "rank", "coverage", "seconds", "left_out"}
    assert not re.findall(r"\b0\.[89]\b", text)


def test_columns_marks_and_maps_keep_their_order() -> None:
    def in_order(known: list[str], found: list[str]) -> bool:
        return [name for name in found if name in known] == known

    every = {estimator.name for estimator in estimators()}
    columns = page_columns(every, [{"audit": [1], "invariances": ["x"]}])
    keys = [
        "rank",
        "proxy",
        "bar",
        "tau",
        "within",
        "pooled",
        "partial",
        "withWidth",
        "repeatability",
        "models",
    ]
    assert in_order([*keys, "seconds", "invariances", "audit"], [column["key"] for column in columns])
    assert in_order(["axis", "fixed", "task", "family"], [heat["key"] for heat in heat_maps()])
    marks = ["Simpson", "width", "unreliable", "low coverage", "few values", "partly covered", "verified"]
    assert in_order(marks, [mark["name"] for mark in page_marks()])
    assert in_order(list("Suwcdpna"), list(meanings()))
    assert all(column["about"] for column in columns)
    few = [column["key"] for column in page_columns({"tau_within"}, [])]
    assert few == ["rank", "proxy", "bar", "tau", "within", "models"]  # nothing that the scores lack


def maker(make, plugin=True):
    return RowMaker((Estimator("mine", "m"),), 1000, "a_plugin", of_all=make, plugin=plugin)


def test_a_plugins_estimator_that_fails_is_left_out_with_a_warning():
    def broken(rows):
        rows.rows.append(("", "", "gap", "p", "mine", 0.5, 0.0, 1.0, 3))
        raise KeyError("x")

    with pytest.warns(UserWarning, match="mine of the plug-in a_plugin is left out: KeyError: 'x'"):
        assert rows_made(maker(None), "gap", broken).rows == []
    with pytest.raises(KeyError):
        rows_made(maker(None, plugin=False), "gap", broken)


@pytest.mark.parametrize(
    ("name", "kept"), [("mine", True), ("mine:lr", True), ("pairs:mine", True), ("tau", False)]
)
def test_a_plugin_adds_no_rows_of_other_estimators(name, kept):
    row = ("", "", "gap", "p", name, 0.5, 0.0, 1.0, 3)
    if kept:
        assert rows_made(maker(None), "gap", lambda rows: rows.rows.append(row)).rows == [row]
        return
    with pytest.warns(UserWarning, match="its rows bear 'tau', which it does not declare"):
        assert rows_made(maker(None), "gap", lambda rows: rows.rows.append(row)).rows == []


def test_marks_of_values_and_entries_are_taken_for_plugins_too():
    assert set(LETTERS_TAKEN) == set(doubts.MEANINGS)
    assert set(NAMES_TAKEN) == {*doubts.NAMES.values(), *standing.ABOUT}
