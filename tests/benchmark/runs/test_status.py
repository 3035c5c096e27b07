"""How far a run is, told from beside it; doing again what failed; removing what nothing needs."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import gapbench
from benchmark.run_cases import rows, same
from benchmark.runs.test_merging import changed, content, environment
from benchmark.tiny_suite import TINY
from gapbench.commands.status import status_command
from gapbench.retrying import retry
from gapbench.runs.collecting import collect
from gapbench.runs.lock import sole_driver
from gapbench.runs.run import open_run
from gapbench.runs.session import ASKED
from gapbench.runs.status import status_of, worker_of
from gapbench.runs.store import Store
from gapbench_base.errors import GapbenchError


def told(run: Path) -> dict[str, object]:
    done = CliRunner().invoke(status_command, [str(run), "--json"], catch_exceptions=False)
    found: dict[str, object] = json.loads(done.output)
    return found


def test_a_finished_run_is_told_as_its_tables_have_it(trained: Path) -> None:
    before = content(trained)
    found = status_of(trained)
    run = open_run(trained)
    assert found.networks == dict(Counter(run.population["status"]))
    assert found.measurements == dict(Counter(run.measurements["status"]))
    assert (found.planned, found.wanted, found.process, found.shard) == (12, 24, None, None)
    (group,) = found.groups
    assert (group.task, group.family, group.planned, group.done, group.failed, group.running) == (
        "separable", "plain/mlp", 12, 12, 0, 0,
    )  # fmt: skip
    assert (found.running_networks, found.running_measurements, found.failures) == (0, 0, ())
    assert found.seconds_left is found.networks_per_hour is None
    assert content(trained) == before
    assert told(trained)["networks"] == found.networks
    text = CliRunner().invoke(status_command, [str(trained)], catch_exceptions=False).output
    assert "Networks: 12 of 12 (" in text
    assert "Measurements: 24 of 24 (24 ok)." in text
    assert "No process of this machine works on it." in text


def half_done(run: Path) -> tuple[list[str], float]:
    """As if a process had been at work for a hundred seconds: half is done, a network and a proxy are under way."""
    cells = [
        row[0] for row in sqlite3.connect(run / "run.sqlite").execute("SELECT cell FROM cells ORDER BY rowid")
    ]
    began = time.time() - 100
    kept = ", ".join(f"'{cell}'" for cell in cells[:6])
    key = (
        sqlite3.connect(run / "run.sqlite")
        .execute("SELECT measurement FROM measurements WHERE cell = ? AND label = 'random'", (cells[5],))
        .fetchone()[0]
    )
    changed(
        run,
        f"DELETE FROM measurements WHERE cell NOT IN ({kept}) OR measurement = '{key}'",
        f"DELETE FROM cells WHERE cell NOT IN ({kept})",
        f"UPDATE cells SET finished = {began + 50}, seconds = 10, status = 'converged'",
        f"UPDATE measurements SET finished = {began + 60}, seconds = 2",
        "DELETE FROM attempts",
        f"INSERT INTO attempts VALUES ('{cells[6]}', {began + 70}, 1)",
        f"INSERT INTO attempts VALUES ('{cells[0]}', {began + 10}, 1)",  # has ended since
        f"INSERT INTO attempts VALUES ('{key}', {began + 70}, 2)",
        f"INSERT INTO attempts VALUES ('{cells[7]}', {began - 70}, 2)",  # of a process before
    )
    with Store(run) as store:
        store.set_meta(ASKED, store.meta(ASKED) | {"began": began})
    return cells, began


def test_rate_and_time_left_are_those_of_the_numbers(run_folder: Path) -> None:
    half_done(run_folder)
    assert status_of(run_folder).seconds_left is None  # nobody works on it
    with sole_driver(run_folder):
        assert worker_of(run_folder) is not None
        found = status_of(run_folder)
    assert (sum(found.networks.values()), sum(found.measurements.values()), found.wanted) == (6, 11, 24)
    assert (found.running_networks, found.running_measurements) == (1, 1)
    assert found.groups[0].running == 1
    assert found.networks_per_hour == pytest.approx(6 * 36, rel=0.05)
    assert found.measurements_per_hour == pytest.approx(11 * 36, rel=0.05)
    # 6 networks of 10 s and 11 measurements of 2 s took 100 s; 6 of 10 s and 13 of 2 s are left
    assert found.seconds_left == pytest.approx(100 * (60 + 26) / (60 + 22), rel=0.05)
    assert worker_of(run_folder) is None


def test_a_limit_and_a_part_are_what_is_planned(tmp_path: Path) -> None:
    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY)
    gapbench.run(
        suite,
        tmp_path / "run",
        device="cpu",
        workers=0,
        proxies=["random"],
        limit=2,
        shard="1/3",
        board=False,
    )
    found = status_of(tmp_path / "run")
    assert (found.planned, found.wanted, found.shard, sum(found.networks.values())) == (2, 2, "1/3", 2)


def test_failures_are_told_with_their_reasons_and_done_again(trained: Path, run_folder: Path) -> None:
    changed(
        run_folder,
        "UPDATE cells SET status = 'failed', reason = 'no memory', weights_sha256 = NULL WHERE rowid = 2",
        "DELETE FROM measurements WHERE cell = (SELECT cell FROM cells WHERE rowid = 2)",
        "UPDATE measurements SET status = 'failed', value = NULL, reason = 'too slow' WHERE rowid = 7",
        "DELETE FROM measurements WHERE rowid = 9",  # never made
    )
    lost, never = 2, 1
    found = status_of(run_folder)
    assert [(own.label, own.reason) for own in found.failures] in (
        [("", "no memory"), (found.failures[1].label, "too slow")],
        [(found.failures[0].label, "too slow"), ("", "no memory")],
    )
    assert (found.networks["failed"], found.measurements["failed"], found.groups[0].failed) == (1, 1, 1)
    text = CliRunner().invoke(status_command, [str(run_folder)], catch_exceptions=False).output
    assert "2 failed (again: gapbench retry" in text
    assert "(separable, plain/mlp): no memory" in text
    done = retry(run_folder, device="cpu", workers=0)
    assert done.networks == 2
    assert done.run.failures == []
    assert len(done.run.measurements) == 24 - never  # what was never tried stays so
    assert sum(row[7] == "failed" for row in rows(run_folder, "cells")) == 1  # its attempt stays
    assert lost == done.networks
    again = retry(run_folder, device="cpu", workers=0)
    assert again.networks == 0
    whole = gapbench.run(run_folder, device="cpu", workers=0, proxies=["param_norm", "random"], board=False)
    same(whole, open_run(trained))


def test_what_was_never_begun_is_left_alone(tmp_path: Path) -> None:
    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY)
    run = tmp_path / "run"
    gapbench.run(suite, run, device="cpu", workers=0, proxies=["random"], limit=3, board=False)
    changed(run, "UPDATE cells SET status = 'failed', weights_sha256 = NULL WHERE rowid = 1")
    assert len(retry(run, device="cpu", workers=0).run.population) == 3
    assert status_of(run).planned == 3


def test_status_is_asked_while_a_process_works_and_does_not_disturb_it(trained: Path, tmp_path: Path) -> None:
    """Asked again and again, it hinders nothing, and what it says only grows."""
    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY)
    code = (
        "import gapbench\n"
        f"gapbench.run({str(suite)!r}, {str(tmp_path / 'run')!r}, device='cpu', workers=0, board=False, "
        "proxies=['param_norm', 'random'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=environment()
    )
    seen: list[tuple[int, int]] = []
    holders: set[int | None] = set()
    while process.poll() is None:
        time.sleep(0.02)
        try:
            found = status_of(tmp_path / "run")
        except GapbenchError:
            continue  # not begun yet
        holders.add(found.process)
        seen.append((sum(found.networks.values()), sum(found.measurements.values())))
    assert process.stderr is not None
    assert process.wait() == 0, process.stderr.read()
    process.stderr.close()
    assert seen == sorted(seen)
    assert holders - {None} == {process.pid}
    assert status_of(tmp_path / "run").process is None
    same(open_run(tmp_path / "run"), open_run(trained))


def test_what_nothing_needs_is_removed_and_all_else_stays(run_folder: Path) -> None:
    weights = run_folder / "weights"
    lost = next(iter(sorted(weights.iterdir())))
    changed(
        run_folder,
        f"DELETE FROM measurements WHERE cell = '{lost.stem}'",
        f"DELETE FROM cells WHERE cell = '{lost.stem}'",
    )
    (weights / f".{'b' * 16}-tmpx1").write_bytes(b"half")
    (weights / "notes.txt").write_text("mine")
    (weights / "my.safetensors").write_text("mine")
    (run_folder / "entries").mkdir(exist_ok=True)
    (run_folder / "entries" / ".0123456789abcdef.json.ab12.partial").write_text("{")
    (run_folder / ".hidden").write_text("mine")
    (weights / f"{'c' * 16}.safetensors").symlink_to(lost)
    before = content(run_folder)
    expected = {
        str(lost),
        str(weights / f".{'b' * 16}-tmpx1"),
        str(next((run_folder / "entries").glob(".*"))),
    }
    shown = collect(run_folder, dry_run=True)
    assert {str(own.path) for own in shown} == expected
    assert sum(own.size for own in shown) == sum(Path(path).stat().st_size for path in expected)
    assert content(run_folder) == before
    assert collect(run_folder) == shown
    after = content(run_folder)
    gone = {str(run_folder / name) for name in before.keys() - after.keys()}
    assert gone - {str(weights / f"{'c' * 16}.safetensors")} == expected
    assert all(before[name] == after[name] for name in after)
    assert collect(run_folder) == []


def test_nothing_is_removed_while_a_process_works_there_or_where_there_is_no_run(
    run_folder: Path, tmp_path: Path
) -> None:
    (run_folder / "weights" / f"{'b' * 16}.safetensors").write_bytes(b"just written")
    with sole_driver(run_folder), pytest.raises(GapbenchError, match="is working on"):
        collect(run_folder)
    assert (run_folder / "weights" / f"{'b' * 16}.safetensors").exists()
    (tmp_path / "other").mkdir()
    for call in (collect, status_of, retry):
        with pytest.raises(GapbenchError, match="is no run"):
            call(tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []


def test_weights_of_what_failed_after_they_were_written_are_kept_while_a_row_names_them(
    run_folder: Path,
) -> None:
    assert collect(run_folder) == []
    changed(run_folder, "UPDATE cells SET status = 'diverged' WHERE rowid = 1")
    assert collect(run_folder) == []


def test_a_merged_run_says_nothing_of_who_asked_for_its_parts(trained: Path, tmp_path: Path) -> None:
    from gapbench.runs.merging import merge

    a = shutil.copytree(trained, tmp_path / "a")
    with Store(a) as store:
        store.set_meta(ASKED, store.meta(ASKED) | {"groups": [], "labels": ["param_norm"]})
    merge([a], tmp_path / "out")
    found = status_of(tmp_path / "out")
    assert (found.planned, found.wanted) == (12, 24)
    assert replace(found, folder="") == replace(
        status_of(tmp_path / "out"), folder="", last_result=found.last_result
    )
