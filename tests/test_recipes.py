"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the packages."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = ("benchmark", "models", "tasks", "leaderboard", "tests")
BESIDE = ("docs", "scripts")
RECIPES = ("A proxy", "A model family", "A task", "An estimator, with its column")


def recipe(title):
    """Path and text of the recipe's file, and the text of its test."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    place = re.search(r"`([\w/]+\.py)`:\n", section)[1]
    code, test = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return place, code, test


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the sources, to which the recipes are added."""
    folder = tmp_path_factory.mktemp("clone")
    for source in (*SOURCES, *BESIDE):
        shutil.copytree(
            ROOT / source, folder / source, ignore=shutil.ignore_patterns("__pycache__", "stored")
        )
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_is_one_file_and_one_test(title, clone):
    place, code, test = recipe(title)
    assert not (clone / place).exists()
    (clone / place).write_text(code)
    name = Path(place).stem
    file = clone / "tests" / place.split("/")[0] / f"test_recipe_{name}.py"
    file.write_text(test)
    path = os.pathsep.join(str(clone / source) for source in SOURCES)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        cwd=clone, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    checked = subprocess.run(
        ["ruff", "check", "--config", str(ROOT / "pyproject.toml"), str(clone / place)],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


@pytest.fixture
def followed(clone):
    """The copy with the files of all recipes."""
    for title in RECIPES:
        place, code, _ = recipe(title)
        (clone / place).write_text(code)
    return clone


def run(folder, *command):
    path = os.pathsep.join(str(folder / source) for source in SOURCES)
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_nothing_else_has_to_be_told(followed):
    """The tests that look at all proxies, families, tasks, estimators and imports pass with the new ones."""
    assert "one hidden layer with tanh" in run(followed, "-m", "gapbench", "list", "models").stdout
    tests = [
        "tests/models/test_registry.py", "tests/models/test_construction.py", "tests/tasks/test_images.py",
        "tests/test_rooms.py", "tests/benchmark/test_cli.py::test_lists_agree_in_text_and_json",
        "tests/leaderboard/test_board_files.py",
    ]  # fmt: skip
    pytest_ = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    done = run(followed, *pytest_, *tests)
    assert done.returncode == 0, done.stdout[-5000:]
    name = re.search(r'@proxy\("(\w+)"', recipe("A proxy")[1])[1]
    done = run(followed, *pytest_, "-k", name, "tests/benchmark/proxies/test_measure.py")
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "text", "command", "words"),
    [
        ("models/gapbench_models/families/x.py", "def broken(", "models", "x.py, line 1 is no Python"),
        ("models/gapbench_models/families/x.py", "def f(r): ...", "models", "x.py declares no family"),
        (
            "models/gapbench_models/families/x.py",
            "@family('plain/mlp', description='d', width='w')\ndef f(r): ...",
            "models",
            "The name 'plain/mlp' of a model family is taken",
        ),
        (
            "models/gapbench_models/families/x.py",
            "@family('Plain Bad', description='d', width='w')\ndef f(r): ...",
            "models",
            "'Plain Bad' must be called library/architecture",
        ),
        (
            "models/gapbench_models/families/x.py",
            "@family('plain/x', description='d', widht='w')\ndef f(r): ...",
            "models",
            "unexpected keyword argument 'widht'",
        ),
        (
            "tasks/gapbench_tasks/loaders/x.py",
            "def broken(",
            "tasks",
            "loaders/x.py cannot be used: SyntaxError",
        ),
        (
            "tasks/gapbench_tasks/loaders/x.py",
            "1 / 0",
            "tasks",
            "loaders/x.py cannot be used: ZeroDivisionError",
        ),
        ("tasks/gapbench_tasks/loaders/x.py", "VALUE = 1", "tasks", "loaders.x has no task"),
        (
            "tasks/gapbench_tasks/loaders/x.py",
            "from gapbench_tasks import TaskEntry\nTASK = TaskEntry('separable', 'x:f', 's')",
            "tasks",
            "The name 'separable' of a task is taken",
        ),
        ("benchmark/gapbench/proxies/catalogue/x.py", "VALUE = 1", "proxies", "catalogue.x has no proxy"),
        (
            "benchmark/gapbench/proxies/catalogue/x.py",
            "import nowhere",
            "proxies",
            "x.py cannot be used: Module",
        ),
        (
            "benchmark/gapbench/proxies/catalogue/x.py",
            "from gapbench.proxies.registry import proxy\n@proxy('param_norm')\ndef f(context): ...",
            "proxies",
            "already a proxy 'param_norm'",
        ),
    ],
)
def test_what_cannot_be_used_is_told_and_replaces_nothing(place, text, command, words, clone):
    file = clone / place
    file.write_text(text)
    try:
        done = run(clone, "-m", "gapbench", "list", command)
    finally:
        file.unlink()
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("VALUE = 1", "estimators.x has no estimator"),
        ("@for_each_proxy(Estimator('tau', 'm'))\ndef f(rows, data, proxy): ...", "are called 'tau'"),
        (
            "@for_each_proxy(Estimator('x', 'm', mark=Mark('a', 'x', 'm', 'a', at_least=0.5)))\n"
            "def f(rows, data, proxy): ...",
            "The mark 'a' of an estimator is one that values or entries bear",
        ),
        (
            "@for_each_proxy(Estimator('x', 'm', heading='a very long heading', shown_in=('terminal',)))\n"
            "def f(rows, data, proxy): ...",
            "has more than 10 characters",
        ),
    ],
)
def test_an_estimator_that_cannot_be_used_is_told(text, words, clone):
    file = clone / "leaderboard/gapbench_leaderboard/scoring/estimators/x.py"
    file.write_text(
        f"from gapbench_leaderboard.scoring.registry import Estimator, Mark, for_each_proxy\n{text}\n"
    )
    try:
        done = run(clone, "-c", "from gapbench_leaderboard.board.marks import meanings; meanings()")
    finally:
        file.unlink()
    assert f"TableError: {words}" in done.stderr or ("TableError" in done.stderr and words in done.stderr)
