"""Whole runs whose networks are trained together: the same results, whatever happens on the way."""

import json
import os
import signal
import sqlite3
import time
from collections import Counter

import pandas as pd
import pytest
import torch

import gapbench
from benchmark.run_cases import children, count, rows, same, start, weights
from benchmark.tiny_suite import TINY
from gapbench.population import driver, pool, stacked_cells
from gapbench.population.facts import facts_source
from gapbench.population.inline import Inline
from gapbench.population.jobs import Setup, StackJob, TrainJob, TrialJob
from gapbench.population.layer_stack import LayerStack
from gapbench.population.plan import Cell, plan
from gapbench.population.progress import Silent
from gapbench.population.stacked_parameters import Unsuitable
from gapbench.population.stacks import Decision, Stacks
from gapbench.runs.environment import arithmetic
from gapbench.runs.store import Store
from gapbench.suites.suite import load_suite

pytestmark = pytest.mark.skipif(
    not torch.backends.mkl.is_available(),
    reason="other kernels may round otherwise, and then no stack is taken",
)
LONG = TINY.replace("width = [0.125, 0.25, 0.5]", "width = [0.125]").replace(
    "learning_rate = [0.1, 0.2]", "learning_rate = [0.1, 0.2]\nmax_epochs = [4, 2500]"
)
LONG = LONG.replace("stop_loss = 0.2", "stop_loss = 1e-9")
LAYERS = Decision("layers", exact=True, size=4)
VMAP = Decision("vmap", exact=False, size=3)


def write(folder, text):
    path = folder / "suite.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    return write(tmp_path_factory.mktemp("suite"), TINY)


@pytest.fixture(scope="module")
def alone(suite, tmp_path_factory):
    """The run whose networks are trained one at a time."""
    return gapbench.run(suite, tmp_path_factory.mktemp("run"), device="cpu", workers=0, stacks="off")


@pytest.fixture
def decide(monkeypatch):
    """Replace trials by a decision; gives the decision to take, and counts the trials."""

    def with_decision(decision):
        calls = Counter()

        def choose(*_):
            calls["trials"] += 1
            return decision

        monkeypatch.setattr(stacked_cells, "choose", choose)
        return calls

    return with_decision


def quick(suite, folder, **options):
    options = {"device": "cpu", "workers": 0, "board": False, "proxies": ["param_norm"]} | options
    return gapbench.run(suite, folder, **options)


def engines(folder):
    return {row[0]: row[1:] for row in select(folder, "SELECT cell, engine, company FROM cells")}


def select(folder, query):
    with sqlite3.connect(folder / "run.sqlite") as db:
        return db.execute(query).fetchall()


def same_board(a, b):
    """But for what depends on the clock."""
    names = ("scores.csv", "population.csv", "measurements.csv")
    for name in names:
        one, other = (pd.read_csv(run.folder / "board" / name) for run in (a, b))
        if name == "scores.csv":
            one, other = (table[table["estimator"] != "seconds"] for table in (one, other))
        clock = [c for c in ("seconds", "peak_memory", "details") if c in one.columns]
        pd.testing.assert_frame_equal(one.drop(columns=clock), other.drop(columns=clock), check_exact=True)


def test_tables_weights_and_board_are_those_of_the_plain_loop(alone, suite, tmp_path, decide):
    decide(LAYERS)
    result = gapbench.run(suite, tmp_path / "run", device="cpu", workers=0)
    assert Counter(engine for engine, _ in engines(result.folder).values()) == {"layers": 12}
    assert Counter(engine for engine, _ in engines(alone.folder).values()) == {"loop": 12}
    assert weights(result.folder) == weights(alone.folder)
    same(result, alone)
    same_board(result, alone)
    histories = "SELECT cell, history, train_correct, test_correct FROM cells ORDER BY cell"
    assert select(result.folder, histories) == select(alone.folder, histories)


def test_a_trial_decides_once_per_run_and_architecture(suite, tmp_path, decide):
    calls = decide(LAYERS)
    quick(suite, tmp_path, limit=11)
    assert calls["trials"] == 3
    stored = json.loads(select(tmp_path, "SELECT value FROM meta WHERE name = 'training'")[0][0])
    assert {decision["engine"] for decision in stored.values()} == {"layers"}
    again = decide(Decision())
    quick(suite, tmp_path)
    assert again["trials"] == 0
    assert Counter(engine for engine, _ in engines(tmp_path).values()) == {"layers": 12}


def test_a_real_trial_takes_an_exact_engine_or_says_why_not(suite, tmp_path):
    quick(suite, tmp_path)
    stored = json.loads(select(tmp_path, "SELECT value FROM meta WHERE name = 'training'")[0][0])
    assert len(stored) == 3
    for decision in stored.values():
        assert decision["exact"]
        assert decision["engine"] == "layers" or decision["reason"]
        assert decision["engine"] in ("layers", "loop")


