"""On how many networks a symmetry was not covered or an ascent not converged: one count, every surface."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gapbench_leaderboard.board.doubts import Doubts, doubts_of, marks_of_one, words_of_one
from gapbench_leaderboard.board.terminal import ranking_text
from leaderboard.board_cases import board, scored
from leaderboard.chromium import CHROMIUM, browser, needs_browser

NAMES = ("hessian_trace_quotient", "sharpness_quotient", "param_norm")


def marked(values: pd.DataFrame) -> pd.DataFrame:
    """Coverage of the first proxy, coverage and ascents of the second, nothing of the third."""
    table = values.copy()
    table["coverage"], table["converged"] = None, None
    table["coverage"] = table["coverage"].astype(object)
    table["converged"] = table["converged"].astype(object)
    for name, partly, missing, unconverged in ((NAMES[0], 3, 1, None), (NAMES[1], 0, 2, 5)):
        rows = list(table.index[table["proxy"] == name])
        for number, row in enumerate(rows):
            table.at[row, "coverage"] = (
                "partly covered: 2 operations not understood"
                if number < partly
                else "no symmetry found"
                if number < partly + missing
                else "whole group"
            )
            if unconverged is not None:
                table.at[row, "converged"] = number >= unconverged
    return table


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("doubts")
    _, values, _ = scored(("one",), 8, 2, NAMES)
    return folder, board(folder, ("one",), 8, 2, list(NAMES), measurements=marked(values))


def test_counts_over_networks_with_a_value(made: tuple[Path, dict[str, Any]]) -> None:
    found = doubts_of(made[1]["measurements"])
    assert found == {NAMES[0]: Doubts(16, 3, 1, 0, 0), NAMES[1]: Doubts(16, 0, 2, 16, 5)}
    assert found[NAMES[0]].marks == "pn"
    assert found[NAMES[1]].sentences == [
        "no symmetry found on 2 of 16 networks",
        "ascent not converged on 5 of 16 networks",
    ]
    table = made[1]["measurements"].assign(repeat=0)
    twice = pd.concat([table, table.assign(repeat=1)])
    assert doubts_of(twice) == found
    failed = table.assign(status="failed")
    assert doubts_of(failed) == {}
    assert doubts_of(table.drop(columns=["coverage", "converged"])) == {}
    assert doubts_of(table.drop(columns=["coverage"]))[NAMES[1]] == Doubts(0, 0, 0, 16, 5)


@pytest.mark.parametrize(
    ("coverage", "converged", "marks"),
    [
        ("whole group", True, ""),
        ("partly covered: x", True, "p"),
        ("no symmetry found", False, "na"),
        (None, np.False_, "a"),
        (float("nan"), float("nan"), ""),
        ("something else", "no", ""),
        (3, 0, ""),
    ],
)
def test_marks_of_one_measurement(coverage: Any, converged: Any, marks: str) -> None:
    assert marks_of_one(coverage, converged) == marks
    assert len(words_of_one(coverage, converged)) == len(marks)


def test_every_file_says_it(made: tuple[Path, dict[str, Any]]) -> None:
    folder, given = made
    document = json.loads((folder / "data.json").read_text())
    told = {entry["label"]: entry.get("doubts") for entry in document["proxies"]}
    assert told[NAMES[0]]["marks"] == {
        "partly covered": "symmetry partly covered on 3 of 16 networks",
        "no symmetry found": "no symmetry found on 1 of 16 networks",
    }
    assert told[NAMES[1]]["unconverged"] == 5
    assert told[NAMES[2]] is None
    text = (folder / "board.md").read_text()
    assert "symmetry partly covered on 3 of 16 networks" in text
    assert "ascent not converged on 5 of 16 networks" in text
    row = next(
        line for line in text.splitlines() if line.startswith("|") and "hessian\\_trace\\_quotient" in line
    )
    assert {"p", "n"} <= set(row.split("|")[-2].split())
    with (folder / "measurements.csv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["proxy"] == NAMES[1]]
    assert [row["converged"] for row in rows].count("False") == 5
    assert [row["coverage"] for row in rows].count("no symmetry found") == 2
    printed = ranking_text(given["scores"], doubts=doubts_of(given["measurements"]))
    line = next(line for line in printed.splitlines() if NAMES[0] in line)
    assert line.split()[-1].endswith("pn")
    assert "symmetry partly covered on 3 of 16 networks" in printed
    assert max(map(len, printed.splitlines())) <= 110
    without = ranking_text(given["scores"])
    assert "symmetry" not in without


@needs_browser
def test_the_page_marks_it(made: tuple[Path, dict[str, Any]]) -> None:
    assert CHROMIUM is not None
    with browser(CHROMIUM) as page:
        page.resize(1280)
        page.open((made[0] / "index.html").as_uri())
        marks = page.value(
            "Object.fromEntries([...document.querySelectorAll('#ranking tr[data-proxy]')].map((row) => "
            "[row.dataset.proxy, Object.fromEntries([...row.querySelectorAll('.mark')].map("
            "(mark) => [mark.textContent, mark.title]))]))"
        )
        assert "on 3 of 16 networks" in marks[NAMES[0]]["partly covered"]
        assert "on 5 of 16 networks" in marks[NAMES[1]]["not converged"]
        assert not {"partly covered", "not converged", "no symmetry found"} & set(marks[NAMES[2]])
