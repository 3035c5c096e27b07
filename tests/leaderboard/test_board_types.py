"""TypeScript checks the page's plain scripts by their JSDoc types (`page/types.d.ts`, `page/tsconfig.json`)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import gapbench_leaderboard.board as board_package

PROJECT = Path(__file__).parent / "page"
ASSETS = Path(board_package.__file__).parent / "assets"
COMPILER = ["npx", "--yes", "--package", "typescript@5.9", "tsc"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npx") is None, reason="needs Node.js with npx"),
]


def complaints(project: Path) -> str:
    """What the compiler says; empty if all is well."""
    done = subprocess.run([*COMPILER, "--project", str(project)], capture_output=True, text=True)
    if "npm error" in done.stderr:
        pytest.skip(f"the compiler cannot be fetched: {done.stderr.strip().splitlines()[0]}")
    assert (done.returncode == 0) == (not done.stdout.strip())
    return done.stdout


def test_the_scripts_keep_their_types() -> None:
    assert complaints(PROJECT) == ""


def test_a_wrong_type_is_found(tmp_path: Path) -> None:
    for script in ASSETS.glob("*.js"):
        shutil.copy(script, tmp_path)
    with (tmp_path / "page.js").open("a") as script:
        script.write('\nrankable("x");\nboard.columns[0].colour;\n')
    settings = json.loads((PROJECT / "tsconfig.json").read_text())
    settings["include"] = [str(PROJECT / "types.d.ts"), "*.js"]
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings))
    said = complaints(tmp_path)
    assert "Argument of type 'string'" in said
    assert "'colour' does not exist" in said