def test_a_way_that_is_not_known_is_refused(suite, tmp_path):
    with pytest.raises(gapbench.GapbenchError, match="stacks = 'all' is none of exact, any, off"):
        quick(suite, tmp_path, stacks="all")


def test_dropout_goes_by_the_plain_loop_with_a_reason(tmp_path):
    text = TINY.replace("stop_loss = 0.2", "stop_loss = 0.2, dropout = 0.2")
    quick(write(tmp_path, text), tmp_path / "run", stacks="any", limit=12)
    stored = json.loads(select(tmp_path / "run", "SELECT value FROM meta WHERE name = 'training'")[0][0])
    for decision in stored.values():
        assert decision["engine"] == "loop"
        assert "Dropout is no part" in decision["reason"]
        assert "draws random numbers" in decision["reason"]


@pytest.mark.parametrize("decision", [LAYERS, VMAP])
def test_a_damaged_weight_file_is_restored_by_the_engine_and_in_the_company_it_came_from(
    suite, tmp_path, decide, decision
):
    decide(decision)
    first = quick(suite, tmp_path, stacks="any")
    before = weights(first.folder)
    for cell in first.population["cell"][[0, 7]]:
        engine, company = engines(tmp_path)[cell]
        assert engine == decision.engine
        assert (company is None) == decision.exact
        assert decision.exact or (cell in json.loads(company) and len(json.loads(company)) >= 2)
        (tmp_path / "weights" / f"{cell}.safetensors").write_bytes(b"damaged")
    kept = rows(tmp_path, "cells")
    result = quick(suite, tmp_path)  # whatever may be taken now
    assert not result.problems
    assert weights(result.folder) == before
    assert rows(tmp_path, "cells") == kept


@pytest.mark.parametrize("decision", [LAYERS, VMAP])
def test_an_interrupted_stack_is_finished_as_if_it_had_not_been(suite, tmp_path, decide, decision):
    decide(decision)
    whole = quick(suite, tmp_path / "whole", stacks="any")

    class Interrupts(Silent):
        heard = 0

        def trained(self, record):
            self.heard += 1
            if self.heard == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick(suite, tmp_path / "part", stacks="any", progress=Interrupts())
    before = rows(tmp_path / "part", "cells")
    assert len(before) == 2
    result = quick(suite, tmp_path / "part", stacks="any")
    assert set(before) < set(rows(tmp_path / "part", "cells"))
    assert weights(result.folder) == weights(whole.folder)
    same(result, whole)


def test_an_error_of_storing_is_not_taken_for_one_of_the_engine(suite, tmp_path, decide):
    decide(LAYERS)

    class Breaks(Silent):
        def trained(self, record):
            raise gapbench.GapbenchError("the listener has enough")

    with pytest.raises(gapbench.GapbenchError, match="has enough"):
        quick(suite, tmp_path, progress=Breaks())
    assert len(rows(tmp_path, "cells")) == 1


def test_short_of_memory_a_stack_goes_on_in_halves(alone, suite, tmp_path, decide, monkeypatch):
    decide(LAYERS)
    sizes = []

    def engine(models, inputs):
        sizes.append(len(models))
        if len(models) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return LayerStack(models, inputs)

    monkeypatch.setitem(stacked_cells.ENGINES, "layers", engine)
    result = quick(suite, tmp_path)
    assert sizes == [4, 2, 2] * 3
    assert weights(result.folder) == weights(alone.folder)


def test_what_an_engine_cannot_do_the_plain_loop_does(alone, suite, tmp_path, decide, monkeypatch):
    decide(LAYERS)

    def engine(models, inputs):
        raise Unsuitable("not today")

    monkeypatch.setitem(stacked_cells.ENGINES, "layers", engine)
    result = quick(suite, tmp_path)
    assert {engine for engine, _ in engines(tmp_path).values()} == {"loop"}
    assert weights(result.folder) == weights(alone.folder)


def test_networks_that_cannot_be_built_are_failed_rows_each(suite, tmp_path, monkeypatch):
    def untrained(*_):
        raise ValueError("cannot be built")

    monkeypatch.setattr(stacked_cells, "untrained", untrained)
    monkeypatch.setattr("gapbench.population.cells.untrained", untrained)
    result = quick(suite, tmp_path)
    assert set(result.population["status"]) == {"failed"}
    stored = json.loads(select(tmp_path, "SELECT value FROM meta WHERE name = 'training'")[0][0])
    assert {d["reason"] for d in stored.values()} == {"ValueError: cannot be built"}


def test_a_failure_of_one_member_is_its_own_row(suite, alone, tmp_path, decide, monkeypatch):
    decide(LAYERS)
    bad = alone.population["cell"][3]
    build = stacked_cells.untrained

    def untrained(configuration, seed, task):
        if seed == Cell(bad, configuration, {}).seed:
            raise ValueError("cannot be built")
        return build(configuration, seed, task)

    monkeypatch.setattr(stacked_cells, "untrained", untrained)
    monkeypatch.setattr(stacked_cells, "tried", lambda *_: LAYERS)
    result = quick(suite, tmp_path)
    found = result.population.set_index("cell")
    assert found["status"][bad] == "failed"
    assert "cannot be built" in result.failures[0]
    others = {name: content for name, content in weights(alone.folder).items() if bad not in name}
    assert weights(result.folder) == others


