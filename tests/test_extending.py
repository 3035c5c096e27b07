"""The package of docs/extending.md, written down, installed, used, and taken away again."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys

import pandas as pd
import pytest

from benchmark.conftest import WALLS
from gapbench.commands.showing import LOADING
from script import ROOT

PAGE = ROOT / "docs" / "extending.md"
BLOCK = re.compile(r"`([\w/.]+)`[^`\n]*:\n\n```(?:python|toml)\n(.*?)```", re.DOTALL)
FILES = {
    "pyproject.toml",
    "suite.toml",
    *(f"gapbench_blobs/{name}.py" for name in ("__init__", "task", "family", "proxy", "estimator")),
}


def blocks():
    text = re.sub(r"(`suite\.toml`) \(.*?\)\):", r"\1:", PAGE.read_text())
    return dict(BLOCK.findall(text))


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The package as the document has it."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "gapbench_blobs").mkdir()
    for name, text in blocks().items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def site(package, tmp_path_factory):
    """A folder into which it was built and installed, without a network."""
    folder = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "-q"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(package)],
        check=True,
        capture_output=True,
        text=True,
    )
    return folder


def python(site, *arguments):
    path = os.pathsep.join([*([str(site)] if site else []), *(p for p in sys.path if p)])
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def gapbench(site, *arguments):
    return python(site, "-m", "gapbench", *arguments)


@pytest.fixture(scope="module")
def run(package, site, tmp_path_factory):
    """A run of the document's suite."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    done = gapbench(site, "run", package / "suite.toml", "--out", folder, "--workers", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_document_has_every_file_of_the_package():
    assert set(blocks()) == FILES


def test_the_code_of_the_document_is_clean(package):
    for tool in (["check"], ["format", "--check"]):
        done = subprocess.run(
            ["ruff", *tool, "--config", str(ROOT / "pyproject.toml"), str(package)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("tasks", "blobs"),
        ("models", "blobs/shallow"),
        ("proxies", "low_margin"),
        ("estimators", "right_pairs"),
    ],
)
def test_what_it_brings_is_listed(site, kind, name):
    done = gapbench(site, "list", kind)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^{name} ", done.stdout, re.MULTILINE)
    assert not done.stderr
    assert name not in gapbench(None, "list", kind).stdout


def test_its_suite_trains_measures_and_is_scored(run):
    scores = pd.read_csv(run / "board" / "scores.csv")
    of_gap = scores[(scores["target"] == "gap") & scores["task"].isna() & scores["family"].isna()]
    values = of_gap.pivot(index="proxy", columns="estimator", values="value")
    for proxy in ("low_margin", "param_norm", "width"):
        assert values.loc[proxy, "right_pairs"] == pytest.approx((1 + values.loc[proxy, "tau"]) / 2)
    assert "| right |" in (run / "board" / "board.md").read_text()
    population = pd.read_csv(run / "board" / "population.csv")
    assert len(population) == 12
    assert set(population["distance"]) == {2.0, 4.0}


def test_a_wrong_value_is_refused_by_the_annotation(site, package, tmp_path):
    file = tmp_path / "suite.toml"
    file.write_text((package / "suite.toml").read_text().replace("[2.0, 4.0]", "[-2.0]"))
    done = gapbench(site, "info", file)
    assert done.returncode == 2
    assert "The task blobs: distance = -2.0 must be a positive number." in done.stderr


OPEN = """
import sys, gapbench
run = gapbench.open_run(sys.argv[1])
scores = run.scores(targets=["gap"])
print(len(run.population), sorted(run.suite.axes), run.suite.problem, run.directions()["low_margin"])
print(sorted(set(run.population["distance"].tolist())), set(scores["proxy"]) >= {"low_margin", "param_norm"})
"""


@pytest.fixture
def alone(run, tmp_path):
    """A copy of the run, to be used without the package."""
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


