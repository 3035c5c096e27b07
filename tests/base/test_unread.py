"""A command whose output nobody reads any more does its work to the end, without a word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

WORK = """
import sys
from gapbench_base.unread import readers_may_leave
with readers_may_leave():
    for _ in range(50):
        print("x" * 2000, flush=True)
        print("y" * 2000, file=sys.stderr)
    open(sys.argv[1], "w").write("done")
    raise SystemExit(3)
"""


def closed_after(command: list[str], size: int, both: bool = False) -> tuple[int, bytes]:
    """The exit code of a command whose reader takes so many bytes and leaves, and what it says to stderr."""
    reading, writing = os.pipe()
    process = subprocess.Popen(command, stdout=writing, stderr=writing if both else subprocess.PIPE)
    os.close(writing)
    if size:
        os.read(reading, size)
    os.close(reading)
    _, said = process.communicate(timeout=120)
    return process.returncode, said or b""


@pytest.mark.parametrize("both", [False, True])
def test_the_work_goes_on_and_ends_with_its_own_code(tmp_path: Path, both: bool) -> None:
    code, said = closed_after([sys.executable, "-c", WORK, str(tmp_path / "file")], 10, both)
    assert code == 3
    assert (tmp_path / "file").read_text() == "done"
    assert set(said.splitlines()) <= {b"y" * 2000}


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("command", [["list", "proxies"], ["info", "quick"], ["info"], ["--help"]])
def test_commands_end_well(command: list[str], size: int) -> None:
    assert closed_after([sys.executable, "-m", "gapbench", *command], size) == (0, b"")


def test_wrong_usage_keeps_its_code() -> None:
    code, _ = closed_after([sys.executable, "-m", "gapbench", "list", "nothing"], 0, both=True)
    assert code == 2
