"""The rooms of the leaderboard: imports point one way, within functions too, and form no circle."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import gapbench_leaderboard

PACKAGE = "gapbench_leaderboard"
FOLDER = Path(gapbench_leaderboard.__file__).parent
LAYERS = ("statistics", "intake", "scoring", "scores", "board")
"""From the bottom up; `scores` is the face of scoring."""
WANDB = {f"{PACKAGE}.board.wandb_upload", f"{PACKAGE}.board.wandb_download"}
BUILDING = """
import sys
import importlib, pkgutil
import gapbench_leaderboard.board as room
for module in pkgutil.iter_modules(room.__path__):
    importlib.import_module(f"{room.__name__}.{module.name}")
from pathlib import Path
from leaderboard.board_cases import STATES, board
board(Path(sys.argv[1]), ("one",), 2, 1, STATES[-2:])
print([name for name in ("wandb", "torch") if name in sys.modules])
"""


def imports() -> dict[str, set[str]]:
    """Module -> all modules that it imports anywhere; names of a module count as the module."""
    paths = {
        ".".join((PACKAGE, *path.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in FOLDER.rglob("*.py")
    }
    found: dict[str, set[str]] = {}
    for module, path in paths.items():
        found[module] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found[module] |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{module}: relative import"
                whole = {f"{node.module}.{name.name}" for name in node.names}
                found[module] |= {name if name in paths else str(node.module) for name in whole}
    return found


def layer(module: str) -> int:
    return LAYERS.index(module.split(".")[1])


def test_imports_point_down() -> None:
    for module, imported in imports().items():
        for other in imported:
            if module != PACKAGE and other.startswith(f"{PACKAGE}."):
                assert layer(other) <= layer(module), f"{module} imports {other}"
            assert other.split(".")[0] not in ("gapbench", "gapbench_models", "gapbench_tasks"), module


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(imports()).prepare()  # raises where there is one


def test_wandb_is_imported_by_the_two_programs_that_talk_to_it(tmp_path: Path) -> None:
    using = {module for module, imported in imports().items() if "wandb" in imported}
    assert using == WANDB
    environment = {
        "PYTHONPATH": ":".join([str(Path(__file__).parents[1]), *sys.path]),
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run(
        [sys.executable, "-c", BUILDING, str(tmp_path / "board")],
        capture_output=True,
        text=True,
        env={**environment, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-600:]
    assert done.stdout.strip() == "[]"