def test_a_run_opens_without_the_package(alone):
    done = python(None, "-c", OPEN, alone)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "12 ['distance', 'width'] ('distance',) better",
        "[2.0, 4.0] True",
    ]


def test_its_board_is_built_again_without_the_package(alone):
    before = pd.read_csv(alone / "board" / "scores.csv")
    shutil.copytree(alone / "board", alone.parent / "before")
    done = gapbench(None, "board", alone)
    assert done.returncode == 0, done.stderr
    assert "Note: Not scored by the estimators of gapbench-blobs 1.0: not installed." in done.stdout
    after = pd.read_csv(alone / "board" / "scores.csv")
    kept = before[before["estimator"] != "right_pairs"].reset_index(drop=True)
    pd.testing.assert_frame_equal(after, kept)
    described = json.loads((alone / "board" / "data.json").read_text())["proxies"]
    about = next(entry for entry in described if entry["label"] == "low_margin")
    assert about["summary"].startswith("The margin below which")
    assert about["options"] == {"share": 0.2}
    done = gapbench(None, "diff", alone.parent / "before", alone / "board")
    assert done.returncode == 0, done.stderr
    done = gapbench(None, "score", alone / "board" / "population.csv", "--axes", "width,distance")
    assert done.returncode == 0, done.stderr
    joined = gapbench(None, "board", alone, alone, "--out", alone.parent / "joined")
    assert joined.returncode == 0, joined.stderr


def test_entries_and_info_work_without_the_package(alone):
    done = gapbench(None, "entries", alone)
    assert done.returncode == 0, done.stderr
    done = gapbench(None, "info", alone)
    assert done.returncode == 0, done.stderr
    assert "the task blobs of gapbench-blobs 1.0" in done.stdout
    assert "distance" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "needs_proxy"),
    [(["run", "RUN"], True), (["submit", "FILE", "--run", "RUN"], False), (["audit", "RUN"], False)],
)
def test_training_and_measuring_say_what_is_missing(alone, arguments, needs_proxy, tmp_path):
    proxy = tmp_path / "mine.py"
    proxy.write_text("import gapbench\n\n\n@gapbench.proxy('mine')\ndef mine(context):\n    return 1.0\n")
    if WALLS and "submit" in arguments:
        arguments = [*arguments, "--unsandboxed"]
    done = gapbench(None, *({"RUN": alone, "FILE": proxy}.get(word, word) for word in arguments))
    assert done.returncode == 2, done.stdout + done.stderr
    missing = "the task blobs of gapbench-blobs 1.0, the family blobs/shallow of gapbench-blobs 1.0"
    missing += ", the proxy low_margin of gapbench-blobs 1.0" if needs_proxy else ""
    assert f"{missing} are not installed." in done.stderr
    said = [line for line in done.stderr.strip().splitlines() if line != LOADING]
    assert len(said) == 1


def test_a_run_of_before_says_which_name_it_does_not_know(alone):
    with sqlite3.connect(alone / "run.sqlite") as db:
        db.execute("DELETE FROM meta WHERE name = 'known'")
    done = gapbench(None, "board", alone)
    assert done.returncode == 2
    assert "There is no task 'blobs'." in done.stderr


POPULATION = """
import sys
from gapbench.population.stored import open_population
found = open_population(sys.argv[1])
print(len(found.members), [request.label for request in found.suite.proxies])
"""


def test_without_the_proxy_alone_its_networks_take_submissions(alone, site, tmp_path):
    shutil.copytree(site, tmp_path / "part")
    points = next((tmp_path / "part").glob("*.dist-info/entry_points.txt"))
    text = points.read_text()
    points.write_text(re.sub(r"\[gapbench\.proxies\]\n[^\[]*", "", text))
    assert points.read_text() != text
    done = python(tmp_path / "part", "-c", POPULATION, alone)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "12 ['low_margin', 'param_norm']"
    done = gapbench(tmp_path / "part", "run", alone)
    assert done.returncode == 2
    assert "the proxy low_margin of gapbench-blobs 1.0 is not installed." in done.stderr
