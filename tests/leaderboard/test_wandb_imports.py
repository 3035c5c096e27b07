"""wandb is imported by the two programs that talk to it, and by nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import gapbench_leaderboard

FOLDER = Path(gapbench_leaderboard.__file__).parent
BUILDING = """
import importlib, pkgutil, sys
from pathlib import Path
import gapbench_leaderboard.board as room
for module in pkgutil.iter_modules(room.__path__):
    importlib.import_module(f"{room.__name__}.{module.name}")
from leaderboard.board_cases import STATES, board
board(Path(sys.argv[1]), ("one",), 2, 1, STATES[-2:])
print([name for name in ("wandb", "torch") if name in sys.modules])
"""


def test_two_modules_import_wandb() -> None:
    importing = {
        path.stem
        for path in FOLDER.rglob("*.py")
        if re.search(r"^\s*(import|from) wandb\b", path.read_text(), re.MULTILINE)
    }
    assert importing == {"wandb_upload", "wandb_download"}


def test_boards_are_built_without_wandb(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", BUILDING, str(tmp_path / "board")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr[-600:]
    assert done.stdout.strip() == "[]"
