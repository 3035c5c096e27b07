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
    for source in SOURCES:
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


def test_the_family_is_listed_and_described(clone):
    """After its recipe: the order of the other families is what it was."""
    place, code, _ = recipe("A model family")
    (clone / place).write_text(code)
    path = os.pathsep.join(str(clone / source) for source in SOURCES)
    done = subprocess.run(
        [sys.executable, "-m", "gapbench", "list", "models"],
        cwd=clone, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert "plain/two_layers" in done.stdout
    assert "one hidden layer with tanh" in done.stdout
