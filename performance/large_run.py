"""What a large run costs that is done: opening it, planning a resume, a score; and the score of a large table.

    python performance/large_run.py [--sizes 1250x15,1250x60,2500x30,5000x15,10000x60] [--threads 2]
    python performance/large_run.py --out performance/results/scale.md

For every number of networks (a multiple of 1,250) and of measures a run is made through the functions of the store,
in a folder that is thrown away: rows as training and measuring write them, with bits of 50,000 training and 10,000
test examples, and a weight file of 1 KiB for each network. Then, each in a process of its own:

- planning a resume: what `gapbench run` does until it begins to work, with nothing left to do; of the weight files
  it computes the checksums, which with real ones takes as long as reading them does;
- opening: `open_run`;
- a full score of one target, the gap, with all estimators and the replicates that `gapbench run` has.

Loading modules is not counted in seconds, but in memory. The table has 15,625 networks (six axes of five levels)
and 13 measures and is scored by the command `gapbench score`, all of whose time counts.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gapbench.population.progress import Silent
from gapbench.runs.environment import versions
from gapbench.runs.run import open_run
from gapbench.runs.store import Store

if TYPE_CHECKING:
    from gapbench.population.jobs import Setup
    from gapbench.population.plan import Cell
    from gapbench.population.wanted import Measurements

SUITE = """
name = "large"
version = 1
summary = "As many networks as are asked for."

[measure]
samples = 40
proxies = [{proxies}]

