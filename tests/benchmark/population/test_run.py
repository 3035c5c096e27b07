"""Whole runs of a tiny suite: resume, kills, failures, exclusion, tables, board."""

import csv
import json
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest
import torch

import gapbench
from benchmark.run_cases import children, count, rows, same, start
from benchmark.tiny_suite import LABELS, TINY
from gapbench import GapbenchError


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def finished(suite_file, tmp_path_factory):
    """A complete run, never changed by a test."""
    return gapbench.run(suite_file, tmp_path_factory.mktemp("run"), device="cpu", workers=2)


def test_tables_have_the_documented_columns(finished):
    assert (
        list(finished.population.columns[:13])
        == (
            "cell task family width seed status train_error test_error gap loss_gap parameters train_size test_size"
        ).split()
    )
    assert "learning_rate" in finished.population.columns
    assert len(finished.population) == 12
    assert finished.population["cell"].is_unique
    assert set(finished.measurements["proxy"]) == set(LABELS)
    assert len(finished.measurements) == 60
    assert not finished.measurements.duplicated(["cell", "proxy"]).any()
    gap = finished.population["test_error"] - finished.population["train_error"]
    assert (gap == finished.population["gap"]).all()
    assert not finished.problems
    assert not finished.failures


def test_measurements_are_what_measure_gives(finished):
    """The stored values can be recomputed from the weight files with the public functions alone."""
    from gapbench.runs.weight_location import weights_of
    from gapbench.runs.weights import load_weights

    row = finished.population.iloc[0]
    _, final = load_weights(weights_of(finished.folder, row["cell"]), None)
    task = gapbench.load_task("separable", shape=(1, 4, 4), train_size=60, test_size=200)
    network = gapbench.build_model("plain/mlp", row["width"], (1, 4, 4), 2, seed=99)
    network.load_state_dict(final)
    network.eval()
    with torch.no_grad():
        wrong = (network(task.test.inputs).argmax(1) != task.test.targets).double().mean()
    assert float(wrong) == pytest.approx(row["test_error"], abs=1e-12)
    found = finished.measurements.set_index(["cell", "proxy"])["value"]
    norm = gapbench.measure("param_norm", network, task.train.inputs, task.train.targets)
    assert found[row["cell"], "param_norm"] == norm.value
    from gapbench_tasks.selection import stratified_subset

    chosen = stratified_subset(task.train.targets.numpy(), 40, "measure_samples", 0)
    sharp = gapbench.measure(
        "sharpness_full", network, task.train.inputs[chosen], task.train.targets[chosen], radius=0.1, steps=3
    )
    assert found[row["cell"], "sharpness_full[radius=0.1]"] == pytest.approx(sharp.value, rel=1e-6)


def test_a_second_call_changes_nothing(finished, suite_file):
    before = rows(finished.folder, "cells"), rows(finished.folder, "measurements")
    again = gapbench.run(suite_file, finished.folder, device="cpu")
    assert before == (rows(finished.folder, "cells"), rows(finished.folder, "measurements"))
    same(finished, again)


@pytest.mark.slow
def test_limit_then_all_equals_all_at_once(finished, suite_file, tmp_path):
    part = gapbench.run(suite_file, tmp_path, device="cpu", limit=4, proxies=["param_norm"], board=False)
    assert len(part.population) == 4
    assert set(part.measurements["proxy"]) == {"param_norm"}
    assert "Incomplete: 4 of the suite's 12" in part.notes()[0]
    same(finished, gapbench.run(suite_file, tmp_path, device="cpu", workers=1, board=False))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "who"),
    [(("cells", 1), "everyone"), (("cells", 5), "driver"), (("measurements", 7), "everyone")],
)
def test_kill_minus_9_at_any_moment_then_the_same_command(finished, suite_file, tmp_path, moment, who):
    table, least = moment
    process = start(suite_file, tmp_path)
    deadline = time.monotonic() + 240
    while count(tmp_path, table) < least and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = children(process.pid)
    if who == "everyone":
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = rows(tmp_path, "cells"), rows(tmp_path, "measurements")
    assert len(before[0]) >= (1 if table == "measurements" else least)
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{w}").exists() for w in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{w}").exists() for w in workers)  # no orphan goes on working
    result = gapbench.run(suite_file, tmp_path, device="cpu", board=False)
    after = rows(tmp_path, "cells"), rows(tmp_path, "measurements")
    assert set(before[0]) <= set(after[0])
    assert set(before[1]) <= set(after[1])
    assert (len(after[0]), len(after[1])) == (12, 60)
    same(finished, result)


