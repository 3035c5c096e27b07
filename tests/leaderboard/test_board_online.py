"""wandb online, against a stand-in for its server: what arrives, publishing again, repair, fetching back."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gapbench_leaderboard.board import publishing
from gapbench_leaderboard.board.csv_text import csv_text
from gapbench_leaderboard.board.mirror import entry_records, leaderboard_identifier
from gapbench_leaderboard.board.publishing import publish, snapshot
from gapbench_leaderboard.board.pulling import pull
from gapbench_leaderboard.scores import TableError
from leaderboard.board_cases import board
from leaderboard.wandb_stand_in import StandIn, stand_in

pytest.importorskip("wandb", minversion="0.31", reason="the stand-in speaks as the server does to wandb 0.31")
LEADERBOARD = leaderboard_identifier({"name": "made", "version": 1})
SOURCES = {"source/mine-v1.py": "def mine(context):\n    return 'ü'\n", "entries/abc.json": '{"id": "abc"}'}


def account(patch: pytest.MonkeyPatch, server: StandIn, home: Path) -> None:
    for name in ("WANDB_MODE", "NETRC"):
        patch.delenv(name, raising=False)
    patch.setenv("HOME", str(home))
    patch.setenv("WANDB_BASE_URL", server.address)
    patch.setenv("WANDB_API_KEY", "0" * 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a board, two weight files, and a database whose last row is still in the log beside it."""
    run = tmp_path_factory.mktemp("online") / "run"
    board(run / "board", ("one",), 2, 2, ["broken", "plain"])
    (run / "weights").mkdir()
    for name in ("a", "b"):
        (run / "weights" / f"{name}.safetensors").write_bytes(name.encode() * 1000)
    return run


@pytest.fixture(scope="module")
def published(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIn]:
    """Published with weights; then again, after a proxy lost its score."""
    patch = pytest.MonkeyPatch()
    database = sqlite3.connect(folder / "run.sqlite")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE numbers (value REAL)")
    database.execute("INSERT INTO numbers VALUES (0.1)")
    database.commit()
    with stand_in() as server:
        account(patch, server, tmp_path_factory.mktemp("home"))
        for _ in range(2):
            result = publish(
                folder / "board",
                project="demo",
                folder=folder / "publish",
                seconds=240,
                weights=folder / "weights",
                database=folder / "run.sqlite",
                sources=SOURCES,
            )
            assert result.folder is None, result.why
        yield server
        patch.undo()
    database.close()


def contents(server: StandIn, name: str) -> dict[str, bytes]:
    artifact = server.versions(name)[-1]
    return {
        path: server.files[f"artifact/{artifact['id']}/{path}"] for path in artifact["manifest"]["contents"]
    }


def numbers(run: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in run["summary"].items() if not key.startswith("_")}


def test_every_entry_arrives_once_to_the_last_digit(folder: Path, published: StandIn) -> None:
    from gapbench_leaderboard.board.scores_file import read_scores

    document = json.loads((folder / "board" / "data.json").read_text())
    records = entry_records(document, read_scores(folder / "board"))
    assert set(published.runs) == {record.identifier for record in records} | {LEADERBOARD}
    assert set(published.complete) == set(published.runs)
    for record in records:
        run = published.runs[record.identifier]
        assert numbers(run) == record.summary
        config = {key: entry["value"] for key, entry in run["config"].items() if not key.startswith("_")}
        assert config == record.config
        assert sorted(run["tags"]) == sorted(record.tags)
        assert run["displayName"] == record.name
        assert run["jobType"] == "entry"
    assert [note for note in published.unknown if "/otel/" not in note] == []


def test_the_tables_hold_the_scores(folder: Path, published: StandIn) -> None:
    table = json.loads(contents(published, f"run-{LEADERBOARD}-scores")["scores.table.json"])
    data = json.loads((folder / "board" / "data.json").read_text())["scores"]
    columns = [
        column
        if isinstance(column, list)
        else [None if k < 0 else column["names"][k] for k in column["codes"]]
        for column in data.values()
    ]
    assert table["columns"] == list(data)
    assert table["data"] == [list(row) for row in zip(*columns)]


def test_the_artifacts_hold_board_sources_and_weights_and_a_second_time_adds_no_version(
    folder: Path, published: StandIn
) -> None:
    found = contents(published, "gapbench-board-made")
    files = {path.name: path.read_bytes() for path in (folder / "board").iterdir()}
    assert found == files | {name: text.encode() for name, text in SOURCES.items()}
    assert len(published.versions("gapbench-board-made")) == 1
    assert set(published.versions("gapbench-board-made")[0]["aliases"]) >= {"latest", "suite-made-v1"}
    weights = contents(published, "gapbench-board-made-weights")
    assert weights["weights/a.safetensors"] == b"a" * 1000
    assert len(published.versions("gapbench-board-made-weights")) == 1