[[grid]]
task = "separable"
task_options = {{ shape = [1, 2, 2], train_size = 60, test_size = 10000 }}
[grid.axes]
family = ["plain/mlp", "plain/deep_linear"]
width = [0.25, 0.5, 1.0, 2.0, 4.0]
learning_rate = [0.1, 0.03, 0.01, 0.003, 0.001]
weight_decay = [0.0, 0.0001, 0.0003, 0.001, 0.003]
batch_size = [{batches}]
seed = [0, 1, 2, 3, 4]
"""
UNIT = 1250
"""Networks of the suite with one batch size."""
TRAIN_SIZE, TEST_SIZE = 50_000, 10_000
STATING = 4
"""Of so many measures one says in its details what of a symmetry it covers."""
STEPS = {"plan": "planning a resume", "open": "opening", "score": "scoring one target"}
MODULES = {
    "plan": ("gapbench.running", "gapbench.population.updating", "gapbench.population.facts"),
    "open": ("gapbench.runs.tables",),
    "score": ("gapbench_leaderboard.scores",),
}
"""What each step loads."""
GATES = {"open": 5.0, "plan": 5.0, "score": 300.0, "table": 120.0}
"""Seconds that are allowed, of the first three with 10,000 networks and 60 measures."""
MEMORY = 2 << 30
"""Bytes that a score of that size may take."""
GIB = 1 << 30


@dataclass(frozen=True)
class Cost:
    """Of one step: seconds by the clock, of all processors, and the most memory of its process in bytes."""

    seconds: float
    processor: float
    memory: int


def suite_text(networks: int, proxies: int) -> str:
    """A suite of so many networks and measures; networks are a multiple of 1,250."""
    if networks % UNIT:
        raise SystemExit(f"--sizes: {networks} networks are no multiple of {UNIT}.")
    from gapbench.proxies.registry import built_in

    names = ", ".join(json.dumps(name) for name in built_in()[:proxies])
    batches = ", ".join(str(8 * (number + 1)) for number in range(networks // UNIT))
    return SUITE.format(proxies=names, batches=batches)


def made(folder: Path, networks: int, proxies: int) -> Path:
    """A finished run in a folder; the first resume writes into it what `gapbench run` writes of itself.

    Returns:
        The folder.
    """
    from gapbench.population.wanted import Measurements
    from gapbench.running import planned, setup_of
    from gapbench.suites.suite import load_suite

    path = folder / "suite.toml"
    path.write_text(suite_text(networks, proxies))
    suite = load_suite(str(path))
    out = folder / "run"
    (out / "weights").mkdir(parents=True)
    setup = setup_of(suite, out, "cpu", None, 2, "exact")
    cells = planned(suite, setup.data_dir, "large")
    random = np.random.default_rng(0)
    with Store(out) as store:
        gaps = _add_networks(store, out, cells, random)
        _add_measurements(store, setup, cells, Measurements(suite.proxies, setup, 1), gaps, random)
    return folder


def _add_networks(store: Store, out: Path, cells: Sequence[Cell], random: np.random.Generator) -> np.ndarray:
    """Rows and weight files; the gaps, which depend on the axes, the configuration and the seed."""
    from gapbench.runs.records import TrainedCell, json_text
    from gapbench.runs.weight_location import weights_of

    configurations: dict[str, float] = {}
    gaps = []
    for cell in cells:
        own = cell.configuration
        values = own.training
        key = json.dumps(
            [own.family, own.width, values.learning_rate, values.weight_decay, values.batch_size]
        )
        base = 0.3 - 0.03 * np.log2(own.width) - 0.04 * np.log10(values.learning_rate)
        base += configurations.setdefault(key, 0.02 * random.standard_normal())
        chance = float(np.clip(base + 0.01 * random.standard_normal(), 0.01, 0.9))
        wrong = random.random(TEST_SIZE) < chance
        content = random.bytes(1024)
        path = weights_of(out, cell.key)
        path.write_bytes(content)
        test_error = float(wrong.mean())
        store.add_cell(
            TrainedCell(
                cell=cell.key,
                description=json_text(cell.description),
                task=own.task,
                family=own.family,
                width=own.width,
                seed=own.seed,
                status="converged",
                train_error=0.0,
                test_error=test_error,
                gap=test_error,
                loss_gap=2 * test_error,
                train_loss=0.01,
                test_loss=2 * test_error + 0.01,
                parameters=int(1e5 * own.width**2),
                train_size=TRAIN_SIZE,
                test_size=TEST_SIZE,
                epochs=20,
                steps=1000,
                seconds=60.0,
                history=json.dumps([float(np.exp(-epoch)) for epoch in range(20)]),
                source="synthetic",
                shift=0,
                train_correct=np.packbits(np.ones(TRAIN_SIZE, dtype=bool)).tobytes(),
                test_correct=np.packbits(~wrong).tobytes(),
                weights_sha256=hashlib.sha256(content).hexdigest(),
                weights_bytes=len(content),
                device="cpu",
                engine="loop",
            )
        )
        gaps.append(test_error)
    return np.array(gaps)


def _add_measurements(
    store: Store,
    setup: Setup,
    cells: Sequence[Cell],
    measurements: Measurements,
    gaps: np.ndarray,
    random: np.random.Generator,
) -> None:
    """Measures from good ones to ones that are nearly noise."""
    from gapbench.population.siblings import siblings
    from gapbench.proxies.results import Measurement
    from gapbench.runs.records import stored_measurement

    beside = siblings({cell.key: cell.description for cell in cells})
    for cell, gap in zip(cells, gaps):
        rows = []
        for number, wanted in enumerate(measurements.on(cell, beside.get(cell.key))):
            key, request, description = measurements.described(cell.key, wanted, beside.get(cell.key))
            value = float(gap + 0.01 * 1.1**number * random.standard_normal())
            found = Measurement(request.proxy, value, None, 0.5, "ok", "")
            record = stored_measurement(
                found, key=key, cell=cell.key, label=request.label, description=description, device="cpu"
            )
            details = {"batches": 1, "examples": 40, "spread": abs(value)}
            details |= {} if number % STATING else {"coverage": "whole group"}
            rows.append(replace(record, details=json.dumps(details), peak_memory=1e8))
        store.add_measurements(rows)


class _Begun(Silent):
    """Notes when work would begin, and that nothing is left."""

    moment = used = 0.0

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        self.moment, self.used = time.perf_counter(), time.process_time()
        if cells != done or measurements != measured:
            raise SystemExit(f"{cells - done} networks, {measurements - measured} measurements are not done")


def step(name: str, folder: Path, threads: int) -> None:
    """Do one step in this process, and print its seconds as JSON."""
    for module in MODULES[name]:
        importlib.import_module(module)  # before the clock starts
    if name == "plan":
        _load_libraries()
    out = folder / "run"
    opened = open_run(out) if name == "score" else None
    if opened is not None:  # compiled code is read from where numba keeps it
        _warm(opened)
    began, used, begun = time.perf_counter(), time.process_time(), _Begun()
    if name == "open":
        open_run(out)
    elif name == "plan":
        from gapbench.running import run

        run(str(folder / "suite.toml"), out, device="cpu", workers=2, board=False, progress=begun)
    elif opened is not None:
        opened.scores(targets=("gap",), workers=threads)
    ended, processor = begun.moment or time.perf_counter(), begun.used or time.process_time()
    print(json.dumps([ended - began, processor - used]))


def _load_libraries() -> None:
    """What planning loads on the way: proxies, the loaders of tasks, torch."""
    from gapbench.proxies.registry import built_in
    from gapbench.running import planned
    from gapbench.runs.environment import arithmetic, environment
    from gapbench.suites.suite import load_suite

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "suite.toml"
        path.write_text(suite_text(UNIT, len(built_in())).replace("[0, 1, 2, 3, 4]", "[0]"))
        planned(load_suite(str(path)), None, "large")
    environment("cpu")
    arithmetic("cpu")


def _warm(opened: object) -> None:
    from gapbench.runs.run import Run
    from gapbench_leaderboard.scores import score_population

    assert isinstance(opened, Run)
    few = opened.population.iloc[:: max(1, len(opened.population) // 60)].reset_index(drop=True)
    own = opened.measurements[opened.measurements["cell"].isin(few["cell"])]
    own = own[own["proxy"].isin(sorted(own["proxy"].unique())[:2])]
    small = {"replicates": 8, "pair_replicates": 4, "prediction_replicates": 2, "workers": 1}
    score_population(few, own, axes=opened.suite.axes, **small)


def cost_of(command: Sequence[str], counted: bool) -> Cost:
    """Run a command; where `counted`, seconds are all of its own, else those that it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}.")
    unit = 1 if sys.platform == "darwin" else 1024
    seconds, processor = time.perf_counter() - began, used.ru_utime + used.ru_stime
    if not counted:
        seconds, processor = json.loads(said.strip().splitlines()[-1])
    return Cost(seconds, processor, unit * used.ru_maxrss)


