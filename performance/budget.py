"""How well `gapbench run --budget` keeps its time: what a command took, against what it was given.

    python performance/budget.py [--suite quick] [--budgets 1m,2m,4m] [--workers N]

Every command is a process of its own that begins an empty run, or goes on with the one before (`--resume`). Its
whole time counts, from the start of Python to the board.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gapbench.runs.store import Store
from gapbench_base.durations import seconds_of


def took(suite: str, out: Path, budget: str, workers: int | None) -> float:
    """Seconds of the command."""
    command = [
        sys.executable,
        "-m",
        "gapbench",
        "run",
        suite,
        "--out",
        str(out),
        "--budget",
        budget,
        "--quiet",
    ]
    command += ["--workers", str(workers)] if workers else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    began = time.monotonic()
    subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="quick")
    parser.add_argument("--budgets", default="1m,2m,4m")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--resume", action="store_true", help="one run, of which each budget adds to")
    given = parser.parse_args()
    print("budget   took    of it  networks")
    with tempfile.TemporaryDirectory(prefix="gapbench-budget-") as scratch:
        for number, budget in enumerate(given.budgets.split(",")):
            out = Path(scratch) / ("run" if given.resume else str(number))
            passed = took(given.suite, out, budget, given.workers)
            with Store(out, readonly=True) as store:
                networks = len(store.statuses("cells"))
            print(f"{budget:<6} {passed:6.1f} s {passed / seconds_of(budget):6.1%} {networks:9}", flush=True)


if __name__ == "__main__":
    main()