def test_a_population_comes_back_as_it_was(folder: Path, published: StandIn, tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"no somebody/demo/gapbench-board-other-weights:latest"):
        pull("other", project="demo", folder=tmp_path / "other", seconds=120)
    assert list(tmp_path.iterdir()) == []
    run = pull("made", project="demo", version="1", folder=tmp_path / "run", seconds=120)
    for name in ("a", "b"):
        assert (run / "weights" / f"{name}.safetensors").read_bytes() == name.encode() * 1000
    assert (run / "board" / "scores.csv").exists()
    assert (run / "entries" / "abc.json").read_text() == '{"id": "abc"}'
    with sqlite3.connect(run / "run.sqlite") as database:
        assert database.execute("SELECT value FROM numbers").fetchall() == [(0.1,)]
    database.close()
    with pytest.raises(TableError, match="exists already"):
        pull("made", project="demo", folder=run)


def test_a_number_that_is_no_longer_defined_goes_away(
    folder: Path, published: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = board(tmp_path / "board", ("one",), 2, 2, ["broken", "plain"])
    scores = given["scores"]
    changed = scores[~((scores["proxy"] == "plain") & (scores["estimator"] == "tau_b"))]
    (tmp_path / "board" / "scores.csv").write_text(csv_text(changed))
    document = json.loads((tmp_path / "board" / "data.json").read_text())
    record = next(r for r in entry_records(document, scores) if r.name == "plain")
    assert "gap/all/tau_b" in numbers(published.runs[record.identifier])
    specification = publishing.specify(tmp_path / "board", "demo", None, None, None)
    others = [r["identifier"] for r in specification["records"] if r["identifier"] != record.identifier]
    specification |= {"offline": False, "folder": str(tmp_path), "done": [*others, LEADERBOARD]}
    assert publishing._upload(specification, 120) == ([record.identifier], "")
    assert "gap/all/tau_b" not in numbers(published.runs[record.identifier])
    assert "gap/all/tau" in numbers(published.runs[record.identifier])


@pytest.mark.slow
def test_killed_in_the_middle_a_second_publish_completes_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stand_in() as server:
        account(monkeypatch, server, tmp_path)
        real = publishing._upload
        server.broken_after = 2  # the third run never ends, until the process is killed

        class Killed(subprocess.Popen[bytes]):
            """Its time is over soon after the server has two runs, however long they took."""

            def wait(self, timeout: float | None = None) -> int:
                end = time.monotonic() + (timeout or 0.0)
                while len(server.complete) < 2 and time.monotonic() < end:
                    time.sleep(0.1)
                return super().wait(None if timeout is None else 3.0)

        def upload(specification: Mapping[str, Any], seconds: float) -> tuple[list[str], str]:
            with monkeypatch.context() as patch:
                if not specification["offline"]:
                    patch.setattr(publishing.subprocess, "Popen", Killed)
                return real(specification, 120)

        monkeypatch.setattr(publishing, "_upload", upload)
        torn = publish(folder / "board", project="demo", folder=tmp_path / "publish", seconds=20)
        taken = set(server.complete)
        assert torn.folder is not None
        assert "took 2 of" in torn.why
        assert len(taken) == 2
        offline = {path.name.rpartition("-")[2] for path in torn.folder.glob("offline-run-*")}
        assert offline == set(torn.runs) - taken
        server.broken_after = None
        monkeypatch.setattr(publishing, "_upload", real)
        whole = publish(folder / "board", project="demo", folder=tmp_path / "publish", seconds=240)
        assert whole.folder is None, whole.why
        assert set(server.complete) == set(server.runs) == set(torn.runs)
        assert len(server.versions("gapbench-board-made")) == 1


def test_a_snapshot_has_what_is_still_in_the_log(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "run.sqlite")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE numbers (value REAL)")
    database.executemany("INSERT INTO numbers VALUES (?)", [(0.5,), (0.25,)])
    database.commit()
    copy = snapshot(tmp_path / "run.sqlite", tmp_path / "copy.sqlite")
    bare = tmp_path / "alone" / "copy.sqlite"
    bare.parent.mkdir()
    bare.write_bytes(copy.read_bytes())  # without any file beside it
    with sqlite3.connect(bare) as alone:
        assert alone.execute("SELECT value FROM numbers").fetchall() == [(0.5,), (0.25,)]
    alone.close()
    database.close()
    (tmp_path / "bad.sqlite").write_bytes(b"nothing" * 100)
    with pytest.raises(TableError, match="cannot be read"):
        snapshot(tmp_path / "bad.sqlite", tmp_path / "other.sqlite")