def costs_of_run(networks: int, proxies: int, threads: int) -> dict[str, Cost]:
    """Step -> cost, and how large the database is."""
    with tempfile.TemporaryDirectory(prefix="gapbench-large-") as scratch:
        folder = made(Path(scratch), networks, proxies)
        own = [str(Path(__file__).resolve()), "--folder", str(folder), "--threads", str(threads), "--step"]
        found = {name: cost_of([*own, name], counted=False) for name in STEPS}
        size = (folder / "run" / "run.sqlite").stat().st_size
        return found | {"database": Cost(0.0, 0.0, size)}


def cost_of_table(threads: int) -> Cost:
    """Of the command `gapbench score` on a table of 15,625 networks and 13 measures."""
    random = np.random.default_rng(1)
    levels = np.array(list(itertools.product(range(5), repeat=6)))
    gap = 0.3 + levels @ np.array([0.02, 0.015, 0.01, 0.008, 0.005, 0.002])
    gap = gap + 0.02 * random.standard_normal(len(levels))
    names = [f"op{number}" for number in range(6)]
    table = pd.DataFrame(levels, columns=names).assign(gap=gap)
    for number in range(13):
        table[f"measure{number}"] = gap + 0.02 * 1.4**number * random.standard_normal(len(levels))
    with tempfile.TemporaryDirectory(prefix="gapbench-large-") as scratch:
        path = Path(scratch) / "table.csv"
        table.to_csv(path, index=False)
        command = ["-m", "gapbench", "score", str(path), "--axes", ",".join(names), "--threads", str(threads)]
        return cost_of(command, counted=True)


def reference() -> tuple[float, float]:
    """Seconds of one core for sorting 10 million numbers, and for adding 10 million in Python."""
    numbers = np.random.default_rng(0).random(10_000_000)
    began = time.process_time()
    np.sort(numbers)
    middle = time.process_time()
    total = 0
    for number in range(10_000_000):
        total += number
    return middle - began, time.process_time() - middle


def powers(found: Mapping[tuple[int, int], float]) -> tuple[float, float]:
    """The powers of the numbers of networks and of measures that fit best."""
    sizes = np.array(list(found), dtype=float)
    design = np.column_stack([np.ones(len(sizes)), np.log(sizes)])
    solution = np.linalg.lstsq(design, np.log(list(found.values())), rcond=None)[0]
    return float(solution[1]), float(solution[2])


