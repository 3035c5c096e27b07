"""The files of a board: whole, equal to the last digit, and proof against awkward names."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.cells import cell_len

from gapbench_base import files as files_module
from gapbench_base.files import write_atomically
from gapbench_leaderboard.board import ranking_text
from gapbench_leaderboard.board.document_file import read_document
from gapbench_leaderboard.board.markdown import escape
from gapbench_leaderboard.board.mirror import entry_records
from gapbench_leaderboard.board.notebook import ranking_html
from gapbench_leaderboard.board.numbers import exact, plain, rounded
from gapbench_leaderboard.board.ranked import ranked
from gapbench_leaderboard.board.scores_file import read_scores
from gapbench_leaderboard.board.trained import trained_networks
from gapbench_leaderboard.scoring.registry import DIGITS, columns
from leaderboard.board_cases import AWKWARD, STATES, board

CASES = {
    "everything": (("one", "two"), 8, 2, [*STATES, *AWKWARD]),
    "one task": (("one",), 8, 2, STATES),
    "one network": (("one",), 1, 1, STATES),
}


@pytest.fixture(scope="module", params=list(CASES))
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    tasks, configurations, seeds, names = CASES[request.param]
    folder = tmp_path_factory.mktemp("board") / "made"
    return folder, board(folder, tasks, configurations, seeds, names)


class DataOfPage(HTMLParser):
    """The text of the script element that holds the data, as a browser would see it."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = False
        self.text = ""
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.inside = tag == "script" and ("id", "data") in attrs

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.text += data


def decoded(column: Any) -> list[Any]:
    if isinstance(column, list):
        return column
    return [None if code < 0 else column["names"][code] for code in column["codes"]]


def test_csv_json_and_page_hold_every_cell_to_the_last_digit(made: tuple[Path, dict[str, Any]]) -> None:
    folder, given = made
    document = json.loads((folder / "data.json").read_text())
    parser = DataOfPage()
    parser.feed((folder / "index.html").read_text())
    assert json.loads(parser.text) == document
    assert parser.scripts == 2
    for name in ("scores", "population", "measurements"):
        frame = given[name]
        with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        assert header == list(frame.columns)
        assert len(rows) == len(frame)
        for position, column in enumerate(header):
            source = list(frame[column])
            assert [row[position] for row in rows] == [exact(value) for value in source]
            cells = decoded(document[name][column])
            assert cells == [plain(value) for value in source]
            for cell, value in zip(cells, source):
                if isinstance(cell, float):
                    assert cell == value


def test_pandas_reads_the_scores_back_exactly(made: tuple[Path, dict[str, Any]]) -> None:
    folder, given = made
    back = read_scores(folder / "scores.csv")
    pd.testing.assert_frame_equal(
        back, given["scores"].reset_index(drop=True), check_exact=True, check_dtype=False
    )


def test_markdown_holds_the_ranking_in_full_precision(made: tuple[Path, dict[str, Any]]) -> None:
    folder, given = made
    text = (folder / "board.md").read_text()
    tables = text.partition("<details>")[2]
    for target in ("gap", "loss_gap"):
        found = ranked(given["scores"], target=target)
        assert found is not None
        keys = ["value", "low", "high", *(column.key for column in found.filled(columns(DIGITS)))]
        for row in found.table.to_dict("records"):
            cells = [escape(row["proxy"]), *(exact(row[k]) for k in keys)]
            assert "| " + " | ".join(cells) + " |" in tables


