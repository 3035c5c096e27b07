"""Kill gapbench at random moments, then see that nothing is lost, double or half written.

    python scripts/stress.py [--kills 100] [--seed 0] [--folder FOLDER]

A small suite is trained in two parts, the parts are merged, a proxy is submitted, the run is packed and pulled:
once undisturbed, and once with SIGKILL to the process group of each command again and again, at moments drawn from
a seed. A fifth of them are between the start of the command and the first thing that it writes, the others between
that and its end. After every kill the tables must be whole, and every file that has its final name too. In the end
both ways must have the same rows, weights and board, and `gapbench gc` must leave no scraps.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gapbench.runs.run import open_run
from gapbench.runs.store import Store
from gapbench.runs.weights import load_weights
from gapbench.sandbox import bubblewrap

SUITE = """
name = "stressed"
version = 1
summary = "For kills."

[training]
max_epochs = 12
learning_rate = 0.1

[measure]
samples = 40
proxies = ["param_norm", "random", "parameter_count", { proxy = "sharpness_full", radius = 0.1, steps = 3 }]

[[grid]]
task = "separable"
task_options = { shape = [1, 4, 4], train_size = 60, test_size = 200 }
training = { stop_loss = 0.2 }
[grid.axes]
family = ["plain/mlp", "plain/deep_linear"]
width = [0.25, 0.5]
learning_rate = [0.1, 0.2]
seed = [0, 1]
"""
PROXY = """
import gapbench


@gapbench.proxy("largest")
def largest(context):
    return float(max(p.abs().max() for p in context.parameters))
"""
EARLY = 0.2
"""Share of the kills before anything is written."""
TICK = 0.002
"""Seconds between two looks at what is written."""
PATIENCE = 600
MOMENT = "2026-01-01T00:00:00+00:00"
SETTLED = {"seconds": 1.0, "peak_memory": 1.0, "date": MOMENT, "submitted": MOMENT}
"""What depends on when and how fast an entry was made."""
ROWS = {"cells": "cell", "measurements": "measurement"}


@dataclass(frozen=True)
class Step:
    """A command, how large a share of the kills it gets, and what it makes."""

    name: str
    arguments: tuple[str, ...]
    share: float
    makes: str


@dataclass(frozen=True)
class Pace:
    """Seconds of an undisturbed command until it first writes something, and until its end."""

    first: float
    end: float


def steps() -> list[Step]:
    """What is done, in this order, in a folder of its own."""
    submit = ["submit", "largest.py", "--run", "whole", "--workers", "1"]
    if bubblewrap.unavailable():
        submit.append("--unsandboxed")
    run = ("run", "suite.toml", "--device", "cpu", "--workers", "2")
    return [
        Step("run", (*run, "--shard", "0/2", "--out", "a"), 0.2, "a"),
        Step("run", (*run, "--shard", "1/2", "--out", "b"), 0.2, "b"),
        Step("merge", ("merge", "a", "b", "--out", "whole"), 0.15, "whole"),
        Step("run", (*run, "--out", "whole"), 0.05, "whole/board"),
        Step("submit", tuple(submit), 0.2, "whole/board"),
        Step("pack", ("pack", "whole", "--out", "whole.zip"), 0.1, "whole.zip"),
        Step("pull", ("pull", "whole.zip", "--out", "pulled"), 0.1, "pulled"),
    ]


def prepared(folder: Path) -> Path:
    """A folder with the suite and the proxy."""
    folder.mkdir(parents=True)
    (folder / "suite.toml").write_text(SUITE)
    (folder / "largest.py").write_text(PROXY)
    return folder


def written(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Every file with its size and time."""
    found = set()
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            state = path.stat()
            found.add((str(path), state.st_size, state.st_mtime_ns))
    return frozenset(found)


@contextlib.contextmanager
def command(step: Step, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The command of a step in a process group of its own, which is killed with its group if it has not ended."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gapbench", *step.arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def first_write(process: subprocess.Popen[str], folder: Path, until: float) -> float:
    """Wait until a command writes something, or ends, or it is so late; the moment."""
    before = written(folder)
    while process.poll() is None and time.monotonic() < until and written(folder) == before:
        time.sleep(TICK)
    return time.monotonic()


def completed(step: Step, folder: Path) -> Pace:
    """Do a step to its end."""
    began = time.monotonic()
    with command(step, folder) as process:
        first = first_write(process, folder, began + PATIENCE)
        said, _ = process.communicate(timeout=PATIENCE)
    if process.returncode != 0:
        raise SystemExit(f"gapbench {' '.join(step.arguments)} ended with {process.returncode}:\n{said}")
    return Pace(first - began, time.monotonic() - began)


def killed(step: Step, folder: Path, pace: Pace, draw: random.Random) -> Pace | None:
    """Begin a step and kill it at a moment that is drawn; its pace if it was quicker, None if it was killed."""
    early, share = draw.random() < EARLY, draw.random()
    began = time.monotonic()
    with command(step, folder) as process:
        if early:
            moment = began + share * pace.first
            first = moment
        else:
            first = first_write(process, folder, began + PATIENCE)
            moment = first + share * (pace.end - pace.first)
        while process.poll() is None and time.monotonic() < moment:
            time.sleep(TICK)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    return Pace(first - began, time.monotonic() - began)


def check(folder: Path) -> None:
    """Every table is whole, and every file that has its final name; raises `AssertionError` with what is not."""
    for database in folder.glob("*/run.sqlite"):
        if not database.stat().st_size:
            continue  # killed before there was a table
        with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as store:
            assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)], database
            for table, key in ROWS.items():
                if store.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                    found = Counter(store.execute(f"SELECT {key} FROM {table}").fetchall())
                    assert all(count == 1 for count in found.values()), (database, table)
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or not path.is_file():
            continue
        if path.suffix == ".safetensors":
            load_weights(path, None)
        elif path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                assert archive.testzip() is None, path


