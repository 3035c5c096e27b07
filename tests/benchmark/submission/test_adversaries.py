"""No proxy gets what it must not have, and each attempt is named; the run's other results stay as they were."""

import hashlib
import shutil
import sqlite3

import pytest

import gapbench
from benchmark.conftest import WALLS
from benchmark.sandbox.adversaries import ADVERSARIES, BENIGN, HARMLESS, PLACE
from gapbench import GapbenchError
from gapbench.population.stored import open_population
from gapbench.runs.entries import load_entries
from gapbench.sandbox.fleet import Fleet
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.source import read_source
from gapbench.submission.submitting import submit, task_for

LIMITS = Limits(seconds=4, load_seconds=4)


def results(folder):
    """Everything of a run that a submission must leave as it is, bit for bit."""
    with sqlite3.connect(f"file:{folder}/run.sqlite?mode=ro", uri=True) as db:
        cells = db.execute("SELECT * FROM cells ORDER BY 1, 2").fetchall()
        measured = db.execute(
            "SELECT * FROM measurements WHERE label IN ('param_norm', 'random') ORDER BY 1, 2"
        ).fetchall()
        suite = db.execute(
            "SELECT * FROM meta WHERE name IN ('suite', 'plan', 'proxies') ORDER BY 1"
        ).fetchall()
    files = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in (folder / "weights").iterdir()}
    board = {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest()
        for p in (folder / "board").iterdir()
        if p.suffix in (".csv", ".md", ".html")
    }
    return cells, measured, suite, files, board


@pytest.fixture(scope="module")
def place(trained, tmp_path_factory):
    """A run that stays while adversary after adversary has a go at it."""
    folder = tmp_path_factory.mktemp("place") / "run"
    shutil.copytree(trained, folder)
    return folder


def attempt(name, text, place, tmp_path, hosts):
    file = tmp_path / f"{name}.py"
    file.write_text(text.replace(PLACE, str(place)))
    try:
        done = submit(file, place, limits=LIMITS, hosts=hosts, unsandboxed=bool(WALLS))
    except GapbenchError as error:
        return str(error)
    assert done.entry is None
    return "; ".join(done.refusals)


@pytest.mark.slow
@pytest.mark.parametrize("name", ADVERSARIES)
def test_an_adversary_is_refused_with_the_reason_and_changes_nothing(name, place, tmp_path, hosts):
    text, expected = ADVERSARIES[name]
    before = results(place)
    assert expected in attempt(name, text, place, tmp_path, hosts)
    assert results(place) == before
    assert not (place / "evil").exists()
    assert not load_entries(place)


@pytest.mark.slow
@pytest.mark.parametrize("name", BENIGN)
def test_a_benign_proxy_is_entered_and_changes_no_other_result(name, run_folder, tmp_path, hosts):
    file = tmp_path / f"{name}.py"
    file.write_text(BENIGN[name])
    before = results(run_folder)
    done = submit(file, run_folder, name=name, limits=LIMITS, hosts=hosts, unsandboxed=bool(WALLS))
    assert not done.refusals
    assert done.entry.statuses == {"ok": 12}
    assert results(run_folder)[:4] == before[:4]


@pytest.mark.parametrize("name", HARMLESS)
def test_an_attempt_that_comes_to_nothing_gives_the_norm_to_the_last_bit(
    name, place, tmp_path, hosts, monkeypatch
):
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    file = tmp_path / f"{name}.py"
    file.write_text(HARMLESS[name])
    before = results(place)
    population = open_population(place)
    arguments = {"sandboxed": not WALLS, "workers": 2, "hosts": hosts, "proxy": "adversary"}
    with Fleet(read_source(file), LIMITS, **arguments) as fleet:
        tasks = [task_for(population, m, "seed", d) for m in population.members[::5] for d in (False, True)]
        answers = list(fleet.measure(tasks))
    run = gapbench.open_run(place).measurements
    norms = run[run["proxy"] == "param_norm"].set_index("cell")["value"]
    assert len(answers) == 6
    for task, answer in answers:
        assert (answer.measurement.status, answer.violations) == ("ok", ()), answer
        assert answer.measurement.value == norms[task.name]
    assert results(place) == before