def test_markdown_tables_keep_their_shape_whatever_the_names(made: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = made
    lines = (folder / "board.md").read_text().splitlines()
    for position, line in enumerate(lines):
        if line.startswith("|---"):
            width = len(re.findall(r"(?<!\\)\|", line))
            table = [lines[position - 1]]
            for following in lines[position:]:
                if not following.startswith("|"):
                    break
                table.append(following)
            assert {len(re.findall(r"(?<!\\)\|", row)) for row in table} == {width}
    assert "<script" not in "\n".join(lines)
    assert "<img" not in "\n".join(lines)


def test_no_request_can_leave_the_page(made: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = made
    page = (folder / "index.html").read_text()
    markup = page[: page.index('<script type="application/json"')]
    assert "default-src 'none'" in markup
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", markup)
    assert "innerHTML" not in page.replace(json.dumps(AWKWARD), "")


def test_page_data_cannot_end_their_element(made: tuple[Path, dict[str, Any]]) -> None:
    text = (made[0] / "data.json").read_text()
    assert not set("<>&\u2028\u2029") & set(text)


@pytest.mark.parametrize("width", [100, 80, 76, 75, 50])
def test_terminal_fits_and_steers_nothing(made: tuple[Path, dict[str, Any]], width: int) -> None:
    text = ranking_text(made[1]["scores"], width=width)
    for line in text.splitlines():
        assert cell_len(line) <= width
    found = ranked(made[1]["scores"])
    assert found is not None
    for row in found.table.to_dict("records"):  # counts and headlines survive
        assert f"{row['models']} of {len(made[1]['population'])}" in text
        assert rounded(row["value"]) in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u2028\u2029]", text)


def test_terminal_sets_baselines_apart_in_the_order_of_the_ranking(made: tuple[Path, dict[str, Any]]) -> None:
    found = ranked(made[1]["scores"])
    assert found is not None
    text = ranking_text(made[1]["scores"])
    proxies, _, baselines = text.partition("\n      baselines (not ranked)\n")
    assert "parameter_count" in baselines
    assert "parameter_count" not in proxies
    assert "plain" in proxies
    assert all(f"{count} of {len(made[1]['population'])}" in text for count in found.table["models"])


def test_ranking_of_a_target_that_was_not_scored_says_so(made: tuple[Path, dict[str, Any]]) -> None:
    assert "No proxy could be ranked by nothing" in ranking_text(made[1]["scores"], "nothing")


def test_empty_scores_still_give_a_board(tmp_path: Path) -> None:
    given = board(tmp_path / "full", ("one",), 1, 1, STATES)
    empty = given["scores"].iloc[:0]
    from gapbench_leaderboard.board import build

    build(tmp_path / "empty", **{**given, "scores": empty, "measurements": given["measurements"].iloc[:0]})
    assert "No proxy could be ranked" in (tmp_path / "empty" / "board.md").read_text()
    assert json.loads((tmp_path / "empty" / "data.json").read_text())["targets"] == []


def test_networks_that_can_be_ranked_are_the_converged_ones(made: tuple[Path, dict[str, Any]]) -> None:
    given = made[1]
    networks, values = given["population"], given["measurements"]
    found = ranked(given["scores"])
    assert found is not None
    converged = set(networks.loc[networks["status"] == "converged", "cell"])
    assert set(found.table["trained"]) == {len(networks)}
    counts = found.table.set_index("proxy")["models"]
    for proxy in ("plain", "partial", "absent", "broken"):
        usable = values.loc[(values["proxy"] == proxy) & (values["status"] == "ok"), "cell"]
        if proxy in counts:
            assert counts[proxy] == len(converged & set(usable))


def test_all_that_were_trained_are_counted_in_every_scope(made: tuple[Path, dict[str, Any]]) -> None:
    scores, networks = made[1]["scores"], made[1]["population"]
    assert len(networks) == 1 or set(networks["status"]) > {"converged"}
    for task in ("", *networks["task"].unique()):
        for family in ("", *networks["family"].unique()):
            own = (networks["task"] == task) | (task == "")
            own &= (networks["family"] == family) | (family == "")
            for target in ("gap", "loss_gap"):
                assert trained_networks(scores, target, task, family) == own.sum()
    assert trained_networks(scores, "gap", "no such task") is None


def test_remote_and_notebook_say_how_many_were_trained_and_the_set_of_every_rank(
    made: tuple[Path, dict[str, Any]],
) -> None:
    folder, given = made
    networks = given["population"]
    for record in entry_records(read_document(folder), given["scores"]):
        for key, value in record.summary.items():
            scope, _, name = key.rpartition("/")
            if name == "models":
                task = scope.partition("/")[2]
                known = networks if task == "all" else networks[networks["task"] == task]
                assert record.summary[f"{scope}/trained"] == len(known) >= value
            if name == "rank":
                assert record.summary[f"{scope}/rank_low"] <= value <= record.summary[f"{scope}/rank_high"]
    found = ranked(given["scores"])
    assert found is not None
    assert list(found.table.columns[:4]) == ["rank", "rank_low", "rank_high", "proxy"]  # a remote table, too
    shown = re.findall(r"<td>(\d+ .*?)</td>", ranking_html(folder))
    ranks, counts = ([text for text in shown if (" of " in text) is counted] for counted in (False, True))
    assert all(re.fullmatch(r"\d+ \(\d+-\d+\)", rank) for rank in ranks)
    assert all(text.endswith(f" of {len(networks)}") for text in counts)
    assert len(counts) == len(found.table)


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.txt"
    write_atomically(path, "old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files_module.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_csv_quotes_what_must_be_quoted() -> None:
    from gapbench_leaderboard.board.csv_text import csv_text

    frame = pd.DataFrame({"a,b": ['say "no"', "line\nbreak", None], "x": [1 / 3, np.nan, 2.0]})
    assert csv_text(frame) == '"a,b",x\n"say ""no""",0.3333333333333333\n"line\nbreak",\n,2.0\n'
    assert list(csv.reader(io.StringIO(csv_text(frame))))[1] == ['say "no"', "0.3333333333333333"]
