"""Submitting and verifying on a Ray cluster: the values of this machine, whatever is killed; unfit nodes."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import sqlite3
from dataclasses import replace

import pytest

from benchmark.conftest import WALLS
from benchmark.ray_cases import workers_of
from gapbench import GapbenchError
from gapbench.population.ray_cluster import connected
from gapbench.population.ray_worker import UNFIT, expected_of
from gapbench.population.stored import open_population
from gapbench.runs.entries import load_entries
from gapbench.sandbox import bubblewrap
from gapbench.sandbox.fleet import Fleet
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.source import source_of
from gapbench.submission.fleets import Where
from gapbench.submission.ray_fleet import RayFleet
from gapbench.submission.ray_measuring import Commission, described, measured, unfit
from gapbench.submission.submitting import submit, task_for
from gapbench.submission.verifying import verify

NOISY = """
import gapbench
import torch


@gapbench.proxy("noisy")
def noisy(context):
    return float(sum((p * torch.randn(p.shape, generator=context.generator)).sum() for p in context.parameters))
"""


@pytest.fixture
def commission():
    """A submission of a proxy that draws random numbers, by this process's versions."""
    return Commission(expected_of(""), source_of(NOISY.encode(), "noisy"), Limits(seconds=20), not WALLS)


def local_values(given: Commission, tasks, hosts) -> dict[str, float | None]:
    with Fleet(
        given.source, given.limits, sandboxed=given.sandboxed, workers=2, proxy="noisy", hosts=hosts
    ) as fleet:
        return {task.name: answer.measurement.value for task, answer in fleet.measure(tasks)}


def cluster_fleet(found, given: Commission) -> RayFleet:
    return RayFleet(found, given.source, given.limits, sandboxed=given.sandboxed, workers=None, proxy="noisy")


@pytest.mark.slow
def test_two_nodes_give_the_values_of_one_machine_and_a_killed_worker_loses_none(
    trained, hosts, cluster, commission
):
    population = open_population(trained)
    tasks = [task_for(population, member, "7") for member in population.members]
    expected = local_values(commission, tasks, hosts)
    assert None not in expected.values()
    with connected(cluster.address) as found, cluster_fleet(found, commission) as fleet:
        assert [entry["name"] for entry in fleet.describe().proxies] == ["noisy"]
        answers = []
        for task, answer in fleet.measure(tasks):
            answers.append((task.name, answer.measurement.value))
            if len(answers) == 2:
                killed = workers_of(cluster)
                assert killed
                for worker in killed:
                    os.kill(worker, signal.SIGKILL)
    assert len(answers) == len(tasks)
    assert dict(answers) == expected


@pytest.mark.slow
def test_what_is_submitted_on_a_cluster_is_confirmed_here_and_the_other_way_round(
    trained, hosts, cluster, tmp_path
):
    file = tmp_path / "noisy.py"
    file.write_text(NOISY)
    walls = {"unsandboxed": bool(WALLS)}
    there = {"engine": "ray", "address": cluster.address}
    shutil.copytree(trained, tmp_path / "a")
    entry = submit(file, tmp_path / "a", **walls, **there).entry
    assert set(entry.statuses) == {"ok"}
    assert load_entries(tmp_path / "a")[0].values == entry.values
    with sqlite3.connect(tmp_path / "a" / "run.sqlite") as database:
        rows = database.execute("SELECT cell, value FROM measurements WHERE label = 'noisy'").fetchall()
    assert dict(rows) == {cell: value.value for cell, value in entry.values.items()}
    assert len(rows) == len(entry.values)
    assert verify("noisy", tmp_path / "a", hosts=hosts, **walls).outcome == "confirmed"
    shutil.copytree(trained, tmp_path / "b")
    submit(file, tmp_path / "b", hosts=hosts, **walls)
    found = verify("noisy", tmp_path / "b", **walls, **there)
    assert (found.outcome, found.record.differing) == ("confirmed", 0)


def test_a_node_is_refused_by_name_that_has_no_sandbox_other_versions_or_lacks_a_package(
    commission, monkeypatch
):
    other = replace(commission, expected=replace(commission.expected, gapbench="0.0"))
    assert "The node n1 of the cluster has gapbench" in unfit(other, "n1")
    lacking = replace(commission, packages=("no_such_package",))
    assert "The node n1 of the cluster lacks no_such_package" in unfit(lacking, "n1")
    monkeypatch.setattr(bubblewrap, "unavailable", lambda: "bubblewrap (bwrap) is not installed")
    closed = replace(commission, sandboxed=True)
    reason = unfit(closed, "n1")
    assert "The node n1 of the cluster has no working sandbox" in reason
    assert "bubblewrap (bwrap) is not installed" in reason
    assert "--unsandboxed" in reason
    for said in (described(pickle.dumps(closed)), measured(pickle.dumps(closed), pickle.dumps(None))):
        [(kind, text)] = said
        assert kind == UNFIT
        assert text == unfit(closed, socket.gethostname())


def test_where_a_submission_is_measured_is_refused_before_anything_is_begun(monkeypatch, hosts):
    with pytest.raises(GapbenchError, match="engine = 'rya' is none of local, ray"):
        Where(engine="rya").check()
    with pytest.raises(GapbenchError, match="give engine = 'ray' as well"):
        Where(address="head:6379").check()
    with pytest.raises(GapbenchError, match="hosts are processes of this machine"):
        Where(engine="ray", hosts=hosts).check()
    monkeypatch.setattr(bubblewrap, "unavailable", lambda: "it is not installed")
    with pytest.raises(GapbenchError, match="not run without a sandbox: it is not installed"):
        Where().check()
    Where(engine="ray").check()  # each node looks at itself
    assert (Where().sandbox, Where(unsandboxed=True).sandbox) == ("bubblewrap", "none")
