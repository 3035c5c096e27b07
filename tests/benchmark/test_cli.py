import json
import os
import subprocess
import sys

import pytest

from benchmark.tiny_suite import TINY
from gapbench_base.errors import GapbenchError


def gapbench(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "gapbench", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment},
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rnu"], ["Did you mean 'run'"]),
        (["run", "qick"], ["no suite 'qick'", "Did you mean 'quick'"]),
        (["run", "quick", "--proxies", "sharpnes_full"], ["Did you mean 'sharpness_full'"]),
        (["run", "quick", "--proxies", "centrl"], ["Did you mean 'central'"]),
        (["run", "quick", "--limit", "0"], ["--limit"]),
        (["run", "quick", "--device", "tpu"], ["--device"]),
        (["run", "quick", "--workers", "-1"], ["--workers"]),
        (["list", "things"], ["tasks"]),
        (["fetch", "imagenet"], ["cifar10"]),
        (["new", "class"], ["'class' is a word of Python's own", "class_proxy"]),
        (["info", "parm_norm"], ["Did you mean 'param_norm'"]),
        (["entries", "nowhere"], ["nowhere is no run"]),
        (["run", "quick", "--shard", "2/2"], ["--shard 2/2", "give 0/2 to 1/2"]),
        (["merge", "nowhere", "--out", "whole"], ["nowhere is no run"]),
        (["pack", "nowhere"], ["nowhere is no run"]),
        (["pull", "nowhere.zip"], ["There is no nowhere.zip"]),
        (["pull", "quick.zip", "--trial"], ["go with --wandb-project"]),
        (["status", "nowhere"], ["nowhere is no run"]),
        (["retry", "nowhere"], ["nowhere is no run"]),
        (["gc", "nowhere"], ["nowhere is no run"]),
        (["board", "nowhere"], ["nowhere", "no run"]),
        (["score", "nowhere.csv", "--axes", "a"], ["nowhere.csv"]),
    ],
)
def test_mistakes_give_exit_code_2_one_message_and_no_traceback(arguments, words, tmp_path):
    done = gapbench(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_axes_is_told_which_columns_it_has(tmp_path):
    (tmp_path / "mine.csv").write_text("width,gap,sharpness\n1,0.1,2\n2,0.2,3\n")
    done = gapbench("score", "mine.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "say with --axes which columns are hyper-parameters" in done.stderr
    assert "The table has width, gap, sharpness." in done.stderr
    columns = [f"c{k}" for k in range(43)]
    (tmp_path / "wide.csv").write_text(f"{','.join(columns)}\n{','.join(['1'] * 43)}\n")
    assert "c39 and 3 more." in gapbench("score", "wide.csv", cwd=tmp_path).stderr


def test_missing_data_are_one_message(tmp_path):
    done = gapbench("run", "compact", "--data", tmp_path / "empty", cwd=tmp_path)
    assert done.returncode == 2
    assert str(tmp_path / "empty") in done.stderr
    assert "gapbench fetch cifar10" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unusable_folder_is_one_message(tmp_path):
    (tmp_path / "file").write_text("")
    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY)
    done = gapbench("run", suite, "--out", tmp_path / "file")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "file") in done.stderr


@pytest.mark.parametrize("kind", ["tasks", "models", "proxies", "suites"])
def test_lists_agree_in_text_and_json(kind):
    text, data = gapbench("list", kind), gapbench("list", kind, "--json")
    assert text.returncode == data.returncode == 0
    rows = json.loads(data.stdout)
    lines = text.stdout.splitlines()
    assert len(rows) >= 3
    for row, line in zip(rows, lines):
        assert line.startswith(row["name"])
        assert row["summary"] in line
        assert row["summary"]
    rest = lines[len(rows) :]  # what the costs and the groups of proxies are
    assert [line.partition(":")[0].partition(",")[0] for line in rest if line] == (
        ["Costs", "For --proxies"] if kind == "proxies" else []
    )


def test_info_names_versions_and_data(tmp_path):
    data = json.loads(gapbench("info", "--json", "--data", tmp_path).stdout)
    assert data["data"] == dict.fromkeys(["cifar10", "cifar100", "mnist", "svhn"], "missing")
    assert data["versions"]["torch"] != "not installed"
    text = gapbench("info", "--data", tmp_path).stdout
    assert f"gapbench fetch mnist --data {tmp_path}" in text


@pytest.mark.slow
def test_a_run_prints_a_ranking_and_resumes_to_the_same(tmp_path):
    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY)
    first = gapbench("run", suite, "--out", tmp_path / "run")
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("] separable  plain/mlp") == 12
    for word in ("param_norm", "sharpness_full[radius=0.2]", "tau", "index.html"):
        assert word in first.stdout
    second = gapbench("run", suite, "--out", tmp_path / "run")
    assert "12 networks, 12 trained before; 60 measurements, 60 made before." in second.stdout
    assert (
        first.stdout[first.stdout.index("Networks:") :] == second.stdout[second.stdout.index("Networks:") :]
    )
    board = gapbench("board", tmp_path / "run")
    assert board.returncode == 0
    assert board.stdout == second.stdout[second.stdout.index("Networks:") - 1 :]


def test_a_failed_network_gives_exit_code_1_and_its_reason(tmp_path):
    suite = tmp_path / "bad.toml"
    suite.write_text(
        TINY.replace('family = ["plain/mlp"]', 'family = ["plain/linear"]').replace(
            "stop_loss = 0.2", "depth = 3"
        )
    )
    done = gapbench("run", suite, "--out", tmp_path / "run", "--limit", 1)
    assert done.returncode == 1
    assert "1 failed:" in done.stderr
    assert "depth" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "resumes"), [("run", True), ("submit", True), ("score", False), ("audit", False)]
)
def test_an_interruption_claims_what_is_true_of_the_command(command, resumes, monkeypatch, capsys):
    from gapbench import cli

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.cli, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "x"])
    assert ended.value.code == 130
    said = capsys.readouterr().err
    assert ("goes on from there" in said) is resumes
    assert ("begins anew" in said) is not resumes


def test_an_audit_whose_result_cannot_be_written_is_refused_before_it_measures(tmp_path, monkeypatch):
    from gapbench import cli
    from gapbench.commands import audit
    from gapbench.invariance import population

    def readonly(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(audit.tempfile, "TemporaryFile", readonly)
    monkeypatch.setattr(population, "audit_run", lambda *_, **__: pytest.fail("it was measured"))
    with pytest.raises(GapbenchError, match=r"Permission denied.*nothing was measured"):
        cli.cli.main(["audit", str(tmp_path)], standalone_mode=False)
