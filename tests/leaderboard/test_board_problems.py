"""What a board says of problems, of the ranks that a proxy may have, and of the verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gapbench_leaderboard.board import build, ranking_text
from gapbench_leaderboard.board.mirror import entry_records
from gapbench_leaderboard.board.ranked import rank_text, ranked
from gapbench_leaderboard.board.terminal import UNDECIDED
from gapbench_leaderboard.scores import score_population
from leaderboard.board_cases import entries
from leaderboard.chromium import CHROMIUM, browser, needs_browser

NAMES = ["right", "detector", "noise", "parameter_count"]


def population() -> pd.DataFrame:
    """Two problems of one task and family, which differ in the level of the gap."""
    random = np.random.default_rng(0)
    rows = [
        (noise, width, rate, seed)
        for noise in (0.0, 0.4)
        for width in (0.5, 1.0, 2.0)
        for rate in range(10)
        for seed in (0, 1)
    ]
    table = pd.DataFrame(rows, columns=["label_noise", "width", "rate", "seed"])
    table["gap"] = table["label_noise"] + 0.05 * table["width"] + 0.1 * random.random(len(table))
    return table.assign(
        cell=[f"c{k}" for k in range(len(table))], task="a", family="mlp", status="converged",
        parameters=(1000 * table["width"]).astype(int),
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    table = population()
    random = np.random.default_rng(1)
    values = {
        "right": table["gap"] - table["label_noise"] + 0.02 * random.standard_normal(len(table)),
        "detector": table["label_noise"] + 1e-3 * random.standard_normal(len(table)),
        "noise": pd.Series(random.standard_normal(len(table))),
        "parameter_count": table["parameters"].astype(float),
    }
    parts = [
        pd.DataFrame({"cell": table["cell"], "proxy": n, "value": v, "status": "ok"})
        for n, v in values.items()
    ]
    measured = pd.concat(parts, ignore_index=True)
    axes, problem = ["width", "label_noise", "rate"], ["label_noise"]
    scores = score_population(
        table,
        measured,
        axes=axes,
        problem=problem,
        replicates=200,
        pair_replicates=3,
        prediction_replicates=2,
    )
    given = {
        "population": table, "measurements": measured, "scores": scores, "axes": axes, "problem": problem,
        "suite": {"name": "made", "version": 1}, "entries": entries(NAMES),
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("board")
    build(folder, **given)
    return folder, given


def test_the_detector_is_first_across_problems_and_nothing_within(made: tuple[Path, dict[str, Any]]) -> None:
    found = ranked(made[1]["scores"])
    assert found is not None
    table = found.table.set_index("proxy")
    assert table.loc["detector", "across"] > 0.9
    assert abs(table.loc["detector", "value"]) < 0.2
    assert table.loc["right", "value"] > 0.7
    assert found.best == ["right"]
    assert rank_text(table.loc["right"].to_dict()) == "1 (1-1)"
    assert rank_text(table.loc["detector"].to_dict()) in ("2 (2-3)", "3 (2-3)")
    assert rank_text(table.loc["parameter_count"].to_dict()) == "–"


def test_every_place_shows_the_column_the_ranks_and_the_best(made: tuple[Path, dict[str, Any]]) -> None:
    folder, given = made
    terminal = ranking_text(given["scores"])
    assert "across" in terminal.splitlines()[2]
    assert "1 (1-1)" in terminal
    assert "may be the best (1): right" in terminal
    assert all(len(line) <= 100 for line in terminal.splitlines())
    markdown = (folder / "board.md").read_text()
    assert "| across problems |" in markdown
    assert "| 1 (1-1) | right |" in markdown
    assert "- May be the best: right." in markdown
    assert "- right: beats size, either way up; beats a random proxy; " in markdown
    document = json.loads((folder / "data.json").read_text())
    assert any(column["title"] == "across problems" for column in document["columns"])
    told = {entry["label"]: entry.get("verdicts", {}) for entry in document["proxies"]}
    assert told["right"]["gap"][0] == "beats size, either way up"
    assert told["parameter_count"] == {}
    records = {record.name: record.summary for record in entry_records(document, given["scores"])}
    own = records["detector"]
    assert own["gap/all/tau_across_problems"] > 0.9
    assert own["gap/all/rank_low"] <= own["gap/all/rank"] <= own["gap/all/rank_high"]


def test_a_board_of_single_problems_has_no_such_column(
    made: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    given = made[1]
    options = {"axes": given["axes"], "replicates": 20, "pair_replicates": 3, "prediction_replicates": 2}
    scores = score_population(given["population"], given["measurements"], **options)
    build(tmp_path, **{**given, "scores": scores, "problem": []})
    assert "across" not in ranking_text(scores)
    assert "across problems" not in (tmp_path / "board.md").read_text()
    document = json.loads((tmp_path / "data.json").read_text())
    assert not any(column["title"] == "across problems" for column in document["columns"])


def test_long_and_hostile_names_of_the_best_stay_within_the_terminal(
    made: tuple[Path, dict[str, Any]],
) -> None:
    scores = made[1]["scores"].copy()
    names = {"right": "r" * 130, "detector": "d\x1b[31m" + "漢" * 60, "noise": "n" * 95}
    scores["proxy"] = scores["proxy"].replace(names)
    low = scores["estimator"] == "rank_low"
    scores.loc[low, "value"] = np.where(scores.loc[low, "proxy"] == names["noise"], 2.0, 1.0)
    text = ranking_text(scores)
    from rich.cells import cell_len

    assert all(cell_len(line) <= 100 for line in text.splitlines())
    assert "\x1b" not in text
    scores.loc[low, "value"] = 1.0
    assert UNDECIDED in ranking_text(scores)


@needs_browser
def test_the_page_tells_ranks_verdicts_and_the_best(made: tuple[Path, dict[str, Any]]) -> None:
    assert CHROMIUM is not None
    row = "[...document.querySelectorAll('#ranking tbody tr')].find((row) => row.dataset.proxy === 'right')"
    with browser(CHROMIUM) as page:
        page.open((made[0] / "index.html").as_uri() + "#proxy=right")
        assert page.value(f"{row}.cells[0].textContent") == "1 (1-1)"
        assert page.value(f"{row}.cells[0].title") == "1, between 1 and 1"
        assert "May be the best: right." in page.value("document.getElementById('ranking-about').textContent")
        assert "beats size, either way up" in page.value("document.getElementById('detail').textContent")
        assert page.complaints == []
