"""The page in a headless browser: every control, no complaint, no request."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pandas as pd
import pytest

from gapbench_leaderboard.board import build
from gapbench_leaderboard.board.numbers import exact, rounded
from gapbench_leaderboard.board.ranked import ranked
from gapbench_leaderboard.board.terminal import ranking_text
from gapbench_leaderboard.scores import score_population
from leaderboard.board_cases import AWKWARD, STATES, board, large
from leaderboard.chromium import CHROMIUM, ROWS, Page, browser, needs_browser


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    assert CHROMIUM is not None
    with browser(CHROMIUM) as opened:
        opened.resize(1280)
        yield opened


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("page")
    names = [*STATES, *AWKWARD]
    described = {
        name: {
            "proxy": name,
            "version": 2,
            "summary": f"About {name}",
            "reference": None,
            "higher_means": "better" if name == "plain" else "worse",
            "options": {},
            "verified": name == "plain",
            "invariances": ["rescaling"] if name == "constant" else [],
        }
        for name in names
    }
    given = board(folder, ("one", "two"), 8, 2, names, entries=described)
    return (folder / "index.html").as_uri(), given


NUMBERS = {
    "tau": "value",
    "within": "within",
    "pooled": "pooled",
    "partial": "partial",
    "withWidth": "with_width",
}
"""Columns of the page and of `ranked`."""


def fresh(page: Page, url: str) -> None:
    """The page as it opens, with nothing noted yet."""
    page.open("about:blank")
    page.requests.clear()
    page.complaints.clear()
    page.open(url)


def names(page: Page) -> list[str]:
    found: list[str] = page.value(f"{ROWS}.map((row) => row.dataset.proxy)")
    return found


LATER = "new Promise((done) => setTimeout(done, 150))"
"""Until what the page does after a change is done."""


def quiet(page: Page, url: str) -> None:
    assert page.complaints == []
    assert {request.partition("#")[0] for request in page.requests} == {url}


@needs_browser
def test_ranking_shows_the_numbers_of_the_scores(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, given = made
    fresh(page, url)
    cells = f"{ROWS}.map((row) => [row.dataset.proxy, ...[...row.cells].map((c) => c.dataset.value)])"
    shown = f"{ROWS}.map((row) => [...row.cells].map((c) => c.textContent))"
    keys = page.value("[...document.querySelectorAll('#ranking th button')].map((head) => head.dataset.sort)")
    for target in ("gap", "loss_gap"):
        for task in ("", "one"):
            page.choose("target", target)
            page.choose("task", task)
            found = ranked(given["scores"], target=target, task=task)
            assert found is not None
            table, own = found.table.set_index("proxy"), given["population"]
            rows, texts = page.value(cells), page.value(shown)
            assert sorted(row[0] for row in rows) == sorted(table.index)
            for row, text in zip(rows, texts):
                expected = table.loc[row[0]]
                for key, column in NUMBERS.items():
                    position = keys.index(key)
                    assert (float(row[1 + position]) if row[1 + position] else None) == (
                        float(expected[column]) if expected[column] == expected[column] else None
                    )
                    assert text[position] == rounded(expected[column])
                count = len(own) if task == "" else int((own["task"] == task).sum())
                assert text[keys.index("models")] == f"{expected['models']} of {count}"
                low, high = expected["rank_low"], expected["rank_high"]
                between = "" if low != low else f" ({low:.0f}-{high:.0f})"
                rank = "–" if expected["rank"] != expected["rank"] else f"{expected['rank']:.0f}{between}"
                assert text[0] == rank
    quiet(page, url)


@needs_browser
def test_order_is_that_of_the_board(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, given = made
    fresh(page, url)
    found = ranked(given["scores"])
    assert found is not None
    key = [
        (
            row["baseline"],
            row["rank"] if row["rank"] == row["rank"] else 1e9,
            -row["value"] if row["value"] == row["value"] else 2.0,
        )
        for row in found.table.set_index("proxy").loc[names(page)].to_dict("records")
    ]
    assert key == sorted(key)


@needs_browser
def test_awkward_names_are_text(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, _ = made
    fresh(page, url)
    assert page.value("document.title") == "gapbench board: made 1"
    assert set(AWKWARD) <= set(names(page))
    buttons = f"{ROWS}.map((row) => row.querySelector('button').textContent)"
    assert set(AWKWARD) <= set(page.value(buttons))
    assert page.value("document.images.length") == 0
    assert page.value("document.querySelectorAll('script').length") == 2
    notes = "[...document.querySelectorAll('#notes li')].map((line) => line.textContent).join('|')"
    assert page.value(notes) == "A note with <b>markup</b>|The same gapbench run goes on|a lone ` stays"
    assert page.value("document.querySelector('#notes code').textContent") == "gapbench run"
    made_with = "Made with gapbench <1>, torch 2 on CPU (x86_64)."
    assert page.value("document.getElementById('made-with').textContent") == made_with
    for name in AWKWARD:
        page.choose("plot-proxy", name)
        assert page.value("document.querySelector('#detail h3').textContent") == name
        assert page.value("document.querySelectorAll('#scatter .point').length") == 16
    quiet(page, url)


@needs_browser
def test_every_control_does_what_it_says(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, given = made
    fresh(page, url)
    everything = names(page)
    page.choose("search", "EMOJI")
    assert names(page) == [AWKWARD[4]]
    page.choose("search", "nothing is called this")
    assert names(page) == []
    assert page.value("document.getElementById('ranking-empty').hidden") is False
    page.choose("search", "")
    assert names(page) == everything

    seconds = given["scores"][
        (given["scores"]["estimator"] == "seconds") & (given["scores"]["target"] == "gap")
    ]
    limit = float(seconds["value"].median())
    page.choose("cost-limit", repr(limit))
    cheap = set(seconds.loc[seconds["value"] <= limit, "proxy"])
    assert set(names(page)) - {"width", "noisy_oracle", "hyperparameter_oracle"} == cheap
    page.choose("cost-limit", "")

    page.value("document.getElementById('verified').click()")
    kept = set(names(page))
    assert "plain" in kept
    assert "constant" not in kept
    assert "random" in kept
    page.value("document.getElementById('verified').click()")

    page.choose("family", "plain/mlp")
    assert set(names(page)) == set(ranked(given["scores"], family="plain/mlp").table["proxy"])  # type: ignore[union-attr]
    page.choose("family", "")

    page.value("document.querySelector('[data-sort=tau]').click()")
    taus = page.value(f"{ROWS}.filter((r) => !r.matches('.baseline')).map((r) => r.cells[3].dataset.value)")
    numbers = [float(tau) for tau in taus if tau]
    assert numbers == sorted(numbers, reverse=True)
    assert taus[len(numbers) :] == [""] * (len(taus) - len(numbers))
    page.value("document.querySelector('[data-sort=tau]').click()")
    taus = page.value(f"{ROWS}.filter((r) => !r.matches('.baseline')).map((r) => r.cells[3].dataset.value)")
    numbers = [float(tau) for tau in taus if tau]
    assert numbers == sorted(numbers)
    assert page.value("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "ascending"
    for key in (
        "rank",
        "proxy",
        "bar",
        "within",
        "pooled",
        "partial",
        "models",
        "seconds",
        "invariances",
        "withWidth",
    ):
        page.value(f"document.querySelector('[data-sort={key}]').click()")
        assert sorted(names(page)) == sorted(everything)

    page.value(f"{ROWS}.find((row) => row.dataset.proxy === 'plain').querySelector('button').click()")
    assert page.value("document.querySelector('#detail h3').textContent") == "plain"
    assert "a smaller gap" in page.value("document.getElementById('detail').textContent")
    assert page.value("document.querySelector('#ranking tr.chosen').dataset.proxy") == "plain"
    quiet(page, url)


@needs_browser
def test_scatter_draws_every_ranked_network_once(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, given = made
    fresh(page, url)
    networks, values = given["population"], given["measurements"]
    joined = values[values["status"] == "ok"].merge(
        networks[["cell", "task", "status", "gap", "loss_gap"]], on="cell", suffixes=("", "_network")
    )
    for proxy in ("plain", "partial", "absent", "constant"):
        for task in ("one", "two"):
            page.choose("plot-proxy", proxy)
            page.choose("plot-task", task)
            points = page.value(
                "[...document.querySelectorAll('#scatter .point')]"
                ".map((p) => [p.dataset.cell, p.dataset.x, p.dataset.y])"
            )
            own = joined[
                (joined["proxy"] == proxy)
                & (joined["task"] == task)
                & (joined["status_network"] == "converged")
            ]
            assert sorted((c, float(x), float(y)) for c, x, y in points) == sorted(
                zip(own["cell"], own["value"], own["gap"])
            )
    page.choose("plot-proxy", "broken")
    assert page.value("document.querySelectorAll('#scatter .point').length") == 0
    assert "no network with a value" in page.value("document.getElementById('scatter-about').textContent")
    page.choose("plot-proxy", "noisy_oracle")
    assert "no measurements to draw" in page.value("document.getElementById('scatter-about').textContent")
    page.choose("plot-proxy", "width")
    assert page.value("document.querySelectorAll('#scatter .point').length") == 14
    page.value("document.getElementById('plot-unconverged').click()")
    assert (
        page.value("document.querySelectorAll('#scatter .point').length") == 15
    )  # a diverged one has no gap
    page.choose("plot-proxy", "plain")
    page.choose("plot-log", "log")
    assert "Logarithmic" in page.value("document.getElementById('scatter-about').textContent")
    page.choose("plot-log", "linear")
    assert "Logarithmic" not in page.value("document.getElementById('scatter-about').textContent")
    box = page.value(
        "{const place = () => document.querySelector('#scatter .point').getBoundingClientRect();"
        "scrollBy(0, place().y - 300); const b = place(); [b.x + b.width / 2, b.y + b.height / 2]}"
    )
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    tip = page.value("document.getElementById('tip').textContent")
    assert tip.startswith("plain: ")
    assert "family: " in tip
    assert "learning_rate: " in tip
    quiet(page, url)


@needs_browser
def test_heat_map_shows_the_scores(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, given = made
    fresh(page, url)
    scores = given["scores"][given["scores"]["target"] == "gap"]
    read = (
        "[...document.querySelectorAll('#heat tbody tr')]"
        ".map((r) => [r.dataset.proxy, ...[...r.querySelectorAll('td')].map((c) => c.dataset.value)])"
    )
    wanted = {
        "axis": [("", "", name) for name in scores["estimator"].unique() if name.startswith("granulated:")],
        "task": [("one", "", "tau"), ("two", "", "tau")],
        "family": [("", "plain/mlp", "tau"), ("", "timm/resnet18", "tau")],
    }
    for kind, columns in wanted.items():
        page.choose("heat-kind", kind)
        for proxy, *cells in page.value(read):
            for (task, family, estimator), cell in zip(columns, cells, strict=True):
                own = scores[
                    (scores["proxy"] == proxy)
                    & (scores["task"] == task)
                    & (scores["family"] == family)
                    & (scores["estimator"] == estimator)
                ]["value"]
                expected = exact(own.iloc[0]) if len(own) else ""
                assert (cell and float(cell)) == (expected and float(expected))
    page.choose("heat-kind", "fixed")
    assert page.value("document.querySelectorAll('#heat thead th').length") >= 2
    quiet(page, url)


@needs_browser
def test_link_restores_the_view(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, _ = made
    fresh(page, url)
    page.choose("target", "loss_gap")
    page.choose("task", "two")
    page.choose("plot-proxy", AWKWARD[0])
    page.choose("search", "a")
    page.choose("heat-kind", "family")
    page.value("document.querySelector('[data-sort=within]').click()")
    link, before = page.value("location.href"), names(page)
    assert link.startswith(f"{url}#")
    fresh(page, link)
    assert names(page) == before
    assert page.value("document.querySelector('#detail h3').textContent") == AWKWARD[0]
    for control, value in (
        ("target", "loss_gap"),
        ("task", "two"),
        ("plot-task", "two"),
        ("search", "a"),
        ("heat-kind", "family"),
    ):
        assert page.value(f"document.getElementById({control!r}).value") == value
    page.value("location.hash = '#target=loss_gap'")
    assert (
        page.value(
            "new Promise((done) => setTimeout(() => done(document.getElementById('task').value), 100))"
        )
        == ""
    )
    fresh(page, f"{url}#target=none&task=none&family=none&proxy=none&sort=none&heat=none&plotTask=none")
    assert len(names(page)) == len(before) or names(page)
    assert page.complaints == []


@needs_browser
def test_keyboard_reaches_and_chooses(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, _ = made
    fresh(page, url)
    for control in ("select", "input", "button", "summary", "#cost .entry", "a"):
        assert page.value(f"[...document.querySelectorAll({control!r})].every((e) => e.tabIndex >= 0)")
        assert page.value(f"document.querySelectorAll({control!r}).length") > 0
    assert page.value("[...document.querySelectorAll('select, input')].every((e) => e.labels.length === 1)")
    assert page.value(
        "[...document.querySelectorAll('#ranking th button')].every((b) => b.title.length > 20)"
    )
    page.value("document.querySelector('#cost .entry[data-proxy=absent]').focus()")
    assert "absent" in page.value("document.getElementById('tip').textContent")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13)
    assert page.value("document.querySelector('#detail h3').textContent") == "absent"
    assert page.value("document.activeElement.dataset.proxy") == "absent"
    page.value(f"{ROWS}.find((row) => row.dataset.proxy === 'plain').querySelector('button').focus()")
    page.call(
        "Input.dispatchKeyEvent",
        type="keyDown",
        key="Enter",
        code="Enter",
        text="\r",
        windowsVirtualKeyCode=13,
    )
    assert page.value("document.querySelector('#detail h3').textContent") == "plain"
    assert page.value("document.activeElement.closest('tr').dataset.proxy") == "plain"


@needs_browser
@pytest.mark.parametrize("width", [320, 390, 768])
def test_small_screens_scroll_tables_not_the_page(
    page: Page, made: tuple[str, dict[str, Any]], width: int
) -> None:
    url, _ = made
    page.resize(width, mobile=True)
    fresh(page, url)
    folds = "[...document.querySelectorAll('details.fold')]"
    assert page.value(f"{folds}.every((fold) => fold.open === {'true' if width >= 640 else 'false'})")
    page.value(f"{folds}.forEach((fold) => {{ fold.open = true; }}); {LATER}")
    page.choose("compare-second", "plain")
    assert page.value("document.documentElement.scrollWidth") <= width
    for plot in ("scatter", "compare", "cost"):
        assert page.value(f"document.querySelector('#{plot} svg').getBoundingClientRect().width") <= width
    order = page.value(
        "[...document.querySelectorAll('#ranking th button')].map((head) => head.dataset.sort)"
    )
    assert (order.index("tau") < order.index("bar")) is (width < 640)  # numbers before pictures
    row = page.value(f"{ROWS}.map((row) => [...row.cells].findIndex((cell) => cell.querySelector('svg')))")
    assert set(row) == {order.index("bar")}
    page.resize(1280)


@needs_browser
@pytest.mark.parametrize(("tasks", "configurations", "seeds"), [(("one",), 8, 2), (("one",), 1, 1)])
def test_little_data(
    page: Page, tmp_path: Path, tasks: tuple[str, ...], configurations: int, seeds: int
) -> None:
    given = board(tmp_path, tasks, configurations, seeds, STATES)
    url = (tmp_path / "index.html").as_uri()
    fresh(page, url)
    assert len(names(page)) == len(ranked(given["scores"]).table)  # type: ignore[union-attr]
    quiet(page, url)
    build(
        tmp_path,
        **{**given, "scores": given["scores"].iloc[:0], "measurements": given["measurements"].iloc[:0]},
    )
    fresh(page, url)
    assert "No proxy could be ranked" in page.value("document.getElementById('ranking-empty').textContent")
    quiet(page, url)


@needs_browser
def test_downloads_are_the_files_of_the_board(
    page: Page, made: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    url, given = made
    alone = tmp_path / "sent alone.html"
    alone.write_bytes(Path(unquote(urlsplit(url).path)).read_bytes())
    fresh(page, alone.as_uri())
    for name in ("scores", "population", "measurements"):
        saved = download(page, f"{name}.csv", tmp_path / "saved").decode()
        header, *rows = csv.reader(io.StringIO(saved, newline=""))
        frame = given[name]
        assert header == list(frame.columns)
        assert len(rows) == len(frame)
        for column, cells in zip(header, zip(*rows)):
            for cell, value in zip(cells, frame[column]):
                text = exact(value)
                assert cell == text or float(cell) == value, (name, column)  # 1 and 1.0, 1e-7 and 1e-07
    assert download(page, "data.json", tmp_path / "saved") == inside(alone).encode()
    assert page.complaints == []


def download(page: Page, name: str, folder: Path) -> bytes:
    """The file that a click on the link saves."""
    folder.mkdir(exist_ok=True)
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.value(f"document.querySelector('.downloads a[href={json.dumps(name)}]').click()")
    limit = time.monotonic() + 30
    while not (folder / name).is_file() and time.monotonic() < limit:
        time.sleep(0.05)
    return (folder / name).read_bytes()


def inside(file: Path) -> str:
    """The data of a page, as they stand in its file."""
    return file.read_text(encoding="utf-8").partition('id="data">')[2].partition("</script>")[0]


@needs_browser
def test_every_control_of_a_board_of_forty_proxies_and_five_hundred_networks(
    page: Page, tmp_path: Path
) -> None:
    given = large(40, 500)
    for position, entry in enumerate(given["entries"].values()):
        entry["verified"] = position % 4 == 0
    rows = [{"kind": "rescaling", "strength": 0.5, "relative_change": 0.0, "rank_correlation": 1.0}]
    rows[0] |= {"verdict": "invariant", "reason": None}
    given["audit"] = {"networks": 6, "seed": 0, "proxies": {"proxy_007": rows}}
    costs = given["scores"]["estimator"] == "seconds"
    given["scores"].loc[costs, "value"] = [int(name[-3:]) for name in given["scores"]["proxy"][costs]]
    build(tmp_path, **given)
    url = (tmp_path / "index.html").as_uri()
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    fresh(page, url)
    everything = names(page)
    assert len(everything) == 40

    def points() -> int:
        # drawn after the ranking has answered
        found: int = page.value(
            "new Promise((done) => setTimeout(() => done(document.querySelectorAll('#scatter .point').length), 50))"
        )
        return found

    page.choose("task", "task 1")
    page.choose("family", "family/2")
    page.choose("target", "loss_gap")
    found = ranked(given["scores"], target="loss_gap", task="task 1", family="family/2")
    assert found is not None
    taus = page.value(f"{ROWS}.map((row) => [row.dataset.proxy, Number(row.cells[3].dataset.value)])")
    assert dict(map(tuple, taus)) == dict(zip(found.table["proxy"], found.table["value"]))
    networks = given["population"]
    shown = ((networks["task"] == "task 0") & (networks["family"] == "family/2")).sum()
    page.choose("plot-task", "task 0")
    assert points() == shown
    assert page.value("document.querySelectorAll('#agreement canvas').length") == 1
    page.choose("search", "proxy_01")
    assert len(names(page)) == 10
    page.choose("search", "")
    page.choose("cost-limit", "19")
    assert sorted(names(page)) == sorted(everything)[:20]
    page.choose("cost-limit", "")
    page.value("document.getElementById('verified').click()")
    assert sorted(names(page)) == sorted(everything)[::4]
    page.value("document.getElementById('verified').click()")
    page.choose("invariant", "rescaling")
    assert names(page) == ["proxy_007"]
    page.choose("invariant", "")
    page.value("document.querySelector('[data-sort=seconds]').click()")
    assert names(page) == sorted(everything)
    page.choose("plot-proxy", "proxy_033")
    page.choose("plot-log", "linear")
    page.value("document.getElementById('plot-unconverged').click()")
    page.choose("heat-kind", "task")
    assert points() == shown
    assert page.value("document.querySelectorAll('#heat thead th').length") == 1 + 3
    link, before = page.value("location.href"), names(page)
    light = page.value("getComputedStyle(document.documentElement).backgroundColor")
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = page.value("getComputedStyle(document.documentElement).backgroundColor")
    assert sum(list(map(int, re.findall(r"\d+", light)))[:3]) > 700
    assert sum(list(map(int, re.findall(r"\d+", dark)))[:3]) < 100
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    quiet(page, url)
    fresh(page, link)
    assert names(page) == before
    assert page.value("document.querySelector('#detail h3').textContent") == "proxy_033"
    assert page.value("document.getElementById('plot-unconverged').checked") is True
    saved = download(page, "scores.csv", tmp_path / "saved").decode().count("\n")
    assert saved == 1 + len(given["scores"])
    assert page.complaints == []


@needs_browser
def test_appearance_follows_the_system_until_it_is_chosen(
    page: Page, made: tuple[str, dict[str, Any]]
) -> None:
    url, _ = made
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    colours = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}

    def system(scheme: str) -> None:
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    for first, second in (("light", "dark"), ("dark", "light")):
        system(first)
        fresh(page, url)
        assert page.value(ground) == colours[first]
        system(second)
        assert page.value(ground) == colours[second]
        page.choose("theme", first)
        assert page.value(ground) == colours[first]
        assert page.value("getComputedStyle(document.getElementById('theme')).colorScheme") == first
        link = page.value("location.href")
        fresh(page, link)
        assert page.value(ground) == colours[first]
        assert page.value("document.getElementById('theme').value") == first
        page.choose("theme", "")
        assert page.value(ground) == colours[second]
        assert "theme" not in page.value("location.href")
    system("light")
    quiet(page, url)


@needs_browser
def test_a_long_ranking_keeps_the_proxy_near(page: Page, tmp_path: Path) -> None:
    build(tmp_path, **large(120, 40))
    url = (tmp_path / "index.html").as_uri()
    fresh(page, url)
    assert page.value("document.getElementById('ranking-place').getBoundingClientRect().height") < 900
    last = page.value(f"{ROWS}.at(-1).dataset.proxy")
    fresh(page, f"{url}#proxy={last}")
    seen = (
        "{const place = document.getElementById('ranking-place').getBoundingClientRect(),"
        " row = document.querySelector('#ranking tr.chosen').getBoundingClientRect();"
        " row.top >= place.top && row.bottom <= place.bottom}"
    )
    assert page.value(seen) is True
    head = "document.querySelector('#ranking th').getBoundingClientRect().top"
    place = "document.getElementById('ranking-place').getBoundingClientRect().top"
    assert page.value(f"Math.abs({head} - {place}) < 2") is True  # the head stays in view
    page.choose("search", "proxy_00")
    assert page.value("document.getElementById('ranking-place').className") == "wide"


@needs_browser
def test_a_link_leads_to_the_proxy_in_its_view(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, _ = made
    fresh(page, url)
    page.choose("task", "two")
    for name in ("plain", *AWKWARD):
        page.choose("plot-proxy", name)
        link = page.value("document.getElementById('proxy-link').href")
        fresh(page, link)
        assert page.value("document.querySelector('#detail h3').textContent") == name
        assert page.value("document.getElementById('task').value") == "two"
        top = page.value("document.getElementById('detail-title').getBoundingClientRect().top")
        assert -1 < top < 200
    page.value("scrollTo(0, 0)")
    page.choose("task", "")
    assert "at=" not in page.value("location.href")
    page.value("document.getElementById('proxy-link').click()")
    top = "document.getElementById('detail-title').getBoundingClientRect().top"
    assert -1 < page.value(f"new Promise((done) => setTimeout(() => done({top}), 100))") < 200
    quiet(page, url)


@needs_browser
def test_repeatability_is_a_column_where_proxies_were_measured_twice(
    page: Page, made: tuple[str, dict[str, Any]], tmp_path: Path
) -> None:
    url, given = made
    fresh(page, url)
    assert page.value("document.querySelector('[data-sort=repeatability]')") is None
    row = {"task": "", "family": "", "target": "gap", "proxy": "plain", "estimator": "repeatability"}
    row |= {"value": 1 / 3, "low": 0.1, "high": 0.6, "models": 10}
    scores = pd.concat([given["scores"], pd.DataFrame([row])], ignore_index=True)
    first = given["measurements"].assign(repeat=0)
    second = first[first["proxy"] == "plain"].assign(repeat=1, value=7.0)
    build(tmp_path, **{**given, "scores": scores, "measurements": pd.concat([first, second])})
    url = (tmp_path / "index.html").as_uri()
    fresh(page, f"{url}#proxy=plain")
    column = page.value(
        "[...document.querySelectorAll('#ranking thead th')].findIndex((c) => c.textContent === 'repeatable')"
    )
    assert column > 0
    cells = page.value(f"{ROWS}.map((row) => [row.dataset.proxy, row.cells[{column}].dataset.value])")
    assert {name for name, value in cells if value} == {"plain"}
    assert dict(cells)["plain"] == "0.3333333333333333"
    page.value("document.querySelector('[data-sort=repeatability]').click()")
    assert names(page)[0] == "plain"
    assert f"{len(second)} measurements" in page.value("document.getElementById('detail').textContent")
    xs = page.value("[...document.querySelectorAll('#scatter .point')].map((p) => Number(p.dataset.x))")
    assert 7.0 not in xs
    assert page.complaints == []


@needs_browser
def test_plots_can_be_read_by_keyboard(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, given = made
    fresh(page, f"{url}#proxy=plain&plotTask=one")

    def press(key: str) -> str:
        page.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key)
        text: str = page.value("(tip => tip.hidden ? '' : tip.textContent)(document.getElementById('tip'))")
        return text

    page.value("document.querySelector('#scatter svg[tabindex]').focus()")
    networks = given["population"].set_index("cell")
    values = given["measurements"]
    own = values[(values["proxy"] == "plain") & (values["status"] == "ok")]
    ranked_cells = [
        c for c in own["cell"] if networks.loc[c, ["task", "status"]].tolist() == ["one", "converged"]
    ]
    expected = sorted(own.set_index("cell").loc[ranked_cells, "value"])
    told = [press("ArrowRight") for _ in expected]
    assert [float(text.partition(": ")[2].split()[0]) for text in told] == pytest.approx(expected, rel=1e-5)
    assert press("ArrowRight") == told[-1]
    assert press("Home") == told[0]
    assert press("End") == told[-1]
    assert press("ArrowLeft") == told[-2]
    assert press("Escape") == ""

    agreement = json.loads(inside(Path(unquote(urlsplit(url).path))))["agreement"]
    first, second = agreement["proxies"][:2]
    page.value("document.querySelector('#agreement canvas').focus()")
    tau = agreement["tau"][0][1]
    expected_text = "not defined" if tau is None else f"{float(f'{tau:.6g}'):g}"
    assert press("ArrowRight") == f"{first}\n{second}\ntau {expected_text}"
    assert press("ArrowUp").startswith(f"{first}\n{second}\n")  # the edge holds
    assert press("ArrowDown").startswith(f"{second}\n{second}\n")
    press("Enter")
    assert page.value("document.querySelector('#detail h3').textContent") == second
    assert page.value("document.activeElement.tagName") == "CANVAS"
    assert press("ArrowLeft").startswith(f"{second}\n{first}\n")
    quiet(page, url)


def test_colours_have_contrast() -> None:
    style = (files("gapbench_leaderboard.board") / "assets" / "style.css").read_text()
    pairs_of_colours = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", style)
    schemes = [{name: pair[k] for name, *pair in pairs_of_colours} for k in (0, 1)]

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(first: str, second: str) -> float:
        low, high = sorted((luminance(first), luminance(second)))
        return (high + 0.05) / (low + 0.05)

    def blended(first: str, second: str, share: float) -> str:
        parts = [(int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5)]
        return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in parts)

    for colour in schemes:
        pairs = "ink/ground quiet/ground accent/ground accent/chosen ink/chosen base/ground base/chosen "
        pairs += "warn/warn-ground warn/ground warn/chosen ink/raised quiet/raised"
        for text, ground in (pair.split("/") for pair in pairs.split()):
            assert contrast(colour[text], colour[ground]) >= 4.5, (text, ground)  # WCAG 2.2, 1.4.3
        assert contrast(colour["ink"], blended(colour["positive"], colour["ground"], 0.5)) >= 4.5  # heat map
        assert contrast(colour["ink"], blended(colour["negative"], colour["ground"], 0.5)) >= 4.5
        for sign in ("positive", "negative"):  # a pale cell
            assert contrast(colour["quiet"], blended(colour[sign], colour["ground"], 0.15)) >= 4.5
        for mark in ("w0", "w1", "w2", "w3", "w4", "accent", "base"):
            assert contrast(colour[mark], colour["ground"]) >= 3, mark  # WCAG 2.2, 1.4.11


def test_data_of_the_page_are_those_of_the_file(tmp_path: Path) -> None:
    build(tmp_path, **large(3, 20))
    assert inside(tmp_path / "index.html") == (tmp_path / "data.json").read_text()
    assert json.loads(inside(tmp_path / "index.html"))["suite"]["name"] == "large"


@needs_browser
def test_audit_is_the_same_on_page_and_in_every_file(page: Page, tmp_path: Path) -> None:
    rows = [
        {"kind": "rescaling", "strength": 0.5, "relative_change": 0.1 + 0.2, "rank_correlation": 1 / 3}
        | {"verdict": "not invariant", "reason": 'grows, "a lot" <b>'},
        {"kind": "permutation", "strength": 0.5, "relative_change": 0.0, "rank_correlation": None}
        | {"verdict": "invariant", "reason": None},
        {"kind": "heads", "strength": 0.5, "relative_change": None, "rank_correlation": None}
        | {"verdict": "not applicable", "reason": "no attention"},
    ]
    audit = {"networks": 6, "seed": 0, "proxies": {"plain": rows}}
    given = board(tmp_path, ("one",), 8, 2, STATES, audit=audit)
    url = (tmp_path / "index.html").as_uri() + "#proxy=plain"
    fresh(page, url)
    marks = "[...document.querySelectorAll('#ranking .audit')]"
    assert page.value(f"{marks}.map((mark) => mark.textContent)") == ["invariant 1/2"]
    shown = (
        "[...document.querySelectorAll('#ranking tr[data-proxy]:not(.baseline)')].map((r) => r.dataset.proxy)"
    )
    every = page.value(shown)
    for kind, kept in (
        ("all", []),
        ("rescaling", []),
        ("permutation", ["plain"]),
        ("heads", []),
        ("", every),
    ):
        page.choose("invariant", kind)
        assert page.value(shown) == kept, kind
        assert ("invariant=" in page.value("location.hash")) == (kind != "")
    title = page.value(f"{marks}[0].title")
    assert "0.30000000000000004" in title
    assert "0.3333333333333333" in title
    assert "<b>" in title
    assert "0.30000000000000004" in page.value("document.getElementById('detail').textContent")
    assert page.complaints == []
    content = json.loads((tmp_path / "data.json").read_text())
    assert [entry["audit"] for entry in content["proxies"] if "audit" in entry] == [rows]
    with (tmp_path / "invariances.csv").open(newline="") as stream:
        read = list(csv.DictReader(stream))
    expected = [
        {k: "" if v is None else str(v) for k, v in {"proxy": "plain", **row}.items()} for row in rows
    ]
    assert read == expected
    assert " invariant 1/2 |" in (tmp_path / "board.md").read_text()
    build(tmp_path, **{**given, "audit": None})
    assert not (tmp_path / "invariances.csv").exists()
    assert "audit" not in (tmp_path / "board.md").read_text()


@needs_browser
def test_what_follows_the_width_is_marked_everywhere(page: Page, tmp_path: Path) -> None:
    """A proxy that is the width in disguise, upside down; the baselines that say so need no mark."""
    given = board(tmp_path, ("one",), 30, 1, STATES)
    cells, widths = given["population"]["cell"], given["population"]["width"]
    hidden = pd.DataFrame({"cell": cells, "proxy": "hidden", "value": 1 / widths, "status": "ok"})
    measured = pd.concat([given["measurements"], hidden], ignore_index=True)
    scores = score_population(given["population"], measured, axes=["width", "learning_rate"], replicates=20)
    verified = {"kind": "fresh networks", "outcome": "confirmed", "date": "2026-01-02T03:04:05+00:00"}
    entry = {"proxy": "hidden", "verified": True, "verifications": [verified], "authors": "A & B"}
    own = {"measurements": measured, "scores": scores, "entries": {**given["entries"], "hidden": entry}}
    build(tmp_path, **{**given, **own})
    text = (tmp_path / "board.md").read_text()
    line = next(line for line in text.splitlines() if line.startswith("|") and "| hidden |" in line)
    assert "| -1.000 |" in line
    assert " w" in line.rpartition("|")[0].rpartition("|")[2]
    assert "w: orders networks much as their width does" in text
    assert "orders networks much as their width" in ranking_text(scores)
    url = (tmp_path / "index.html").as_uri()
    fresh(page, f"{url}#proxy=hidden")
    marks = f"Object.fromEntries({ROWS}.map((row) => [row.dataset.proxy, row.querySelector('.marks').textContent]))"
    found = page.value(marks)
    assert "width" in found["hidden"]
    assert "width" not in found["width"] + found["parameter_count"] + found["random"]
    detail = page.value("document.getElementById('detail').textContent")
    assert "confirmed 2026-01-02on fresh networks" in detail
    assert "A & B" in detail
    assert page.complaints == []


@needs_browser
def test_where_no_difference_is_significant_it_is_said_everywhere(page: Page, tmp_path: Path) -> None:
    given = board(tmp_path, ("one",), 8, 2, STATES)
    text = "No two proxies can be told apart"
    about = "document.getElementById('ranking-about').textContent"
    own, rank = (given["scores"]["estimator"] == name for name in ("rank_low", "rank"))
    for best, said in ((1.0, True), (2.0, False)):
        scores = given["scores"].copy()
        scores.loc[own, "value"] = 1.0
        scores.loc[own & (scores["proxy"] == "plain"), "value"] = best
        scores.loc[rank, "low"] = 1.0
        scores.loc[rank & (scores["proxy"] == "plain"), "low"] = best
        build(tmp_path, **{**given, "scores": scores})
        fresh(page, (tmp_path / "index.html").as_uri())
        assert (text in page.value(about)) is said
        assert (text in (tmp_path / "board.md").read_text()) is said
        assert (text in ranking_text(scores)) is said
