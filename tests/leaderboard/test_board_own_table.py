"""The board of a table of one's own says what it is of: its strata, its target, its columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gapbench_leaderboard.board.leading import leading_text
from gapbench_leaderboard.board.own_table import build_own
from gapbench_leaderboard.board.table_text import table_text
from gapbench_leaderboard.scoring.table import score_table
from gapbench_leaderboard.statistics import kendall_tau
from leaderboard.chromium import CHROMIUM, browser, needs_browser


def table() -> pd.DataFrame:
    """120 networks whose gap follows two axes; one measure is good, one of them turned, one the width."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame(
        [(width, rate, seed) for width in (16, 32, 64, 128) for rate in range(15) for seed in (0, 1)],
        columns=["width", "lr", "seed"],
    )
    rows["gap"] = 0.3 - 0.02 * np.log2(rows["width"]) + 0.01 * rows["lr"]
    rows["gap"] += 0.02 * random.standard_normal(len(rows))
    rows["good"] = rows["gap"] + 0.03 * random.standard_normal(len(rows))
    rows["turned"] = -rows["gap"] + 0.03 * random.standard_normal(len(rows))
    rows["size"] = np.sqrt(rows["width"])
    return rows


def made(folder: Path, strata: list[str] | None, **options: Any) -> tuple[dict[str, Any], str, pd.DataFrame]:
    """The document and Markdown of the board, and the scores."""
    rows = table()
    asked: dict[str, Any] = {"measures": ["good", "turned", "size"], "target": "gap", "axes": ["width", "lr"]}
    asked |= options
    scores = score_table(rows, **asked, strata=strata, replicates=50)
    build_own(folder, rows, scores, name="mine", strata=strata, **asked)
    return json.loads((folder / "data.json").read_text()), (folder / "board.md").read_text(), scores


@pytest.mark.parametrize("strata", [["width"], ["lr"], ["width", "lr"]])
def test_strata_are_named_for_what_they_are(strata: list[str], tmp_path: Path) -> None:
    document, text, scores = made(tmp_path, strata)
    name = " and ".join(strata)
    titles = {column["key"]: column["title"] for column in document["columns"]}
    assert titles["within"] == f"within {name}"
    assert f"| within {name} |" in text
    assert f"| tau within {name} |" in text
    simpson = next(mark["about"] for mark in document["marks"] if mark["name"] == "Simpson")
    assert f"problem, family and {name}:" in simpson
    if "width" not in strata:
        assert "within width" not in text + json.dumps(document["columns"])
    verdicts = next(entry["verdicts"]["gap"] for entry in document["proxies"] if entry["label"] == "good")
    assert any(words.endswith(f"within {name}") for words in verdicts)
    assert name in {test["about"].rpartition("equal ")[2] for test in document["tests"]}
    within = scores[(scores["estimator"] == "tau_within") & (scores["proxy"] == "good")]["value"].iloc[0]
    rows = table()
    own = [kendall_tau(group["good"], group["gap"], variant="b") for _, group in rows.groupby(strata)]
    if strata != ["width", "lr"]:  # there the two seeds of a configuration are no pair
        assert within == pytest.approx(np.mean(own), abs=0.05)


def test_a_column_is_none_of_ours_and_a_reversed_one_is_said_to_be(tmp_path: Path) -> None:
    document, text, scores = made(tmp_path, ["width"])
    entries = {entry["label"]: entry for entry in document["proxies"]}
    assert entries["good"]["standing"]["words"] == "A column of the table."
    assert "version" not in entries["good"]
    assert "Comes with gapbench" not in text
    assert any("wrong way round" in words for words in entries["turned"]["verdicts"]["gap"])
    assert not any("random proxy" in words for words in entries["turned"]["verdicts"]["gap"][1:2])
    said = table_text(scores, "gap", ["good", "turned", "size"])
    assert "significantly the wrong way round: " in said
    assert "--better turned" in said or "--better size" in said
    turned = made(tmp_path, ["width"], higher_means={"turned": "better", "size": "better"})
    assert "wrong way round" not in table_text(turned[2], "gap", ["good", "turned", "size"])


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (0.0, "one and two are level, their difference 0.000 [-0.100, 0.100]"),
        (0.04, "one is 0.040 [-0.100, 0.100] ahead of two"),
    ],
)
def test_two_firsts_of_equal_score_are_level(difference: float, words: str) -> None:
    ranks = pd.DataFrame({"proxy": ["one", "two"], "rank": [1.0, 1.0], "baseline": [False, False]})
    values = {"tau_minus:two": difference, "tau_minus_p:two": 0.9}
    scores = pd.DataFrame(
        [
            {
                "proxy": "one",
                "task": "",
                "target": "gap",
                "estimator": name,
                "value": v,
                "low": -0.1,
                "high": 0.1,
            }
            for name, v in values.items()
        ]
    )
    said = leading_text(scores, ranks, "gap")
    assert said == f"first and second: {words}; of this pair alone p = 0.9: they cannot be told apart"


def test_what_is_true_of_every_row_is_said_once(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"measures": ["good", "size"], "target": "gap", "axes": ["width"]}
    few = score_table(table(), **asked, replicates=50)  # four configurations
    lines = table_text(few, "gap", ["good", "size"]).splitlines()
    (said,) = [line for line in lines if "interval unreliable" in line]
    assert said.startswith("all rows: interval unreliable: fewer than 30 configurations")
    (size,) = [line for line in lines if line.split()[2:3] == ["size"]]
    assert size.endswith("few distinct values")  # of this row alone
    many = score_table(table(), **(asked | {"axes": ["width", "lr"]}), replicates=50)
    assert "all rows: " not in table_text(many, "gap", ["good", "size"])


def test_naming_the_width_changes_no_other_number() -> None:
    rows = table()
    asked: dict[str, Any] = {"measures": ["good", "turned"], "target": "gap", "axes": ["lr", "width"]}
    plain, named = (
        score_table(rows, **asked, strata=["lr"], replicates=50, **more).set_index(["proxy", "estimator"])
        for more in ({}, {"width": "width"})
    )
    assert set(plain.index) < set(named.index)
    columns = ["value", "low", "high", "p", "models"]
    both = named.loc[plain.index, [c for c in columns if c in plain]]
    pd.testing.assert_frame_equal(plain[both.columns], both, check_exact=False, rtol=1e-12)


@needs_browser
def test_the_page_says_of_a_table_what_the_table_says(tmp_path: Path) -> None:
    made(tmp_path, None)
    assert CHROMIUM is not None
    with browser(CHROMIUM) as page:
        page.open((tmp_path / "index.html").as_uri())
        texts = {
            place: page.value(f"document.getElementById('{place}').textContent")
            for place in ("facts", "question")
        }
        assert page.value("document.getElementById('plot-unconverged')") is None
    assert texts["facts"].startswith("120 networks; ")
    assert "converged" not in texts["facts"]
    assert "among the networks of the table" in texts["question"]
    assert "famil" not in texts["question"]
