"""A pilot of a tiny suite: resumes, says the same in all forms, and goes on as a run."""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from click.testing import CliRunner

from benchmark.run_cases import rows
from benchmark.tiny_suite import TINY
from gapbench.cli import cli
from gapbench.pilot.piloting import pilot
from gapbench.pilot.report import summary
from gapbench.pilot.words import report_text
from gapbench.population.facts import facts_source
from gapbench.population.network import handover_of
from gapbench.population.plan import plan
from gapbench.population.stored import open_population
from gapbench.running import run
from gapbench.runs.run import open_run
from gapbench.suites.suite import parse_suite
from gapbench_base.errors import GapbenchError

ONE_SEED = TINY.replace("seed = [0, 1]", "seed = [3]")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pilot")
    suite = folder / "tiny.toml"
    suite.write_text(ONE_SEED)
    report, done = pilot(suite, 8, folder / "run", device="cpu", workers=0)
    return suite, report, done


def test_the_networks_are_the_suites_own_and_seeds_beside_them(made):
    _, report, done = made
    whole = {c.key: c for c in plan(parse_suite(ONE_SEED, "tiny"), facts_source(None))}
    assert report.networks == len(done.population) == 8
    assert report.planned == len(whole) == 6
    assert set(whole) < set(done.population["cell"])
    added = done.population[~done.population["cell"].isin(whole)]
    assert sorted(added["seed"]) == [0, 0]
    assert done.problems == ()


def test_all_that_is_predicted_is_there_and_every_form_says_the_same(made):
    _, report, done = made
    values = json.loads((done.folder / "pilot.json").read_text())
    assert values["hours"] == pytest.approx(report.hours)
    assert 0 < report.hours < 0.1
    weights = sum(file.stat().st_size for file in (done.folder / "weights").iterdir())
    assert report.bytes == pytest.approx(
        6 / 8 * (weights + (done.folder / "run.sqlite").stat().st_size), rel=0.5
    )
    assert values["kept"] == report.kept
    assert values["decision"]["levels"][0]["low"] < 1
    text = report_text(report)
    markdown = (done.folder / "pilot.md").read_text()
    assert all(len(line) <= 100 for line in text.splitlines())
    for words in ("plain/mlp", "to train and measure, with 1 workers (cpu)"):
        assert words in text
        assert words in markdown
    for gate in report.decision.gates:
        assert f"**{gate.name}**" in markdown
        assert gate.name in text
    for advice in values["advice"]:
        assert advice.split()[0].replace("_", "\\_") in markdown


def test_times_measured_on_a_busy_machine_are_said_to_be_such(made):
    _, report, _ = made
    quiet, busy = (dict(summary(replace(report, cores=2, load=load)))["time"] for load in (2.1, 4.3))
    assert "other work" not in quiet
    assert "other work (load 4.3 on 2 cores)" in busy
    assert "other work" not in dict(summary(replace(report, cores=2, load=float("nan"))))["time"]


def test_the_same_again_trains_nothing_and_more_go_on(made):
    suite, report, done = made
    before = rows(done.folder, "cells"), rows(done.folder, "measurements")
    again, _ = pilot(suite, 8, done.folder, device="cpu", workers=0)
    assert (rows(done.folder, "cells"), rows(done.folder, "measurements")) == before
    assert again.decision == report.decision or again.decision.gates == report.decision.gates
    assert again.hours == pytest.approx(report.hours)


def test_a_run_in_the_same_folder_goes_on_from_it_and_is_no_pilot_any_more(made, tmp_path):
    suite, _, _ = made
    pilot(suite, 4, tmp_path / "run", device="cpu", workers=0)
    trained = {row[0] for row in rows(tmp_path / "run", "cells")}
    whole = run(suite, tmp_path / "run", device="cpu", workers=0, board=False)
    assert len(whole.population) == 6
    assert len(trained & set(whole.population["cell"])) == 3
    with pytest.raises(GapbenchError, match="no pilot"):
        pilot(suite, 4, tmp_path / "run", device="cpu", workers=0)
    assert open_run(tmp_path / "run").cells == whole.cells


@pytest.mark.slow
def test_a_pilot_that_is_killed_is_taken_up_again_also_when_it_was_asked_for_more(tmp_path):
    suite, folder = tmp_path / "tiny.toml", tmp_path / "run"
    suite.write_text(ONE_SEED)
    paths = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}

    def killed(networks, after):
        arguments = [
            sys.executable,
            "-m",
            "gapbench",
            "pilot",
            suite,
            "--networks",
            networks,
            "--out",
            folder,
        ]
        process = subprocess.Popen([*map(str, arguments), "--workers", "1"], env={**os.environ, **paths})
        while process.poll() is None:
            done = (
                len(rows(folder, "cells")) if (folder / "run.sqlite").exists() and _has_cells(folder) else 0
            )
            if done >= after:
                process.kill()
            time.sleep(0.02)
        process.wait()

    killed(4, after=1)
    pilot(suite, 4, folder, device="cpu", workers=0)
    killed(8, after=5)
    report, done = pilot(suite, 8, folder, device="cpu", workers=0)
    assert len(done.population) == report.networks == 8
    fewer, _ = pilot(suite, 4, folder, device="cpu", workers=0)
    assert fewer.networks == 4


def _has_cells(folder):
    with contextlib.closing(sqlite3.connect(folder / "run.sqlite")) as database:
        return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = 'cells'").fetchone())


def test_proxies_are_submitted_to_all_networks_of_a_pilot(made):
    _, _, done = made
    population = open_population(done.folder)
    assert {member.key for member in population.members} == set(done.population["cell"])
    seeds = {member.key: member.configuration.seed for member in population.members}
    assert seeds == dict(zip(done.population["cell"], done.population["seed"]))
    for member in population.members:
        assert handover_of(member, population).model is not None


def test_a_suite_of_which_nothing_converges_is_told_so(tmp_path):
    suite = tmp_path / "never.toml"
    suite.write_text(
        ONE_SEED.replace("max_epochs = 12", "max_epochs = 1").replace("stop_loss = 0.2", "stop_loss = 1e-6")
    )
    report, done = pilot(suite, 4, tmp_path / "run", device="cpu", workers=0)
    assert set(done.population["status"]) == {"not_converged"}
    assert report.kept == 0
    assert report.hours > 0
    text = report_text(report)
    assert "0 of 4" in text
    assert "not known" in text
    assert "nan" not in text
    assert json.loads((tmp_path / "run" / "pilot.json").read_text())["forecast"]["half_width"] is None


def test_the_command_says_what_the_function_says(made):
    suite, report, done = made
    shown = CliRunner().invoke(
        cli, ["pilot", str(suite), "--networks", "8", "--out", str(done.folder), "--device", "cpu"]
    )
    assert shown.exit_code == 0, shown.output
    assert "What these 8 networks can decide (gap)" in shown.output
    assert f"Of the whole suite {report.suite}, 6 networks, as far as 8 tell" in shown.output
    assert "pilot.md" in shown.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["qick"], "Did you mean 'quick'"), (["quick", "--networks", "1"], "--networks"), ([], "SUITE")],
)
def test_mistakes_are_one_message(arguments, words, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "gapbench", "pilot", *arguments], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )  # fmt: skip
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
