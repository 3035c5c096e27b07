"""The page of the command line is that of the commands, and a shell completes them."""

import os
import subprocess
import sys

import pytest

from gapbench.cli import COMMANDS
from script import ROOT, script


@pytest.fixture(scope="module")
def page():
    return script("cli_docs").page()


def test_the_page_is_up_to_date(page):
    assert (ROOT / "docs" / "cli.md").read_text() == page, "python scripts/cli_docs.py"


def test_every_command_and_option_is_on_the_page(page):
    for name in COMMANDS:
        assert f"\n## {name}\n" in page
        assert f"gapbench {name} " in page
    for option in ("--device [auto\\|cpu\\|cuda]", "--fresh-seeds", "--rename NAME NEW"):
        assert f"`{option}" in page


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
