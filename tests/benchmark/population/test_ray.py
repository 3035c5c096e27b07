"""Runs on a Ray cluster: the rows of the local engine, whatever is killed on the way; and what is refused."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import gapbench
from benchmark.ray_cases import workers_of
from benchmark.run_cases import count, rows, same, start, weights
from benchmark.tiny_suite import TINY
from gapbench import GapbenchError
from gapbench.commands.run import run_command
from gapbench.population.driver import DEATHS, LOSSES
from gapbench.population.inline import Inline
from gapbench.population.jobs import MeasureJob, Setup, TrainJob, data_of
from gapbench.population.ray_cluster import Cluster
from gapbench.population.ray_crew import on_node, resources
from gapbench.population.ray_worker import TOKEN, expected_of, messages, unfit
from gapbench.population.stacks import train_job
from gapbench.population.updating import brought_up_to_date
from gapbench.running import planned, setup_of
from gapbench.runs.weight_location import weights_of
from gapbench.suites.suite import load_suite
from script import script

PATIENCE = 240  # seconds


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "tiny.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def finished(suite_file, tmp_path_factory):
    """A complete run of this machine, never changed by a test."""
    return gapbench.run(suite_file, tmp_path_factory.mktemp("local"), device="cpu", workers=2, board=False)


def started(suite_file: Path, folder: Path, cluster) -> subprocess.Popen:
    return start(suite_file, folder, "--engine", "ray", "--address", cluster.address)


def wait_for(folder: Path, table: str, least: int, process: subprocess.Popen) -> None:
    """Until a run has so many rows."""
    deadline = time.monotonic() + PATIENCE
    while count(folder, table) < least and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() is None, process.stderr.read()
    assert count(folder, table) >= least


def ends_like(finished, folder: Path, process: subprocess.Popen, board: Path) -> None:
    """The process ends well, and the run has every row of the undisturbed one once, and the same board."""
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error
    equals(finished, folder, board)


def equals(finished, folder: Path, board: Path) -> None:
    same(finished, gapbench.open_run(folder))
    for table in ("cells", "measurements"):
        keys = [row[:2] for row in rows(folder, table)]
        assert keys == [row[:2] for row in rows(finished.folder, table)]  # each once, at its first attempt
    assert weights(folder) == weights(finished.folder)
    stress = script("stress")
    assert stress.settled_board(folder, board / "a") == stress.settled_board(finished.folder, board / "b")


@pytest.mark.slow
def test_two_nodes_give_the_rows_of_one_machine(finished, suite_file, cluster, tmp_path):
    process = started(suite_file, tmp_path / "run", cluster)
    ends_like(finished, tmp_path / "run", process, tmp_path)


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(finished, suite_file, cluster, tmp_path):
    process = started(suite_file, tmp_path / "run", cluster)
    wait_for(tmp_path / "run", "cells", 2, process)
    killed = workers_of(cluster)
    assert killed
    for worker in killed:
        os.kill(worker, signal.SIGKILL)
    ends_like(finished, tmp_path / "run", process, tmp_path)


@pytest.mark.slow
def test_a_lost_node_loses_nothing(finished, suite_file, cluster, tmp_path):
    node = cluster.add_node(num_cpus=1)
    process = started(suite_file, tmp_path / "run", cluster)
    wait_for(tmp_path / "run", "cells", 3, process)
    cluster.remove_node(node, allow_graceful=False)
    ends_like(finished, tmp_path / "run", process, tmp_path)


@pytest.mark.slow
def test_a_killed_driver_goes_on_where_it_was(finished, suite_file, cluster, tmp_path):
    process = started(suite_file, tmp_path / "run", cluster)
    wait_for(tmp_path / "run", "measurements", 7, process)
    process.kill()
    process.communicate()
    before = rows(tmp_path / "run", "cells"), rows(tmp_path / "run", "measurements")
    again = started(suite_file, tmp_path / "run", cluster)
    ends_like(finished, tmp_path / "run", again, tmp_path)
    assert set(before[0]) <= set(rows(tmp_path / "run", "cells"))
    assert set(before[1]) <= set(rows(tmp_path / "run", "measurements"))


class Unlucky(Inline):
    """Jobs of some kinds are ended some times before they are done, by what `kind` says."""

    def __init__(self, setup: Setup, jobs: tuple[type, ...], kind: str, times: int):
        super().__init__(setup)
        self.jobs, self.kind, self.times = jobs, kind, times
        self.ended: Counter[tuple[str, type]] = Counter()

    def _work(self, job, send) -> None:
        if not isinstance(job, self.jobs) or self.ended[job.cell, type(job)] >= self.times:
            super()._work(job, send)
            return
        self.ended[job.cell, type(job)] += 1
        if isinstance(job, MeasureJob):
            send("measuring", job.requests[0][0])
        send(self.kind, "it was struck")


def struck(suite_file, folder, jobs, kind, times, limit=2):
    suite = load_suite(str(suite_file))
    setup = setup_of(suite, folder, "cpu", None, 1, "off")
    problems = brought_up_to_date(
        suite,
        setup,
        planned(suite, None, "here"),
        suite.proxies,
        1,
        limit=limit,
        crew=lambda own, _: Unlucky(own, jobs, kind, times),
    )
    return gapbench.open_run(folder, tuple(problems))


@pytest.mark.parametrize(("kind", "most"), [("died", DEATHS), ("lost", LOSSES)])
def test_what_is_lost_a_few_times_is_done_and_what_is_lost_always_has_failed(
    suite_file, tmp_path, kind, most
):
    lucky = struck(suite_file, tmp_path / "lucky", (TrainJob, MeasureJob), kind, most - 1)
    assert len(lucky.population) == 2
    assert not lucky.failures
    assert not lucky.problems
    assert len(lucky.measurements) == 10
    never = struck(suite_file, tmp_path / "never", (TrainJob,), kind, most)
    assert list(never.population["status"]) == ["failed", "failed"]
    assert set(never.population["reason"]) == {f"it was struck, {most} times"}
    one = struck(suite_file, tmp_path / "one", (MeasureJob,), kind, most, limit=1)
    assert list(one.measurements["status"]).count("failed") == 1
    assert set(one.measurements["reason"]) == {"", f"it was struck, {most} times"}


@pytest.fixture
def fit(suite_file, tmp_path):
    """What a node must have, a setup, and a job that it can do."""
    suite = load_suite(str(suite_file))
    setup = setup_of(suite, tmp_path, "cpu", None, 1, "off")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / TOKEN).write_text("token")
    job = train_job(planned(suite, None, "here")[0])
    return expected_of("token"), setup, job


def test_a_node_must_have_the_same_versions_folder_and_data(fit):
    expected, setup, job = fit
    assert unfit(expected, setup, job, "n1") is None
    assert "The node n1 of the cluster has gapbench" in unfit(
        replace(expected, gapbench="0.0"), setup, job, "n1"
    )
    assert "this process 0.0" in unfit(replace(expected, gapbench="0.0"), setup, job, "n1")
    assert "has torch" in unfit(replace(expected, torch="1.0"), setup, job, "n1")
    assert f"does not see the folder {setup.run}" in unfit(replace(expected, token="other"), setup, job, "n1")
    task = {**job.description["task"], "fingerprint": "other"}
    other = replace(job, description={**job.description, "task": task})
    assert "has other data for separable" in unfit(expected, setup, other, "n1")
    measuring = MeasureJob(job.cell, job.seed, job.configuration, "0", (), data="other")
    assert "has other data for separable" in unfit(expected, setup, measuring, "n1")
    assert unfit(expected, setup, replace(measuring, data=data_of(job.description)), "n1") is None
    missing = replace(job.configuration, task="cifar10", task_options=())
    lacking = replace(setup, data_dir=str(setup.run))
    assert "has no data for cifar10" in unfit(expected, lacking, replace(job, configuration=missing), "n1")


def test_a_job_is_done_as_messages(fit):
    expected, setup, job = fit
    said = list(messages(*(pickle.dumps(part) for part in (expected, setup, job))))
    assert [kind for kind, _ in said] == ["at", "training", "trained"]
    assert said[0][1][1] == setup.arithmetic
    assert said[1][1] == (job.cell,)
    record = said[2][1]
    assert (record.cell, record.measurable) == (job.cell, True)
    assert list((setup.run / "weights").glob("*.safetensors")) == [weights_of(setup.run, job.cell)]
    said = list(messages(*(pickle.dumps(part) for part in (replace(expected, gapbench="0.0"), setup, job))))
    assert [kind for kind, _ in said] == ["unfit"]


def test_what_is_sent_to_a_node_needs_no_gapbench_there(tmp_path):
    """It is unpickled and called where no module of gapbench can be imported."""
    from ray import cloudpickle

    (tmp_path / "sent").write_bytes(cloudpickle.dumps(on_node()))
    code = (
        "import sys\n"
        "sys.modules['gapbench'] = sys.modules['gapbench_base'] = None\n"
        "from ray import cloudpickle\n"
        f"function = cloudpickle.loads(open({str(tmp_path / 'sent')!r}, 'rb').read())\n"
        "[(kind, text)] = function('messages', b'', b'', b'')\n"
        "print(kind, text)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        f"unfit The node {socket.gethostname()} of the cluster has no gapbench in its Python"
    )
    assert "install the same version on all nodes" in done.stdout


def test_tasks_ask_for_a_core_and_a_share_of_a_gpu():
    assert resources("cpu") == {"num_cpus": 1}
    assert resources("cuda") == {"num_cpus": 1, "num_gpus": 0.25}


@dataclass(frozen=True)
class FakeRay:
    has: dict[str, float]

    def cluster_resources(self):
        return self.has

    def nodes(self):
        return [
            {"Alive": True, "Resources": {"memory": 8.0, "CPU": 4.0}},
            {"Alive": True, "Resources": {"CPU": 4.0}},
            {"Alive": False, "Resources": {"memory": 16.0}},
        ]


def test_as_many_jobs_at_a_time_as_the_cluster_has_room_for():
    mixed = Cluster(FakeRay({"CPU": 12.0, "GPU": 2.0}))
    assert (mixed.device("auto"), mixed.workers(None, "cuda"), mixed.workers(None, "cpu")) == ("cuda", 8, 12)
    assert mixed.workers(3, "cuda") == 3
    assert Cluster(mixed.ray, 0.5).workers(None, "cuda") == 4
    assert mixed.most_memory() == 8  # of nodes that are there
    plain = Cluster(FakeRay({"CPU": 12.0}))
    assert plain.device("auto") == plain.device("cpu") == "cpu"
    with pytest.raises(GapbenchError, match="no node of the Ray cluster has a GPU"):
        plain.device("cuda")
    with pytest.raises(GapbenchError, match="workers = 0 works in this process"):
        plain.workers(0, "cpu")
    with pytest.raises(GapbenchError, match=r"has no processor now.*--workers"):
        Cluster(FakeRay({})).workers(None, "cpu")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"engine": "rya"}, r"engine = 'rya' is none of local, ray.*Did you mean.*ray"),
        ({"address": "head:6379"}, r"address = 'head:6379' is of a cluster: give engine = 'ray'"),
        ({"engine": "ray", "address": "head"}, r"give host:port, such as head:6379"),
        ({"engine": "ray", "address": "ray://head:10001"}, r"that of Ray's client"),
        (
            {"engine": "ray", "address": "127.0.0.1:1"},
            r"No Ray cluster answers at 127.0.0.1:1 \(Connection refused",
        ),
        (
            {"engine": "ray", "address": "no-such-host.invalid:6379"},
            r"No Ray cluster answers at no-such-host",
        ),
    ],
)
def test_engines_and_addresses_that_cannot_be(suite_file, tmp_path, options, words):
    with pytest.raises(GapbenchError, match=words):
        gapbench.run(suite_file, tmp_path / "run", device="cpu", **options)
    assert not (tmp_path / "run").exists()


def test_without_ray_it_is_said_what_to_install(suite_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(GapbenchError, match=r"needs Ray: pip install 'gapbench\[ray\]'"):
        gapbench.run(suite_file, tmp_path / "run", device="cpu", engine="ray")
    assert not (tmp_path / "run").exists()


def test_a_dry_run_is_of_this_machine(suite_file):
    said = CliRunner().invoke(run_command, [str(suite_file), "--dry-run", "--engine", "ray"])
    assert "tries networks on this machine" in str(said.exception)
