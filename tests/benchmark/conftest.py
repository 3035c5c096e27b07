"""A trained tiny population, and processes for proxies, shared by the tests of this folder."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

import gapbench
from benchmark.sandbox.adversaries import BENIGN
from benchmark.tiny_suite import TINY
from gapbench.sandbox import bubblewrap
from gapbench.sandbox.launching import Host
from gapbench.submission.submitting import submit

WALLS = bubblewrap.unavailable()
needs_sandbox = pytest.mark.skipif(bool(WALLS), reason=f"no sandbox: {WALLS}")


@pytest.fixture(scope="session")
def hosts():
    """Two sandboxed processes to be shared; unsandboxed where the machine has no sandbox."""
    with Host(not WALLS) as first, Host(not WALLS) as second:
        yield [first, second]


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A trained tiny population, never changed by a test."""
    folder = tmp_path_factory.mktemp("trained")
    suite = folder / "tiny.toml"
    suite.write_text(TINY)
    gapbench.run(suite, folder / "run", device="cpu", workers=0, proxies=["param_norm", "random"])
    return folder / "run"


@pytest.fixture(scope="session")
def entered_once(trained, hosts, tmp_path_factory):
    """The population with one entry, never changed by a test; and the entry."""
    folder = tmp_path_factory.mktemp("entered")
    shutil.copytree(trained, folder / "run")
    file = folder / "mine.py"
    file.write_text(BENIGN["a_norm"])
    about = {"name": "a_norm", "authors": "N. N.", "paper": "A title"}
    done = submit(file, folder / "run", hosts=hosts, unsandboxed=bool(WALLS), **about)
    return folder / "run", done.entry


@pytest.fixture
def entered(entered_once, run_folder):
    """The same in `run_folder`."""
    shutil.copytree(entered_once[0], run_folder, dirs_exist_ok=True)
    return entered_once[1]


@pytest.fixture
def run_folder(trained, tmp_path):
    """A copy of it."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def cluster():
    """A head and another node, each with a place for one job."""
    from ray.cluster_utils import Cluster as LocalCluster

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    found = LocalCluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    found.add_node(num_cpus=1)
    yield found
    found.shutdown()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