def written(
    found: Mapping[tuple[int, int], Mapping[str, Cost]], table: Cost, least: int, about: Sequence[str]
) -> str:
    """The results as Markdown; `least` bytes has a process that has loaded the modules alone."""
    lines = [*about, "", "## A run that is done", ""]
    lines += [
        "Seconds by the clock, in brackets those of all processors; memory of the process at most, with Python and "
        f"its modules ({least / GIB:.2f} GiB).",
        "",
        "| networks | measures | database | planning a resume | opening | one target | memory, opening "
        "| memory, one target |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (networks, proxies), costs in found.items():
        times = " | ".join(f"{costs[name].seconds:.1f} s ({costs[name].processor:.1f})" for name in STEPS)
        lines.append(
            f"| {networks:,} | {proxies} | {costs['database'].memory / GIB:.2f} GiB | {times} | "
            f"{costs['open'].memory / GIB:.2f} GiB | {costs['score'].memory / GIB:.2f} GiB |"
        )
    if len({n for n, _ in found}) > 1 and len({p for _, p in found}) > 1:
        lines += ["", "Fitted: seconds of all processors grow with networks^a x measures^b.", ""]
        lines += ["| | a | b |", "|---|--:|--:|"]
        for name, words in STEPS.items():
            a, b = powers({size: costs[name].processor for size, costs in found.items()})
            lines.append(f"| {words} | {a:.2f} | {b:.2f} |")
        for name in ("open", "score"):
            own = {size: float(max(1, costs[name].memory - least)) for size, costs in found.items()}
            a, b = powers(own)
            lines.append(f"| memory of {STEPS[name]}, beyond that of Python | {a:.2f} | {b:.2f} |")
    lines += [
        "",
        "## A table",
        "",
        f"`gapbench score` on 15,625 networks x 13 measures: {table.seconds:.0f} s ({table.processor:.0f} s of all "
        f"processors), {table.memory / GIB:.2f} GiB.",
    ]
    return "\n".join([*lines, "", "## Wanted", "", *_gates(found, table)]) + "\n"


def _gates(found: Mapping[tuple[int, int], Mapping[str, Cost]], table: Cost) -> list[str]:
    """What is wanted, and whether it is so."""
    costs, lines = found.get((10_000, 60)), []
    for name, words in STEPS.items() if costs else ():
        took = costs[name].seconds
        lines.append(
            f"- {words}, 10,000 x 60, under {GATES[name]:.0f} s: {took:.1f} s, {_kept(took, GATES[name])}"
        )
    if costs:
        memory = costs["score"].memory
        lines.append(f"- memory of that score under 2 GiB: {memory / GIB:.2f} GiB, {_kept(memory, MEMORY)}")
    said = _kept(table.seconds, GATES["table"])
    return [*lines, f"- the table under {GATES['table']:.0f} s: {table.seconds:.0f} s, {said}"]


def _kept(value: float, most: float) -> str:
    return "kept" if value < most else "**not kept**"


def about(threads: int) -> list[str]:
    """Date, versions, machine and command."""
    sorting, adding = reference()
    known = ", ".join(
        f"{name} {version}" for name, version in versions().items() if version != "not installed"
    )
    arguments = " ".join(sys.argv[1:])
    return [
        "# Large runs",
        "",
        f"{datetime.datetime.now(datetime.UTC).date().isoformat()}; Python {platform.python_version()}, {known}; "
        f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores of a shared machine, {threads} threads; load "
        f"{os.getloadavg()[0]:.1f} at the start.",
        "",
        f"For comparison, one core here sorts 10 million random numbers (`numpy.sort`) in {sorting:.2f} s and adds "
        f"10 million whole numbers in a Python loop in {adding:.2f} s.",
        "",
        f"`python performance/large_run.py{' ' if arguments else ''}{arguments}`",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sizes", default="1250x15,1250x60,2500x30,5000x15,10000x60", help="networks x measures"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a Markdown file of the results")
    parser.add_argument("--step", choices=[*STEPS, "none"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        if given.step == "none":
            print(json.dumps([0.0, 0.0]))
        else:
            step(given.step, given.folder, given.threads)
        return
    said = about(given.threads)
    least = cost_of([str(Path(__file__).resolve()), "--step", "none"], counted=False).memory
    found = {}
    for text in given.sizes.split(","):
        networks, _, proxies = text.partition("x")
        size = int(networks), int(proxies)
        found[size] = costs_of_run(*size, given.threads)
        words = ", ".join(
            f"{name} {cost.seconds:.1f} s ({cost.processor:.1f}), {cost.memory / GIB:.2f} GiB"
            for name, cost in found[size].items()
        )
        print(f"{size[0]:,} x {size[1]}: {words}", flush=True)
    text = written(found, cost_of_table(given.threads), least, said)
    print(text)
    if given.out is not None:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
