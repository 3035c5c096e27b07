"""wandb as a mirror: offline runs read back record by record, repair after a kill, bounded time."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gapbench_leaderboard.board import publishing
from gapbench_leaderboard.board.mirror import entry_records, identifier, leaderboard_identifier
from gapbench_leaderboard.board.publishing import offline_runs, publish, remove_offline
from gapbench_leaderboard.board.pulling import pull
from gapbench_leaderboard.scores import TableError
from leaderboard.board_cases import AWKWARD, board

NAMES = (AWKWARD[0] + AWKWARD[1], AWKWARD[4] + AWKWARD[6] + 200 * "x")
"""Quotes, markup, emoji, commas, a line's end, more than 200 letters."""
WANDB = shutil.which(
    "wandb", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("published") / "board"
    return folder, board(folder, ("one",), 2, 2, ["broken", *NAMES])


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_suites_of_one_name_and_other_text_never_share_a_run(made: tuple[Path, dict[str, Any]]) -> None:
    folder, given = made
    document = json.loads((folder / "data.json").read_text())
    found = []
    for fingerprint in (None, "1" * 16, "2" * 16):
        suite = document["suite"] | ({"fingerprint": fingerprint} if fingerprint else {})
        records = entry_records({**document, "suite": suite}, given["scores"])
        found += [record.identifier for record in records] + [leaderboard_identifier(suite)]
        assert all(record.config.get("suite_fingerprint") == fingerprint for record in records)
    assert len(set(found)) == len(found)


def inspected(path: Path) -> list[dict[str, Any]]:
    assert WANDB is not None
    text = subprocess.run(
        [WANDB, "leet", "inspect", "--json", str(path)], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in text.stdout.splitlines()]


def test_records_hold_the_scores_and_nothing_undefined(made: tuple[Path, dict[str, Any]]) -> None:
    folder, given = made
    document = json.loads((folder / "data.json").read_text())
    records = entry_records(document, given["scores"])
    labels = [entry["label"] for entry in document["proxies"]]
    assert [record.config["label"] for record in records] == labels
    for record, label in zip(records, labels):
        assert record.name == label if len(label) <= 128 else len(record.name) <= 128  # wandb's limit
    assert len({record.name for record in records}) == len(labels)
    assert len({record.identifier for record in records}) == len(records)
    for record in records:
        for key, value in record.summary.items():
            target, scope, estimator = key.split("/")
            column = "value"
            if estimator == "trained":  # test_board_files counts them
                continue
            if estimator == "models":
                estimator, column = "tau", "models"
            for suffix in ("_low", "_high"):
                if estimator.endswith(suffix):
                    estimator, column = estimator.removesuffix(suffix), suffix[1:]
            task = "" if scope == "all" else scope
            scores = given["scores"]
            rows = scores[(scores["target"] == target) & (scores["task"] == task) & (scores["family"] == "")]
            rows = rows[(rows["proxy"] == record.config["label"]) & (rows["estimator"] == estimator)]
            assert [value] == list(rows[column])
    assert {record.tags[0] for record in records} == {"built_in", "baseline"}


def test_identifiers_follow_the_identity_and_not_the_scores(made: tuple[Path, dict[str, Any]]) -> None:
    folder, given = made
    document = json.loads((folder / "data.json").read_text())
    first = entry_records(document, given["scores"])
    again = entry_records(document, given["scores"].assign(value=0.25))
    assert [r.identifier for r in first] == [r.identifier for r in again]
    document["suite"]["version"] = 2
    changed = entry_records(document, given["scores"])
    assert not {r.identifier for r in first} & {r.identifier for r in changed}
    assert identifier({"a": 1, "b": 2}) == identifier({"b": 2, "a": 1})


@pytest.mark.slow
def test_offline_runs_equal_the_board_and_a_second_publish_repairs(
    made: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    if WANDB is None or subprocess.run([WANDB, "leet", "inspect", "--help"], capture_output=True).returncode:
        pytest.skip("needs a wandb that has `wandb leet inspect`")
    folder, given = made
    torn = (
        tmp_path
        / "publish"
        / "wandb"
        / f"offline-run-20260101_000000-{leaderboard_identifier({'name': 'made', 'version': 1})}"
    )
    torn.mkdir(parents=True)  # what a kill left behind
    (torn / "half.wandb").write_bytes(b"torn")
    result = publish(folder, project="demo", offline=True, folder=tmp_path / "publish", seconds=300)
    assert not torn.exists()
    assert result.command.startswith("wandb sync --yes --project demo ")
    document = json.loads((folder / "data.json").read_text())
    records = {record.identifier: record for record in entry_records(document, given["scores"])}
    runs = offline_runs(tmp_path / "publish", list(result.runs))
    assert len(runs) == len(records) + 1 == len(result.runs)
    with ThreadPoolExecutor(2) as pool:
        read = list(pool.map(inspected, runs))
    for path, found in zip(runs, read):
        number = path.name.rpartition("-")[2]
        run = next(record["run"] for record in found if record["type"] == "run")
        assert found[-1]["type"] == "exit"
        assert run["run_id"] == number
        if number not in records:
            tables = list((path / "files" / "media" / "table").glob("scores*.json"))
            columns = ["task", "family", "target", "proxy", "estimator", "value", "low", "high", "models"]
            shown = json.loads(tables[0].read_text())
            assert shown["columns"] == columns
            expected = [
                [None if cell != cell else cell for cell in row]
                for row in given["scores"][columns].itertuples(index=False)
            ]
            assert [[None if c == "NaN" else c for c in row] for row in shown["data"]] == expected
            continue
        summary: dict[str, Any] = {}
        for record in found:
            if record["type"] == "summary":
                summary |= record["summary"].get("update", {})
        kept = {key: value for key, value in summary.items() if not key.startswith("_")}
        assert kept == records[number].summary
        config = {key: value for key, value in run["config"]["update"].items() if not key.startswith("_")}
        assert config == records[number].config
        assert sorted(run["tags"]) == sorted(records[number].tags)
        assert not run.get("host")


def test_a_folder_that_cannot_be_written_is_named(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "publish").write_text("")
    with pytest.raises(
        TableError, match=f"the folder {re.escape(str(tmp_path / 'publish'))} cannot be written"
    ):
        publish(made[0], project="demo", offline=True, folder=tmp_path / "publish")


def test_only_own_offline_runs_are_replaced(tmp_path: Path) -> None:
    for name in ("offline-run-1-aaaa", "offline-run-2-bbbb", "other"):
        (tmp_path / "wandb" / name).mkdir(parents=True)
    remove_offline(tmp_path, ["aaaa"])
    assert sorted(os.listdir(tmp_path / "wandb")) == ["offline-run-2-bbbb", "other"]


def test_a_host_that_never_answers_ends_offline_in_bounded_time(
    made: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        tries = []
        real = publishing._upload

        def limited(specification: dict[str, Any], seconds: float) -> tuple[list[str], str]:
            tries.append(specification["offline"])
            if specification["offline"]:
                runs = [*specification["records"], specification["leaderboard"]]
                return [run["identifier"] for run in runs], ""
            return real(specification, 8)

        monkeypatch.setattr(publishing, "_upload", limited)
        result = publish(made[0], project="demo", folder=tmp_path / "publish", seconds=8)
    assert tries == [False, True]
    assert "wandb took 0 of" in result.why
    assert result.folder is not None


@pytest.mark.parametrize("project", ["", "a/b", "-x", "x" * 129])
def test_bad_project_names_are_refused(
    made: tuple[Path, dict[str, Any]], tmp_path: Path, project: str
) -> None:
    with pytest.raises(TableError, match="--wandb-project"):
        publish(made[0], project=project, offline=True, folder=tmp_path)


def test_a_folder_without_board_is_said(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="holds no board"):
        publish(tmp_path, project="demo", offline=True, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "is not the data of a board"),
        ('{"suite": {"name": "made"}}', "is not the data of a board"),
        ("not JSON", "is not the data of a board"),
        ('{"format": 99, "suite": {"name": "made"}}', "is of format 99"),
    ],
)
def test_boards_of_other_versions_and_no_boards_are_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "data.json").write_text(text)
    with pytest.raises(TableError, match=words):
        publish(tmp_path, project="demo", offline=True, folder=tmp_path / "publish")


@pytest.mark.parametrize("suite", ["../up", "a/b", "..", ""])
def test_a_suite_that_is_a_path_is_no_suite(tmp_path: Path, suite: str) -> None:
    with pytest.raises(TableError, match="no name of a suite"):
        pull(suite, project="demo", folder=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
