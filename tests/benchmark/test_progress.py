"""What `run` prints while it works, and where the time went."""

import itertools
import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from benchmark.tiny_suite import TINY
from gapbench.cli import cli
from gapbench.commands import progress as module
from gapbench.commands.progress import Bars, Plain, line_of, progress
from gapbench.commands.showing import LOADING
from gapbench.commands.time_table import time_table
from gapbench.population.progress import Silent
from gapbench.runs.records import StoredMeasurement, TrainedCell
from gapbench.runs.store import Store
from gapbench_base.durations import duration
from gapbench_base.errors import GapbenchError


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A run from the command line, its output and its log."""
    place = tmp_path_factory.mktemp("progress")
    (place / "tiny.toml").write_text(TINY)
    arguments = ["run", "tiny.toml", "--out", "run", "--device", "cpu", "--proxies", "param_norm,random"]
    done = subprocess.run(
        [sys.executable, "-m", "gapbench", *arguments, "--log", "logs/run.log"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return place, done.stdout


def test_every_network_has_a_line_with_what_tells_it_from_others(ran):
    _, printed = ran
    lines = [line for line in printed.splitlines() if re.match(r"\[\d+/12\] ", line)]
    assert len(lines) == 12
    told = {re.search(r"width (\S+)  learning_rate (\S+)  seed (\d)  ", line).groups() for line in lines}
    assert len(told) == 12


def test_the_log_has_the_same_lines_and_is_appended_to(ran):
    place, printed = ran
    log = (place / "logs" / "run.log").read_text()
    assert [line for line in printed.splitlines() if line.startswith("[")] == [
        line for line in log.splitlines() if line.startswith("[")
    ]
    options = ["--device", "cpu", "--quiet", "--proxies", "param_norm,random"]
    paths = [str(place / name) for name in ("tiny.toml", "run", "logs/run.log")]
    again = CliRunner().invoke(cli, ["run", paths[0], "--out", paths[1], *options, "--log", paths[2]])
    assert again.exit_code == 0
    assert (place / "logs" / "run.log").read_text().startswith(log)
    assert "12 trained before" in (place / "logs" / "run.log").read_text()
    assert "trained before" not in again.output
    assert "Where the time went" not in again.output
    assert "Ranked by tau" in again.output


def test_a_verbose_run_says_every_measurement(capsys):
    shown = module.progress(verbose=True)
    assert isinstance(shown, Plain)
    shown.begin(1, 0, 2, 0)
    common = {"measurement": "k", "cell": "abc", "proxy": "p", "description": "{}"}
    shown.measured(StoredMeasurement(label="p", status="ok", value=1.5, seconds=0.25, **common))
    shown.measured(StoredMeasurement(label="q", status="not_applicable", reason="why", seconds=0.5, **common))
    said = capsys.readouterr().out.splitlines()[1:]
    assert said == ["    1/2  p on abc: 1.5  0.25 s", "    2/2  q on abc: not applicable  0.50 s"]
    with pytest.raises(GapbenchError, match="opposites"):
        module.progress(quiet=True, verbose=True)


def test_where_the_time_went_is_what_the_run_recorded(ran):
    place, printed = ran
    table = time_table(place / "run")
    assert table in printed
    with Store(place / "run", readonly=True) as store:
        trained = sum(row.seconds for row in store.cells())
    head, names, line, total, dearest = table.splitlines()
    assert head.startswith("Where the time went")
    assert names.split() == ["task", "family", "networks", "training", "measuring"]
    assert line.split()[:3] == ["separable", "plain/mlp", "12"]
    assert line.split()[3:5] == duration(trained).split()
    assert total.split()[:3] == ["in", "all", "12"]
    assert sum(int(share) for share in re.findall(r"(\d+) %", dearest)) in (99, 100, 101)


def record(**others):
    about = {"cell": "c", "task": "t", "family": "f", "width": 0.5, "seed": 1, "device": "cpu"}
    known = {"status": "converged", "epochs": 3, "train_error": 0.0, "test_error": 0.25, "seconds": 1.25}
    described = {
        "task": {"name": "separable", "version": 1, "options": {"spectrum": 0.5}},
        "training": {"depth": 2},
    }
    return TrainedCell(**{"description": json.dumps(described), "gap": 0.25, **about, **known, **others})


def test_a_line_of_a_network():
    assert line_of(record(), ["width", "depth", "spectrum"]) == (
        "t  f  width 0.5  depth 2  spectrum 0.5  seed 1  converged after 3 epochs  train error 0.000  "
        "test error 0.250  1.2 s"
    )
    failed = line_of(record(status="failed", reason="no memory", gap=None))
    assert failed == "t  f  width 0.5  seed 1  failed: no memory"
    assert line_of(record(description="{}"), ["depth"]).startswith("t  f  width 0.5  seed 1")


def test_nothing_is_silent_for_more_than_ten_seconds(capsys, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    shown = Plain()
    shown.begin(10, 2, 50, 7)
    for at, seconds in [(105, None), (109, 30.0), (110, None), (112, 20.0), (121, 250.0)]:
        clock[0] = float(at)
        shown.left(seconds)
    assert capsys.readouterr().out.splitlines()[1:] == [
        "... 2/10 networks, 7/50 measurements; how long is not known yet",
        "... 2/10 networks, 7/50 measurements; about 250 s left",
    ]


def test_it_is_said_at_once_that_libraries_are_loaded(capsys, tmp_path):
    with progress(log=tmp_path / "log"):
        assert capsys.readouterr().out == f"{LOADING}\n"
    with progress(quiet=True):
        assert capsys.readouterr().out == ""
    assert (tmp_path / "log").read_text() == ""
    bars = Bars()
    with bars:
        assert [task.description for task in bars.bars.tasks] == ["starting"]
        bars.begin(3, 0, 6, 0)
        assert [task.description for task in bars.bars.tasks] == ["networks", "values"]


def test_in_fifty_columns_counts_and_time_survive():
    import io

    from rich.console import Console

    shown = Bars()
    shown.bars.live.console = console = Console(
        file=io.StringIO(), width=50, force_terminal=True, color_system=None
    )
    shown.begin(368, 17, 5152, 240)
    shown.trained(record(task="digits_rotations", family="torchvision/mobilenet_v3_small"))
    shown.left(754.0)
    console.print(shown.bars.get_renderable())
    lines = console.file.getvalue().splitlines()
    first, second = next((a, b) for a, b in itertools.pairwise(lines) if "networks" in a)
    assert " 18/368 " in first
    assert "13 min left" in first
    assert " 240/5152 " in second
    assert max(len(first), len(second)) <= 50
    assert second.rstrip().endswith("onverged")  # both ends stay


def test_a_log_that_cannot_be_written_is_refused_before_anything_is_done(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "tiny.toml").write_text(TINY)
    from gapbench_base.errors import GapbenchError

    with pytest.raises(GapbenchError, match="--log"):
        cli.main(
            ["run", str(tmp_path / "tiny.toml"), "--log", str(tmp_path / "file" / "log")],
            standalone_mode=False,
        )
    assert not (tmp_path / "runs").exists()


def test_a_listener_that_wants_nothing_hears_everything_quietly(capsys):
    silent = Silent()
    silent.about(["depth"])
    silent.left(3.0)
    assert capsys.readouterr() == ("", "")


def test_where_no_network_is_kept_the_command_fails_and_says_why(tmp_path):
    text = TINY.replace("max_epochs = 12", "max_epochs = 1").replace("stop_loss = 0.2", "stop_loss = 1e-6")
    (tmp_path / "tiny.toml").write_text(text)
    options = ["--out", str(tmp_path / "run"), "--device", "cpu", "--proxies", "param_norm,random"]
    done = CliRunner().invoke(cli, ["run", str(tmp_path / "tiny.toml"), *options])
    assert done.exit_code == 1
    assert "0 of 12 networks can be ranked; a ranking needs two:" in done.output
    assert re.search(
        r"12 of separable, plain/mlp: not_converged, training loss 0\.\d+ to 0\.\d+ at the end", done.output
    )
    assert "max_epochs" in done.output
    assert "12 not_converged" in (tmp_path / "run" / "board" / "board.md").read_text().replace("\\", "")
