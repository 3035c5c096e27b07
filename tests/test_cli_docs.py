"""The page of the command line is that of the commands, and a shell completes them."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gapbench.cli import COMMANDS

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("cli_docs_script", ROOT / "scripts" / "cli_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script):
    assert (ROOT / "docs" / "cli.md").read_text() == script.page(), "python scripts/cli_docs.py"


def test_every_command_and_option_is_on_the_page(script):
    text = script.page()
    for name in COMMANDS:
        assert f"\n## {name}\n" in text
        assert f"gapbench {name} " in text
    for option in ("--device [auto\\|cpu\\|cuda]", "--fresh-seeds", "--rename NAME NEW"):
        assert f"`{option}" in text


def complete(instruction, **words):
    done = subprocess.run(
        [sys.executable, "-m", "gapbench"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            "_GAPBENCH_COMPLETE": instruction,
            **words,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(shell):
    assert "_GAPBENCH_COMPLETE" in complete(f"{shell}_source")


def test_bash_completes_a_suite():
    assert (
        complete("bash_complete", COMP_WORDS="gapbench run qu", COMP_CWORD="2").splitlines()[0]
        == "plain,quick"
    )
