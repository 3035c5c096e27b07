"""Installed packages bring tasks, families and proxies; a broken one is named and breaks nothing."""

import json
import os
import subprocess
import sys

import pytest

SOURCE = '''
from gapbench_models import ModelFamily
from gapbench_tasks import TaskEntry

def load_easy(data_dir=None, *, train_size: int = 50, label_noise: float = 0.0, seed: int = 0):
    """Separable data under another name."""
    from dataclasses import replace
    from gapbench_tasks.loaders.separable import load_separable

    task = load_separable(train_size=train_size, label_noise=label_noise, seed=seed, shape=(1, 4, 4), test_size=100)
    return replace(task, name="easy", options={})

TASK = TaskEntry("easy", "my_plugin:load_easy", "an easy task of a plug-in")

def small(request):
    from torch import nn
    return nn.Sequential(nn.Flatten(), nn.Linear(16, max(1, int(8 * request.width))), nn.ReLU(),
                         nn.Linear(max(1, int(8 * request.width)), request.num_classes))

FAMILY = ModelFamily("mine/small", "mine", "a small network of a plug-in", "8 hidden units", ("relu",), (), None,
                     None, None, 1, "my_plugin:small")
'''
PROXY = '''
import gapbench

@gapbench.proxy("plugged_norm")
def plugged_norm(context):
    """A proxy of a plug-in."""
    return float(sum(p.abs().sum() for p in context.parameters))
'''
ESTIMATOR = """
from gapbench_leaderboard.scoring.registry import Estimator, Mark, for_each_proxy

@for_each_proxy(Estimator("plugged", "m", mark=Mark("z", "zed", "m", "a", at_least=0.5)))
def plugged(rows, data, proxy): ...

@for_each_proxy(Estimator("tau", "m"))
def taken(rows, data, proxy): ...

@for_each_proxy(Estimator("lettered", "m", mark=Mark("n", "anything", "m", "a", at_least=0.5)))
def lettered(rows, data, proxy): ...
"""
POINTS = """
[gapbench.tasks]
easy = my_plugin:TASK
gone = my_plugin:MISSING
wrong = my_plugin:load_easy
[gapbench.models]
small = my_plugin:FAMILY
absent = no_such_package:FAMILY
[gapbench.proxies]
mine = my_plugin_proxy
broken = my_plugin_broken
taken = my_plugin_taken
[gapbench.estimators]
plugged = my_plugin_estimator
halved = my_plugin_halved
empty = json
"""
SUITE = """
name = "plugged"
version = 1
[training]
max_epochs = 5
stop = "budget"
[measure]
samples = 20
proxies = ["plugged_norm", "param_norm"]
[[grid]]
task = "easy"
[grid.axes]
family = ["mine/small"]
width = [0.5, 1]
seed = [0, 1]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder as site-packages would be, with one distribution."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "my_plugin.py").write_text(SOURCE)
    (folder / "my_plugin_proxy.py").write_text(PROXY)
    (folder / "my_plugin_broken.py").write_text("raise RuntimeError('not today')\n")
    (folder / "my_plugin_taken.py").write_text(PROXY.replace("plugged_norm", "param_norm"))
    (folder / "my_plugin_estimator.py").write_text(ESTIMATOR)
    (folder / "my_plugin_halved.py").write_text(ESTIMATOR.replace("plugged", "halved") + "\n1 / 0\n")
    info = folder / "my_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    return folder


def gapbench(installed, *arguments):
    path = os.pathsep.join([str(installed), *(p for p in sys.path if p)])
    return subprocess.run(
        [sys.executable, "-m", "gapbench", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.parametrize(
    ("kind", "name", "broken"),
    [
        ("tasks", "easy", ["gone", "AttributeError", "not a gapbench_tasks.TaskEntry"]),
        ("models", "mine/small", ["absent", "no_such_package"]),
        (
            "estimators",
            "plugged",
            [
                "halved",
                "ZeroDivisionError",
                "'tau' is the name of another",
                "'n' is the name",
                "json of my-plugin",
            ],
        ),
        ("proxies", "plugged_norm", ["broken", "not today", "taken", "already a proxy 'param_norm'"]),
    ],
)
def test_plugins_are_listed_and_broken_ones_named(installed, kind, name, broken):
    done = gapbench(installed, "list", kind, "--json")
    assert done.returncode == 0, done.stderr
    assert name in {row["name"] for row in json.loads(done.stdout)}
    text = gapbench(installed, "list", kind)
    assert text.returncode == 0
    for word in broken:
        assert word in text.stderr
    assert "Traceback" not in text.stderr


@pytest.mark.slow
def test_a_suite_of_a_plugin_runs_and_takes_submissions(installed, tmp_path):
    from benchmark.conftest import WALLS
    from benchmark.sandbox.adversaries import BENIGN

    (tmp_path / "plugged.toml").write_text(SUITE)
    done = gapbench(installed, "run", tmp_path / "plugged.toml", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "easy  mine/small  width 0.5" in done.stdout
    (tmp_path / "mine.py").write_text(BENIGN["a_norm"])
    arguments = ["--unsandboxed"] if WALLS else []
    done = gapbench(installed, "submit", tmp_path / "mine.py", "--run", tmp_path / "run", *arguments)
    assert done.returncode == 0, done.stderr
    assert "adversary: 4 ok." in done.stdout
