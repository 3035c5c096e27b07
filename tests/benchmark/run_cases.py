"""Runs in processes of their own, and what two runs of one suite must have in common."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd


def rows(folder, table):
    with sqlite3.connect(f"file:{folder}/run.sqlite?mode=ro", uri=True) as db:
        return db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


def values(run):
    """What must be the same in two runs of one suite on one machine."""
    population = run.population.drop(columns=["seconds"]).sort_values("cell").reset_index(drop=True)
    measured = run.measurements[["cell", "proxy", "value", "standard_error", "status"]]
    return population, measured.sort_values(["cell", "proxy"]).reset_index(drop=True)


def same(a, b):
    for x, y in zip(values(a), values(b)):
        pd.testing.assert_frame_equal(x, y, check_exact=True)


def weights(folder):
    """Weight files by name, without what a killed process was still writing (hidden, under a name of its own)."""
    files = (folder / "weights").iterdir()
    return {path.name: path.read_bytes() for path in files if not path.name.startswith(".")}


def start(suite_file, folder, *extra):
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "gapbench",
            "run",
            str(suite_file),
            "--out",
            str(folder),
            "--device",
            "cpu",
            *extra,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        text=True,
    )


def count(folder, table):
    try:
        return len(rows(folder, table))
    except sqlite3.OperationalError:
        return 0


def children(pid):
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if f"PPid:\t{pid}\n" in text:
            found.append(int(status.parent.name))
    return found