def test_a_network_that_kills_its_worker_is_found_and_takes_no_other_along(
    suite, alone, tmp_path, decide, monkeypatch
):
    decide(LAYERS)
    bad = alone.population["cell"][3]
    deaths = []

    class Killed(Inline):
        def _work(self, job, send):
            cells = [m.cell for m in job.members] if isinstance(job, StackJob) else [job.cell]
            if isinstance(job, StackJob | TrainJob) and bad in cells:
                deaths.append(len(cells))
                send("died", "the worker process was killed by signal 11")
            else:
                super()._work(job, send)

    monkeypatch.setattr(pool, "Inline", Killed)
    result = quick(suite, tmp_path)
    assert deaths == [4, 4, 2, 2, 1, 1]
    found = result.population.set_index("cell")
    assert found["status"][bad] == "failed"
    assert "signal 11, 2 times" in found["reason"][bad]
    others = {name: content for name, content in weights(alone.folder).items() if bad not in name}
    assert weights(result.folder) == others


def test_a_trial_that_kills_its_worker_leaves_the_plain_loop(suite, alone, tmp_path, monkeypatch):
    class Killed(Inline):
        def _work(self, job, send):
            if isinstance(job, TrialJob):
                send("died", "the worker process was killed by signal 11")
            else:
                super()._work(job, send)

    monkeypatch.setattr(pool, "Inline", Killed)
    result = quick(suite, tmp_path)
    assert {engine for engine, _ in engines(tmp_path).values()} == {"loop"}
    assert weights(result.folder) == weights(alone.folder)


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A suite whose stacks lose half their members at once and go on for seconds, and its undisturbed run."""
    path = write(tmp_path_factory.mktemp("suite"), LONG)
    folder = tmp_path_factory.mktemp("run")
    return path, gapbench.run(path, folder, device="cpu", workers=2, stacks="off")


def train_until(path, folder, cells, *options):
    process = start(path, folder, *options)
    deadline = time.monotonic() + 240
    while count(folder, "cells") < cells and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("who", ["everyone", "driver"])
def test_killed_in_the_middle_of_a_stack(long, tmp_path, who):
    path, undisturbed = long
    process = train_until(path, tmp_path, 2)
    workers = children(process.pid) if who == "everyone" else []
    for pid in [*workers, process.pid]:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    before = rows(tmp_path, "cells")
    assert 2 <= len(before) < 8
    time.sleep(2)  # a worker without a driver ends by itself
    result = gapbench.run(path, tmp_path, device="cpu", workers=2)
    assert set(before) < set(rows(tmp_path, "cells"))
    assert len(rows(tmp_path, "cells")) == 8
    assert weights(result.folder) == weights(undisturbed.folder)
    same(result, undisturbed)
    same_board(result, undisturbed)


@pytest.mark.slow
def test_killed_workers_of_stacks_are_replaced(long, tmp_path):
    path, undisturbed = long
    process = train_until(path, tmp_path, 2)
    for worker in children(process.pid):
        os.kill(worker, signal.SIGKILL)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 1  # for none of these networks converges
    assert "0 of 8 networks can be ranked" in said
    assert "failed:" not in said
    result = gapbench.open_run(tmp_path)
    assert weights(result.folder) == weights(undisturbed.folder)
    same(result, undisturbed)


def decided_before(path, folder, decision):
    """Store a decision in a run that has not begun, for all architectures of its suite."""
    folder.mkdir()
    planned = plan(load_suite(str(path)), facts_source(None))
    setup = Setup(folder, None, "cpu", 40, "cross_entropy", 0, 2, "any", arithmetic("cpu"))
    stacks = Stacks(setup, planned, {})
    for job in stacks.jobs([cell.key for cell in planned]):
        stacks.decided(job.architecture, decision)
    with Store(folder) as store:
        store.set_meta(driver.DECISIONS, stacks.stored())
    return folder


@pytest.mark.slow
def test_killed_in_the_middle_of_a_stack_whose_numbers_depend_on_the_company(tmp_path):
    path = write(tmp_path, LONG.replace("6000", "1500"))
    folders = [decided_before(path, tmp_path / name, VMAP) for name in ("killed", "undisturbed")]
    process = train_until(path, folders[0], 2, "--stacks", "any")
    for pid in [*children(process.pid), process.pid]:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    before = rows(folders[0], "cells")
    assert 2 <= len(before) < 8
    runs = [gapbench.run(path, folder, device="cpu", workers=2, stacks="any") for folder in folders]
    assert set(before) < set(rows(folders[0], "cells"))
    for folder in folders:
        assert Counter(engine for engine, _ in engines(folder).values()) == {"vmap": 8}
    assert weights(runs[0].folder) == weights(runs[1].folder)
    same(*runs)
    same_board(*runs)