@pytest.mark.slow
def test_killed_workers_alone_are_replaced(finished, suite_file, tmp_path):
    process = start(suite_file, tmp_path)
    deadline = time.monotonic() + 240
    while count(tmp_path, "cells") < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    for worker in children(process.pid):
        os.kill(worker, signal.SIGKILL)
    assert process.wait(timeout=240) == 0
    same(finished, gapbench.open_run(tmp_path))


def test_a_second_driver_is_refused(suite_file, tmp_path):
    from gapbench.runs.lock import sole_driver

    with sole_driver(tmp_path):
        process = start(suite_file, tmp_path)
        _, error = process.communicate(timeout=120)
    assert process.returncode == 2
    assert f"pid {os.getpid()}" in error
    assert "Traceback" not in error


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "missing", "flipped"])
def test_a_damaged_weight_file_is_restored_bit_for_bit(suite_file, tmp_path, damage):
    first = gapbench.run(suite_file, tmp_path, device="cpu", limit=2, proxies=["random"], board=False)
    path = tmp_path / "weights" / f"{first.population['cell'][0]}.safetensors"
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        changed = content[:-100] if damage == "truncated" else content[:-1] + bytes([content[-1] ^ 1])
        path.write_bytes(changed)
    messages = []

    class Listener:
        def begin(self, *_):
            pass

        trained = measured = about = left = begin

        def message(self, text):
            messages.append(text)

    before = rows(tmp_path, "cells"), rows(tmp_path, "measurements")
    result = gapbench.run(
        suite_file,
        tmp_path,
        device="cpu",
        limit=2,
        proxies=["random", "param_norm"],
        board=False,
        progress=Listener(),
    )
    assert path.read_bytes() == content
    assert any(str(path) in m for m in messages)
    assert any("restored, bit for bit" in m for m in messages)
    assert rows(tmp_path, "cells") == before[0]
    assert set(before[1]) < set(rows(tmp_path, "measurements"))
    assert len(result.measurements) == 4


def test_weights_that_cannot_be_restored_are_a_problem_not_a_silent_loss(suite_file, tmp_path, monkeypatch):
    """Another machine may train to other bits: then the file is not replaced and the run says so."""
    first = gapbench.run(suite_file, tmp_path, device="cpu", limit=1, proxies=["random"], board=False)
    cell = first.population["cell"][0]
    (tmp_path / "weights" / f"{cell}.safetensors").unlink()
    db = sqlite3.connect(tmp_path / "run.sqlite")
    db.execute("DROP TRIGGER cells_keep")
    db.execute("UPDATE cells SET weights_sha256 = 'other'")
    db.commit()
    db.close()
    result = gapbench.run(suite_file, tmp_path, device="cpu", limit=1, proxies=["param_norm"], board=False)
    assert any("did not give the recorded weights" in p for p in result.problems)
    assert not (tmp_path / "weights" / f"{cell}.safetensors").exists()
    assert len(result.population) == 1


def test_another_suite_or_text_in_the_same_folder_is_refused(finished, suite_file, tmp_path):
    other = tmp_path / "tiny.toml"
    for old, new in (('"tiny"', '"other"'), ("samples = 40", "samples = 41"), ("version = 1", "version = 2")):
        other.write_text(TINY.replace(old, new))
        with pytest.raises(GapbenchError, match=r"Choose another folder.*nothing was changed"):
            gapbench.run(other, finished.folder, device="cpu")


def test_a_network_that_cannot_be_built_is_a_failed_row_and_can_be_retried(tmp_path):
    text = TINY.replace('family = ["plain/mlp"]', 'family = ["plain/linear"]').replace(
        "stop_loss = 0.2", "depth = 3"
    )
    path = tmp_path / "bad.toml"
    path.write_text(text)
    result = gapbench.run(path, tmp_path / "run", device="cpu", limit=2, board=False)
    assert set(result.population["status"]) == {"failed"}
    assert result.population["gap"].isna().all()
    assert len(result.failures) == 2
    assert "depth" in result.failures[0]
    assert len(result.measurements) == 0
    gapbench.run(path, tmp_path / "run", device="cpu", limit=2, board=False)
    assert count(tmp_path / "run", "cells") == 2
    again = gapbench.run(path, tmp_path / "run", device="cpu", limit=2, board=False, retry_failed=True)
    assert count(tmp_path / "run", "cells") == 4
    assert len(again.population) == 2


