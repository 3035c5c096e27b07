"""Two proxies side by side, the view as a file, and the sources of an entry."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gapbench.proxies.registry import list_proxies, proxy_entry
from gapbench_leaderboard.board.bibliography import sources_of
from gapbench_leaderboard.board.publications import SOURCES
from leaderboard.board_cases import STATES, board
from leaderboard.chromium import CHROMIUM, ROWS, Page, browser, needs_browser

AWKWARD = ["a_b & 50% {x} #1 $y^2~\\z", "<b>-3</b>"]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    assert CHROMIUM is not None
    with browser(CHROMIUM) as opened:
        opened.resize(1280)
        yield opened


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("compare")
    names = [*STATES, *AWKWARD]
    described = {
        name: {"proxy": name, "version": 3, "reference": "Jiang et al. 2020, eq. 1; arXiv:2401.01234"}
        | {"higher_means": "better" if name == "absent" else "worse", "authors": "A. Author"}
        | {"source_sha256": "ab12", "submitted": True, "submitted_at": "2026-02-03T00:00:00+00:00"}
        for name in names
    }
    given = board(folder, ("one", "two"), 16, 2, names, entries=described)
    return (folder / "index.html").as_uri(), given


def fresh(page: Page, url: str) -> None:
    page.open("about:blank")
    page.complaints.clear()
    page.open(url)


def difference(given: dict[str, Any], first: str, second: str) -> tuple[float, float, float, float]:
    """tau of the first less that of the second, low, high and p, from the scores."""
    scores = given["scores"]
    own = scores[(scores["target"] == "gap") & (scores["task"] == "") & (scores["family"] == "")]
    for one, other, sign in ((first, second, 1.0), (second, first, -1.0)):
        row = own[(own["proxy"] == one) & (own["estimator"] == f"tau_minus:{other}")]
        if len(row):
            p = own[(own["proxy"] == one) & (own["estimator"] == f"tau_minus_p:{other}")]["value"].iloc[0]
            low, high = sorted((sign * row["low"].iloc[0], sign * row["high"].iloc[0]))
            return sign * row["value"].iloc[0], low, high, float(p)
    raise AssertionError("no such difference")


@needs_browser
def test_difference_of_two_is_that_of_the_scores(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, given = made
    for first, second in (("plain", "absent"), ("absent", "plain"), ("constant", AWKWARD[0])):
        fresh(page, url)
        page.choose("plot-proxy", first)
        page.choose("compare-second", second)
        value, low, high, p = difference(given, first, second)
        told = page.value("document.getElementById('compare-about').textContent")
        assert f"tau of {first} less that of {second}: {value:.3f} [{low:.3f}, {high:.3f}]" in told.replace(
            "-0.000", "0.000"
        )
        assert ("p < 0.001" if p < 0.001 else f"p = {p:.3f}") in told
        assert ("they differ" in told) == (low > 0 or high < 0)
        drawn = (
            "[...document.querySelectorAll('#compare .plot')]"
            ".map((plot) => [plot.dataset.proxy, plot.querySelectorAll('.point').length])"
        )
        for name, points in page.value(drawn):
            assert name in (first, second)
            assert points > 0
        assert page.complaints == []
    link = page.value("location.href")
    fresh(page, link)
    assert page.value("document.getElementById('compare-second').value") == AWKWARD[0]
    page.choose("compare-second", "constant")
    assert "Choose a second proxy" in page.value("document.getElementById('compare-about').textContent")


@needs_browser
def test_networks_that_two_place_differently(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    """Places are mean ranks within problem and family, turned where a larger value predicts a smaller gap."""
    url, given = made
    fresh(page, url)
    page.choose("plot-proxy", "plain")
    page.choose("compare-second", "absent")
    shown = page.value(
        "[...document.querySelectorAll('#compare-networks tbody tr')]"
        ".map((row) => [row.dataset.cell,"
        " ...[...row.querySelectorAll('td[data-value]')].map((c) => Number(c.dataset.value))])"
    )
    values = given["measurements"]
    wide = values[values["status"] == "ok"].pivot_table(index="cell", columns="proxy", values="value")
    networks = given["population"].set_index("cell").join(wide[["plain", "absent"]], how="inner")
    networks = networks[(networks["status"] == "converged")].dropna(subset=["plain", "absent", "gap"])
    networks["absent"] *= -1
    places = []
    for _, own in networks.groupby(["task", "family"]):
        ranks = own[["plain", "absent", "gap"]].rank().sub(1) / (len(own) - 1)
        places.append(ranks)
    expected = pd.concat(places)
    apart = (expected["plain"] - expected["absent"]).abs().sort_values(ascending=False)
    assert len(shown) == 12
    for cell, *own in shown:
        assert own == pytest.approx(expected.loc[cell].tolist())
    assert [abs(one - other) for _, one, other, _ in shown] == pytest.approx(apart.iloc[:12].tolist())


@needs_browser
def test_scopes_of_two_are_those_of_the_scores(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, given = made
    fresh(page, f"{url}#proxy=plain&against=absent")
    rows = page.value(
        "[...document.querySelectorAll('#compare-scopes tbody tr')]"
        ".map((row) => [...row.cells].map((c) => c.dataset.value || c.textContent))"
    )
    scores = given["scores"]
    assert {row[0] for row in rows} >= {"one", "two", "one, plain/mlp"}
    for name, *_, apart in rows:
        task, _, family = name.partition(", ")
        own = scores[(scores["target"] == "gap") & (scores["estimator"] == "tau")]
        own = own[(own["task"] == task) & (own["family"] == family)].set_index("proxy")["value"]
        assert float(apart) == pytest.approx(own["plain"] - own["absent"])
    sizes = [abs(float(row[-1])) for row in rows]
    assert sizes == sorted(sizes, reverse=True)


def test_p_of_a_difference_is_that_of_the_jackknife(made_scores: pd.DataFrame) -> None:
    """An interval that leaves out 0 has a small p, one that contains it widely a large one."""
    own = made_scores[made_scores["task"] == ""]
    found = own[own["estimator"].str.startswith("tau_minus:")]
    p = own[own["estimator"].str.startswith("tau_minus_p:")]
    assert len(found) == len(p) > 10
    joined = found.assign(other=found["estimator"].str.partition(":")[2]).merge(
        p.assign(other=p["estimator"].str.partition(":")[2]),
        on=["target", "proxy", "other"],
        suffixes=("", "_p"),
    )
    assert joined["value_p"].between(0, 1).all()
    half = (joined["high"] - joined["low"]) / 2
    normal = 2 * stats.norm.sf(joined["value"].abs() / (half / stats.norm.ppf(0.975)))
    usual = (half > 0.02) & (half < 0.5)
    assert usual.sum() > 10
    # few replicates: shape and freedom of the intervals differ from the normal's
    assert np.abs(normal[usual] - joined["value_p"][usual]).max() < 0.25


@pytest.fixture(scope="module")
def made_scores(made: tuple[str, dict[str, Any]]) -> pd.DataFrame:
    return made[1]["scores"]


def exported(page: Page, kind: str, folder: Path) -> tuple[str, str]:
    """Name and text of the file that a button of the view saves."""
    folder.mkdir(exist_ok=True)
    before = set(folder.iterdir())
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.value(f"document.querySelector('[data-export={kind}]').click()")
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        new = [f for f in set(folder.iterdir()) - before if f.suffix != ".crdownload"]
        if new:
            return new[0].name, new[0].read_text(encoding="utf-8")
        time.sleep(0.05)
    raise AssertionError("nothing was saved")


@needs_browser
def test_the_view_as_a_file(page: Page, made: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    url, _ = made
    fresh(page, url)
    page.choose("task", "one")
    page.choose("target", "loss_gap")
    page.value("document.querySelector('[data-sort=seconds]').click()")
    names = page.value(f"{ROWS}.map((row) => row.dataset.proxy)")
    taus = page.value(f"{ROWS}.map((row) => row.cells[3].dataset.value)")

    name, text = exported(page, "CSV", tmp_path / "csv")
    assert name == "made-loss-gap-one.csv"
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["proxy"] for row in rows] == names
    assert [row["tau"] for row in rows] == taus
    assert {row["of"] for row in rows} == {"32"}
    assert set(rows[0]) > {"rank", "rank_low", "rank_high", "tau_low", "tau_high", "within width", "networks"}

    name, text = exported(page, "LaTeX", tmp_path / "tex")
    assert name == "made-loss-gap-one.tex"
    assert (
        "\\texttt{a\\_b \\& 50\\% \\{x\\} \\#1 \\$y\\textasciicircum{}2\\textasciitilde{}\\textbackslash{}z}"
        in text
    )
    body = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert len(body) == 1 + len(names)
    columns = re.search(r"begin{tabular}{(\w+)}", text)
    assert columns is not None
    assert {len(re.split(r"(?<!\\)&", line)) for line in body} == {len(columns[1])}
    assert text.count("\\midrule") == 2

    name, text = exported(page, "SVG", tmp_path / "svg")
    root = ElementTree.fromstring(text)
    written = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert set(names) <= set(written)
    assert "var(" not in text
    assert len(root.findall(".//{http://www.w3.org/2000/svg}circle")) == sum(bool(tau) for tau in taus)

    name, text = exported(page, "BibTeX", tmp_path / "bib")
    assert text.count("@inproceedings{jiang2020,") == 1
    assert text.count("eprint = {2401.01234}") == 1
    assert page.complaints == []


@needs_browser
def test_the_card_of_an_entry(page: Page, made: tuple[str, dict[str, Any]]) -> None:
    url, _ = made
    fresh(page, f"{url}#proxy=plain")
    told = page.value("document.getElementById('detail').textContent")
    for text in (
        "plain, version 3",
        "A. Author",
        "2026-02-03",
        "SHA-256 ab12",
        "Jiang et al. 2020, eq. 1; arXiv:2401.01234",
    ):
        assert text in told
    links = page.value(
        "[...document.querySelectorAll('#detail dd a')].map((a) => [a.textContent, a.href, a.rel])"
    )
    assert links == [
        ["Jiang et al. 2020", "https://arxiv.org/abs/1912.02178", "noreferrer"],
        ["arXiv:2401.01234", "https://arxiv.org/abs/2401.01234", "noreferrer"],
    ]
    page.value("document.querySelector('#detail dd button').click()")
    assert page.value("document.getElementById('compare-second').value") != ""
    assert page.complaints == []


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (None, []),
        ("tr(PHP)", []),
        ("Keskar et al. 2017; Foret et al. 2021, eq. 1", ["1609.04836", "2010.01412"]),
        ("see https://arxiv.org/abs/1912.02178v2, p. 3", ["1912.02178"]),
        ("doi:10.1234/ab.c(d)-5.", ["https://doi.org/10.1234/ab.c(d)-5"]),
        ("https://doi.org/10.6028/jres.045.026", ["10.6028/jres.045.026"]),
        ("(https://example.org/a_b?c=1)", ["https://example.org/a_b?c=1"]),
        ("javascript:alert(1) data:text/html,x", []),
        ("arXiv: 2401.01234 and arXiv:2401.01234", ["2401.01234", "2401.01234"]),
    ],
)
def test_sources_of_a_reference(reference: str | None, expected: list[str]) -> None:
    found = sources_of(reference)
    assert len(found) == len(expected)
    for source, part in zip(found, expected):
        assert part in source["url"] or part in source["bibtex"]
        assert source["text"] in (reference or "")
        assert source["url"].startswith("https://")
        assert source["bibtex"].startswith("@")
        assert source["bibtex"].count("{") == source["bibtex"].count("}")


def test_every_publication_that_our_proxies_cite_is_known() -> None:
    """Names with a year in the references of the proxies; controls and formulas have none."""
    cited = re.compile(r"[A-Z][\w-]+(?: et al\.|(?:, [A-Z][\w-]+)*,? and [A-Z][\w-]+)? \d{4}")
    known = {source.cited for source in SOURCES}
    keys = [found["bibtex"].partition(",")[0] for source in SOURCES for found in sources_of(source.cited)]
    assert len(keys) == len(set(keys)) == len(SOURCES)
    for name in list_proxies():
        for found in cited.findall(proxy_entry(name).reference or ""):
            assert any(found in source or source in found for source in known), (name, found)