def removed(path: Path) -> None:
    """Take away a file or folder."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def checksums(folder: Path, drawn: Sequence[str] = ()) -> dict[str, str]:
    """Every file of a folder by its name, and what is in it but for texts that are drawn at random."""

    def content(path: Path) -> bytes:
        found = path.read_bytes()
        for text in drawn:
            found = found.replace(text.encode(), b"drawn")
        return found

    return {
        str(path.relative_to(folder)): hashlib.sha256(content(path)).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def settled_board(run: Path, copy: Path) -> dict[str, str]:
    """The files of the board of a run if everything had taken a second, by name; made in a copy of the run."""
    shutil.copytree(run, copy)
    with contextlib.closing(sqlite3.connect(copy / "run.sqlite")) as database, database:
        for table in ROWS:
            database.execute(f"DROP TRIGGER {table}_keep")
            database.execute(f"DROP TRIGGER {table}_stay")
        database.execute("UPDATE cells SET seconds = 1.0, finished = 1.0")
        database.execute("UPDATE measurements SET seconds = 1.0, finished = 1.0, peak_memory = NULL")
    for path in copy.glob("entries/*.json"):
        path.write_text(json.dumps(_settled(json.loads(path.read_text(encoding="utf-8")))))
    with Store(copy):  # which makes the triggers again
        pass
    opened = open_run(copy)
    scores = opened.scores(targets=("gap",), replicates=20, pair_replicates=2, prediction_replicates=2)
    shutil.rmtree(copy / "board", ignore_errors=True)
    opened.build_board(scores)
    return checksums(copy / "board", [path.stem for path in copy.glob("entries/*.json")])


def _settled(content: object) -> object:
    """Plain JSON without what depends on when and how fast it was made."""
    if isinstance(content, dict):
        return {
            name: SETTLED[name] if name in SETTLED else _settled(value) for name, value in content.items()
        }
    return [_settled(value) for value in content] if isinstance(content, list) else content


def results(run: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of a run without what depends on when and how fast they were made, in order of their keys."""
    columns = {
        "cells": "cell, attempt, status, reason, train_error, test_error, gap, loss_gap, train_loss, test_loss, "
        "epochs, steps, history, train_correct, test_correct, weights_sha256, weights_bytes",
        "measurements": "CASE WHEN description LIKE '%\"submission\":%' THEN label ELSE measurement END, cell, "
        "attempt, label, value, standard_error, status, reason",  # entries begin with a number drawn at random
    }
    with contextlib.closing(sqlite3.connect(f"file:{run}/run.sqlite?mode=ro", uri=True)) as database:
        return {
            table: database.execute(f"SELECT {names} FROM {table} ORDER BY 1, 2").fetchall()
            for table, names in columns.items()
        }


def collected(folder: Path) -> list[str]:
    """Tidy up every run, and name the scraps that are left."""
    for run in sorted(path.parent for path in folder.glob("*/run.sqlite")):
        completed(Step("gc", ("gc", run.name), 0.0, ""), folder)
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.name.startswith(".")]


def compared(disturbed: Path, undisturbed: Path, scratch: Path) -> None:
    """Both ways have the same rows, weights, boards; raises `AssertionError` where they have not."""
    for run in ("a", "b", "whole", "pulled"):
        assert results(disturbed / run) == results(undisturbed / run), f"{run}: other rows"
        assert checksums(disturbed / run / "weights") == checksums(undisturbed / run / "weights"), (
            f"{run}: other weights"
        )
    for run in ("whole", "pulled"):
        one, other = (
            settled_board(way / run, scratch / f"{run}-{name}")
            for name, way in (("disturbed", disturbed), ("undisturbed", undisturbed))
        )
        differ = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
        assert not differ, f"{run}: another board: {differ}"


def stress(folder: Path, kills: int, seed: int) -> dict[str, int]:
    """All of it in a new folder; raises `AssertionError` for the first thing that is wrong.

    Returns:
        How many of the kills met each command at work.
    """
    draw = random.Random(seed)
    undisturbed, disturbed = prepared(folder / "undisturbed"), prepared(folder / "disturbed")
    met: Counter[str] = Counter()
    asked = 0.0
    for step in steps():
        pace = completed(step, undisturbed)
        asked += step.share * kills
        while sum(met.values()) < round(asked):
            quicker = killed(step, disturbed, pace, draw)
            if quicker is None:
                met[step.name] += 1
                check(disturbed)
            else:  # too quick to be met at work: once more
                pace = quicker
                removed(disturbed / step.makes)
            print(f"{sum(met.values())} kills, {step.name}", file=sys.stderr, flush=True)
        completed(step, disturbed)
        check(disturbed)
    left = collected(disturbed)
    assert not left, f"scraps: {left}"
    compared(disturbed, undisturbed, folder / "settled")
    return dict(met)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--folder", type=Path, help="a new folder that is kept (default: one that is thrown away)"
    )
    given = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gapbench-stress-") as scratch:
        met = stress(given.folder or Path(scratch) / "stress", given.kills, given.seed)
    told = ", ".join(f"{count} of {name}" for name, count in met.items())
    print(
        f"{sum(met.values())} kills ({told}) in {time.monotonic() - began:.0f} s: nothing lost, double or half."
    )


if __name__ == "__main__":
    main()