def test_data_that_a_task_cannot_give_are_refused_under_its_name(tmp_path):
    text = """
name = "large"
version = 1
[measure]
proxies = ["param_norm"]
[[grid]]
task = "digits_rotations"
task_options = { train_size = 100000 }
[grid.axes]
family = ["plain/mlp"]
width = [1]
seed = [0]
"""
    (tmp_path / "large.toml").write_text(text)
    with pytest.raises(
        GapbenchError, match=r"^The task digits_rotations: train_size = 100000 is not possible"
    ):
        gapbench.run(tmp_path / "large.toml", tmp_path / "run", workers=0)


def test_how_many_proxies_a_group_stands_for_is_said_beforehand():
    from click.testing import CliRunner

    from gapbench.cli import cli
    from gapbench.proxies.registry import expanded

    central = len(expanded(["central"]))
    words = ["run", "no such suite", "--proxies", "central"]
    first = f"--proxies central: {central} proxies, those of the suite with its options, in place of its own."
    assert CliRunner().invoke(cli, words).output.splitlines()[0] == first
    assert first not in CliRunner().invoke(cli, [*words, "--quiet"]).output


def test_data_that_differ_in_distribution_are_kept_off_the_board(tmp_path):
    text = TINY.replace('"separable"', '"digits_rotations"').replace(
        "shape = [1, 4, 4], train_size = 60, test_size = 200",
        "train_size = 60, angles = [0, 90], test_angles = [90, 180]",
    )
    path = tmp_path / "shift.toml"
    path.write_text(text)
    result = gapbench.run(path, tmp_path / "run", device="cpu", limit=2, proxies=["random"], board=False)
    assert (result.population["shift"] == 1).all()
    assert len(result.rankable()) == 0
    assert any("different distributions" in note for note in result.notes())


def test_unofficial_data_are_marked_in_every_result(tmp_path):
    import numpy as np

    generator = np.random.default_rng(0)
    np.savez(
        tmp_path / "mnist.npz",
        x_train=generator.integers(0, 256, (200, 28, 28), dtype=np.uint8),
        y_train=(np.arange(200) % 10).astype(np.uint8),
        x_test=generator.integers(0, 256, (50, 28, 28), dtype=np.uint8),
        y_test=(np.arange(50) % 10).astype(np.uint8),
    )
    text = TINY.replace('"separable"', '"mnist_rotations"').replace(
        "shape = [1, 4, 4], train_size = 60, test_size = 200", "train_size = 60"
    )
    path = tmp_path / "own.toml"
    path.write_text(text)
    result = gapbench.run(
        path, tmp_path / "run", device="cpu", data_dir=tmp_path, limit=1, proxies=["random"], board=False
    )
    assert set(result.population["source"]) == {"unofficial"}
    assert any("not the official release" in note for note in result.notes())


def test_environment_and_descriptions_are_kept(finished):
    with sqlite3.connect(finished.folder / "run.sqlite") as db:
        meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
        description = json.loads(db.execute("SELECT description FROM cells LIMIT 1").fetchone()[0])
    environment = next(json.loads(v) for k, v in meta.items() if k.startswith("environment"))
    assert (
        environment["versions"]["torch"] == torch.__version__.split("+")[0]
        or environment["versions"]["torch"]
    )
    assert environment["device"] == "cpu"
    assert set(description) == {"protocol", "task", "family", "width", "training", "seed"}
    assert len(description["task"]["fingerprint"]) == 64


def test_scores_and_board_come_from_the_tables(finished):
    scores = finished.scores(targets=("gap",), replicates=50)
    assert list(scores.columns) == "task family target proxy estimator value low high models".split()
    converged = finished.population[finished.population["status"] == "converged"]
    merged = finished.measurements.merge(converged, on="cell", suffixes=("", "_cell"))
    chosen = merged[merged["proxy"] == "param_norm"]
    from scipy.stats import kendalltau

    expected = kendalltau(chosen["value"], chosen["gap"]).statistic
    mine = scores[
        (scores["proxy"] == "param_norm")
        & (scores["estimator"] == "tau_b")
        & (scores["task"] == "separable")
        & (scores["family"] == "plain/mlp")
    ]
    assert float(mine["value"].iloc[0]) == pytest.approx(expected, abs=1e-12)
    assert int(mine["models"].iloc[0]) == len(converged)
    board = finished.folder / "board"
    assert {p.name for p in board.iterdir()} >= {
        "scores.csv",
        "population.csv",
        "measurements.csv",
        "board.md",
        "index.html",
        "data.json",
    }
    with (board / "population.csv").open(newline="") as stream:
        gaps = [float(row["gap"]) for row in csv.DictReader(stream)]
    assert gaps == finished.population["gap"].tolist()
