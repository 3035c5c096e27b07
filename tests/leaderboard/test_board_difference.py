"""Differences between boards: what is new, what is gone, what is noise."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import norm

from gapbench.cli import main
from gapbench_leaderboard.board.csv_text import csv_text
from gapbench_leaderboard.board.difference import difference, difference_text
from gapbench_leaderboard.board.scores_file import read_scores
from gapbench_leaderboard.scores import COLUMNS, TableError


def scores(values: dict[str, tuple[float, float, float]]) -> pd.DataFrame:
    rows = []
    for proxy, numbers in values.items():
        for estimator, number in zip(("tau", "tau_standard_error", "rank"), numbers):
            rows.append(("", "", "gap", proxy, estimator, number, math.nan, math.nan, 10))
    return pd.DataFrame(rows, columns=COLUMNS)


def test_every_kind_of_change() -> None:
    before = scores(
        {"same": (0.5, 0.1, 1), "gone": (0.1, 0.1, 2), "moved": (0.1, 0.03, 3), "noisy": (0.2, 0.1, 2)}
    )
    after = scores(
        {"same": (0.5, 0.1, 1), "new": (0.3, 0.1, 1), "moved": (0.4, 0.04, 1), "noisy": (0.25, 0.1, 2)}
    )
    table = difference(before, after).set_index("proxy")
    assert dict(table["change"]) == {
        "same": "same", "gone": "removed", "new": "added", "moved": "significant", "noisy": "within noise",
    }  # fmt: skip
    raw = 2 * norm.sf(0.3 / 0.05)
    assert table.loc["moved", "p"] == pytest.approx(2 * raw, rel=1e-6)  # Holm: two headlines differ
    assert table.loc["noisy", "p"] == pytest.approx(2 * norm.sf(0.05 / math.hypot(0.1, 0.1)), rel=1e-6)
    text = difference_text(difference(before, after))
    assert "added    new: tau 0.300" in text
    assert "removed  gone: tau 0.100" in text
    assert "rank 3 -> 1" in text
    assert "same" not in text


def test_ranks_are_told_with_the_sets_that_they_lie_in() -> None:
    sets = [("rank_low", 1.0), ("rank_high", 6.0)]
    rows = [("", "", "gap", "x", name, number, math.nan, math.nan, 10) for name, number in sets]
    known = pd.concat([scores({"x": (0.5, 0.1, 3)}), pd.DataFrame(rows, columns=COLUMNS)])
    assert "rank 3 -> 3 (1-6)" in difference_text(difference(scores({"x": (0.4, 0.1, 3)}), known))


def test_boards_of_few_configurations_prove_nothing() -> None:
    def few(tau: float, error: float, flag: float) -> pd.DataFrame:
        row = ("", "", "gap", "x", "unreliable", flag, math.nan, math.nan, 10)
        return pd.concat([scores({"x": (tau, error, 1)}), pd.DataFrame([row], columns=COLUMNS)])

    for before, after in ((0.0, 1.0), (1.0, 0.0), (1.0, 1.0)):
        table = difference(few(0.2, 0.1, before), few(1.0, 0.0, after))
        assert list(table["change"]) == ["too few configurations"]
        assert math.isnan(table["p"].iloc[0])
        assert "(too few configurations)" in difference_text(table)
    assert list(difference(few(0.2, 0.1, 0.0), few(1.0, 0.0, 0.0))["change"]) == ["significant"]


def test_an_undefined_tau_is_no_change_of_value() -> None:
    table = difference(
        scores({"x": (math.nan, math.nan, math.nan)}), scores({"x": (math.nan, math.nan, math.nan)})
    )
    assert list(table["change"]) == ["same"]
    table = difference(scores({"x": (math.nan, math.nan, 1)}), scores({"x": (0.3, 0.1, 1)}))
    assert list(table["change"]) == ["within noise"]


def test_a_board_equals_itself_read_from_disk(tmp_path: Path) -> None:
    made = scores({"NA": (1 / 3, 0.1, 1), "007": (0.1 + 0.2, 0.1, 2)})
    (tmp_path / "board").mkdir()
    (tmp_path / "board" / "scores.csv").write_text(csv_text(made))
    table = difference(made, read_scores(tmp_path))
    assert set(table["change"]) == {"same"}
    assert sorted(table["proxy"]) == ["007", "NA"]


def test_boards_without_anything_in_common_cannot_be_compared() -> None:
    with pytest.raises(TableError, match="nothing can be compared"):
        difference(scores({"x": (0.1, 0.1, 1)}), scores({"y": (0.1, 0.1, 1)}))


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", ",".join(COLUMNS) + "\n,,gap,x,tau,high,,,3\n"])
def test_what_is_no_board_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "scores.csv").write_text(text)
    with pytest.raises(TableError, match=r"scores\.csv"):
        read_scores(tmp_path)
    with pytest.raises(TableError, match=r"there is no scores\.csv"):
        read_scores(tmp_path / "nowhere")


def test_boards_of_different_suites_are_compared_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "scores.csv").write_text(csv_text(scores({"x": (0.5, 0.1, 1)})))
        (folder / "data.json").write_text(json.dumps({"suite": {"name": "made", "version": number}}))

    def said(before: int, after: int) -> str:
        with pytest.raises(SystemExit) as stop:
            main(["diff", str(tmp_path / str(before)), str(tmp_path / str(after))])
        assert stop.value.code == 0
        return capsys.readouterr().err

    assert "different suites (made version 1, made version 2)" in said(1, 2)
    assert said(1, 1) == ""


def test_a_folder_that_cannot_be_written_is_one_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> pd.DataFrame:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("gapbench_leaderboard.board.scores_file.read_scores", refused)
    with pytest.raises(SystemExit) as stop:
        main(["diff", "locked", "other"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == "Error: Permission denied: locked\n"
