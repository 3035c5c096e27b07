"""Values, names and files at the edge of what a board can hold, through every way out of it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gapbench_leaderboard.board import build, ranking_text
from gapbench_leaderboard.board.csv_text import csv_text
from gapbench_leaderboard.board.document import document, proxy_entries
from gapbench_leaderboard.board.document_file import read_document
from gapbench_leaderboard.board.markdown import markdown_text
from gapbench_leaderboard.board.mirror import entry_records
from gapbench_leaderboard.board.numbers import exact, rounded
from gapbench_leaderboard.board.publishing import publish
from gapbench_leaderboard.board.ranked import ranked
from gapbench_leaderboard.board.scores_file import read_scores
from gapbench_leaderboard.scores import BASELINES, COLUMNS, TableError
from leaderboard.board_cases import STATES, board, entries, scored
from leaderboard.chromium import CHROMIUM, ROWS, Page, browser, needs_browser

HUGE = 1.7976931348623157e308
SERIES = {
    "rounding noise": (0.3, 0.1 + 0.2),
    "rounding noise at one": (1.0, 1 + 2**-52),
    "of many decades": (1.0, 1e300),
    "of all decades": (5e-324, HUGE),
    "of both signs": (-HUGE, HUGE),
    "least": (5e-324, 1e-323),
    "largest": (HUGE, HUGE),
    "zeros": (0.0, -0.0),
}
"""Two values each, which a proxy has in turn."""
CASE = (("one",), 8, 2, ("plain", "constant", "train_loss"))


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    assert CHROMIUM is not None
    with browser(CHROMIUM) as opened:
        opened.resize(1280)
        yield opened


def with_series() -> dict[str, Any]:
    """Arguments of `build` with a proxy for each of the series, which the scores do not know."""
    networks, values, scores = scored(*CASE)
    plain = values[values["proxy"] == "plain"]
    parts = [values]
    for name, pair in SERIES.items():
        parts.append(plain.assign(proxy=name, value=[pair[k % 2] for k in range(len(plain))]))
    names = [*CASE[3], *SERIES]
    return {
        "population": networks,
        "measurements": pd.concat(parts, ignore_index=True),
        "scores": scores,
        "axes": ("width", "learning_rate"),
        "suite": {"name": "made", "version": 1},
        "entries": entries(names),
    }


@needs_browser
def test_values_of_any_size_are_drawn_in_bounded_time(page: Page, tmp_path: Path) -> None:
    given = with_series()
    build(tmp_path, **given)
    page.open((tmp_path / "index.html").as_uri())
    for name, pair in SERIES.items():
        for axis in ("linear", "log", "auto"):
            page.choose("plot-log", axis)
            page.choose("plot-proxy", name)
            points = page.value(
                "[...document.querySelectorAll('#scatter .point')].map((p) => [p.dataset.x, "
                "...p.getAttribute('transform').match(/-?[\\d.]+/g).map(Number)])"
            )
            assert {text for text, _, _ in points} <= {exact(value) for value in pair} | {
                str(json.loads(exact(value))).replace("e-0", "e-") for value in pair
            } | {"0", "1"}
            assert all(0 < x < 1000 and 0 < y < 1000 for _, x, y in points), (name, axis)
            ticks = page.value("document.querySelectorAll('#scatter .grid').length")
            assert 0 < ticks < 60
    costs = given["scores"]["estimator"] == "seconds"
    given["scores"] = given["scores"].assign(
        value=given["scores"]["value"].where(~costs, [(1e-300, 1e300, 5e-324)[k % 3] for k in costs.index])
    )
    build(tmp_path, **given)
    page.open((tmp_path / "index.html").as_uri())
    assert page.value("document.querySelectorAll('#cost .entry').length") > 1
    assert page.complaints == []


@needs_browser
def test_what_no_control_can_show_does_not_filter(page: Page, tmp_path: Path) -> None:
    board(tmp_path, *CASE[:3], list(CASE[3]))
    url = (tmp_path / "index.html").as_uri()
    page.open(url)
    every = page.value(f"{ROWS}.map((row) => row.dataset.proxy)")
    for wrong in ("cost=abc", "cost=", "cost=Infinity", "cost=0x10", "verified=1", "sort=toString", "%", "#"):
        page.open("about:blank")
        page.open(f"{url}#{wrong}")
        assert page.value(f"{ROWS}.map((row) => row.dataset.proxy)") == every, wrong
    page.open("about:blank")
    page.open(f"{url}#log=cubic&heat=nothing&sort=none&theme=pink")
    for control, value in (("plot-log", "auto"), ("heat-kind", "axis"), ("theme", "")):
        assert page.value(f"document.getElementById({control!r}).value") == value
    assert page.value("document.querySelectorAll('#ranking th[aria-sort]').length") == 1
    page.open("about:blank")
    page.open(f"{url}#cost=1e3")
    assert page.value("document.getElementById('cost-limit').value") == "1e3"
    assert page.complaints == []


@needs_browser
def test_the_link_to_the_ranking_keeps_the_view(page: Page, tmp_path: Path) -> None:
    board(tmp_path, *CASE[:3], list(CASE[3]))
    page.open((tmp_path / "index.html").as_uri())
    page.choose("target", "loss_gap")
    page.choose("search", "a")
    before = page.value("location.href")
    page.value("document.querySelector('a.skip').click()")
    seen = "[location.href, document.getElementById('target').value, document.activeElement.id]"
    waited = page.value(f"new Promise((done) => setTimeout(() => done({seen}), 100))")
    assert waited == [before, "loss_gap", "ranking-title"]


@needs_browser
def test_page_and_markdown_show_the_same_cost_and_marks_in_every_scope(page: Page, tmp_path: Path) -> None:
    given = board(tmp_path, ("one", "two"), 8, 2, STATES)
    page.open((tmp_path / "index.html").as_uri())
    heads = page.value("[...document.querySelectorAll('#ranking th button')].map((b) => b.dataset.sort)")
    cost = heads.index("seconds")
    for task in ("", "one", "two"):
        page.choose("task", task)
        for family in ("", "plain/mlp"):
            page.choose("family", family)
            found = ranked(given["scores"], task=task, family=family)
            assert found is not None
            table = found.table.set_index("proxy")
            assert table["seconds"].notna().any()
            rows = page.value(
                f"{ROWS}.map((r) => [r.dataset.proxy, r.cells[{cost}].dataset.value, r.textContent])"
            )
            for proxy, seconds, text in rows:
                expected = table.loc[proxy]
                assert seconds == exact(expected["seconds"])
                assert ("few values" in text) == (expected["few_distinct"] == 1)
    text = (tmp_path / "board.md").read_text()
    per_task = text.partition("gap, task one")[2].partition("##")[0]
    assert rounded(ranked(given["scores"]).table.set_index("proxy").loc["plain", "seconds"]) in per_task  # type: ignore[union-attr]


LARGE = {"seed": 2**63 - 1, "bits": 2**53 + 1, "option": -(2**60) - 1}


@needs_browser
def test_whole_numbers_beyond_what_scripts_hold_keep_their_digits(page: Page, tmp_path: Path) -> None:
    from leaderboard.test_board_page import download

    networks, values, scores = scored(*CASE)
    networks = networks.assign(seed=LARGE["seed"], bits=LARGE["bits"], small=2**53 - 1, sign=-0.0)
    described = entries(list(CASE[3]))
    described["plain"]["options"] = {"bits": LARGE["option"]}
    build(
        tmp_path, population=networks, measurements=values, scores=scores, axes=("width", "bits"),
        suite={"name": "made", "version": 1, "planned": LARGE["bits"]}, entries=described,
    )  # fmt: skip
    page.open((tmp_path / "index.html").as_uri() + "#proxy=plain")
    assert str(LARGE["option"]) in page.value("document.getElementById('detail').textContent")
    assert str(LARGE["bits"]) in page.value("document.getElementById('facts').textContent")
    saved = download(page, "population.csv", tmp_path / "saved").decode()
    rows = list(csv.DictReader(io.StringIO(saved, newline="")))
    with (tmp_path / "population.csv").open(newline="") as stream:
        kept = list(csv.DictReader(stream))
    for column, text in (
        ("seed", "9223372036854775807"),
        ("bits", "9007199254740993"),
        ("small", "9007199254740991"),
        ("sign", "-0.0"),
    ):
        assert {row[column] for row in rows} == {row[column] for row in kept} == {text}
    assert json.loads((tmp_path / "data.json").read_text())["population"]["small"][0] == 2**53 - 1


@pytest.mark.parametrize("name", ["a\rb", "a\r\nb", "\r", "a\nb", '"', ",", "a\0b", " x ", "NA", "=1"])
def test_names_come_back_from_the_scores_as_they_were(tmp_path: Path, name: str) -> None:
    made = pd.DataFrame([("", "", "gap", name, "tau", 0.5, 0.1, 0.9, 3)], columns=COLUMNS)
    (tmp_path / "scores.csv").write_text(csv_text(made), encoding="utf-8", newline="")
    assert (tmp_path / "scores.csv").read_bytes().endswith(b"\n")
    assert not (tmp_path / "scores.csv").read_bytes().endswith(b"\r\n")
    assert list(read_scores(tmp_path)["proxy"]) == [name]


ROW = ",,gap,x,tau,0.5,0.1,0.9,3\n"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (ROW + ",,gap,y,tau,0.25", "cut off"),
        (ROW + ",,gap,y,tau,0.25,0.1,0.9,1", "cut off"),  # of 12: a number that was another
        (ROW + ",,gap,y,ta\n", "cut off"),
        (",,gap,x,tau,0.5,0.1,0.9,3,4\n", "more or fewer values"),
        (ROW + ",,gap,x,tau,0.5,0.1,0.9,3,4\n", "more or fewer values"),
        (ROW + ',,gap,"y,tau,0.5\n', "cannot be read as CSV"),
        (",,gap,x,tau,0.5,0.1,0.9,inf\n", "a number cannot be read"),
        (ROW + ROW.replace("0.5", "0.6"), "more than one row of .*'x'"),
    ],
)
def test_damaged_scores_are_refused(tmp_path: Path, rows: str, words: str) -> None:
    (tmp_path / "scores.csv").write_text(",".join(COLUMNS) + "\n" + rows)
    with pytest.raises(TableError, match=words):
        read_scores(tmp_path)


def test_damaged_documents_are_refused(tmp_path: Path) -> None:
    networks, values, scores = scored(*CASE)
    content = document(networks, values, scores, ("width",), {"name": "made", "version": 1}, {}, [])
    path = tmp_path / "data.json"
    path.write_text(json.dumps(content))
    assert read_document(tmp_path) == content
    values_of_parts: tuple[Any, ...] = (None, 3, "x", {}, [3], [{}])
    wrong: list[Any] = [
        {**content, name: value}
        for name in NEEDED
        for value in values_of_parts
        if not (name in ("notes", "axes") and isinstance(value, list)) and (name, value) != ("suite", {})
    ]
    wrong += [{k: v for k, v in content.items() if k != name} for name in NEEDED]
    wrong += [{**content, "proxies": [{"label": "x"}]}, {**content, "population": {"task": []}}, [], 1, None]
    for changed in wrong:
        path.write_text(json.dumps(changed))
        with pytest.raises(TableError, match=r"data\.json is"):
            read_document(tmp_path)
    for text in ("", "{", json.dumps(content)[:-9], "[" * 100_000):
        path.write_text(text)
        with pytest.raises(TableError, match="is not the data of a board"):
            read_document(tmp_path)


NEEDED = ("format", "suite", "notes", "axes", "targets", "proxies", "population")


def test_a_measured_proxy_of_a_baselines_name_is_one_everywhere() -> None:
    networks, values, scores = scored(("one",), 8, 2, ("plain", "width"))
    described = proxy_entries(values, scores, entries(["plain", "width"]))
    found = ranked(scores)
    assert found is not None
    assert dict(zip(found.table["proxy"], found.table["baseline"])) == {
        entry["label"]: entry["baseline"] for entry in described
    }
    content = document(networks, values, scores, ("width",), {}, entries(["plain", "width"]), [])
    assert "| *width* |" in markdown_text(content, networks, values, scores).replace("| – | ", "| ")


def test_tasks_of_any_name_keep_their_own_numbers_in_the_mirror() -> None:
    tasks = ("all", "%61ll", "a/b", "a%2Fb")
    networks, values, scores = scored(tasks, 8, 1, ("plain",))
    content = document(networks, values, scores, ("width",), {}, entries(["plain"]), [])
    record = next(r for r in entry_records(content, scores) if r.name == "plain")
    own = scores[(scores["proxy"] == "plain") & (scores["estimator"] == "tau") & (scores["family"] == "")]
    own = own[own["value"].notna()]
    kept = {key: value for key, value in record.summary.items() if key.endswith("/tau")}
    assert sorted(kept.values()) == sorted(own["value"])
    assert len(kept) == 2 * (1 + len(tasks))
    means = own[own["task"] == ""].set_index("target")["value"]
    assert {t: kept[f"{t}/all/tau"] for t in means.index} == dict(means)


def test_suites_cannot_give_the_names_of_the_scorers_rows() -> None:
    from gapbench.suites.file import SCORER_ROWS
    from gapbench.suites.requests import proxy_requests
    from gapbench_base.errors import GapbenchError

    assert set(SCORER_ROWS) == set(BASELINES)
    for label in (*BASELINES, "a\nb", " a", "a\0"):
        with pytest.raises(GapbenchError, match="label"):
            proxy_requests([{"proxy": "param_norm", "label": label}], "here")
    assert proxy_requests([{"proxy": "param_norm", "label": "ü 😀"}], "here")[0].label == "ü 😀"


def test_the_terminal_sets_the_same_rows_apart_as_the_board() -> None:
    scores = scored(("one",), 8, 2, ("plain", "noise", "random"))[2]
    proxies, _, baselines = ranking_text(scores, baselines=["noise"]).partition("baselines (not ranked)")
    assert "random" in proxies
    assert "noise" in baselines
    assert "noise" not in proxies


def test_what_wandb_refused_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    board(tmp_path / "board", *CASE[:3], list(CASE[3]))
    monkeypatch.setenv("WANDB_MODE", "nonsense")
    with pytest.raises(TableError, match=r"could not write offline runs.*'online', 'offline'.*'nonsense'"):
        publish(tmp_path / "board", project="demo", offline=True, folder=tmp_path / "out", seconds=120)
