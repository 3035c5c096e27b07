"""Record what commands show on a terminal, at several times, into docs/terminals.md.

    python scripts/record_terminals.py [--limit 60]     # needs pyte, and bubblewrap for `submit` and `verify`

Each command runs in a terminal of 80 and of 50 columns, as a person sees it, after a small run that is not
recorded: what Python and numba compile once would be told of as if it took its time again. Kept are the screens
at a tenth of its time, at half of it and at its end, and by what factor the time left that stood there was wrong
from the tenth on.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path

import pyte

PAGE = Path(__file__).resolve().parents[1] / "docs" / "terminals.md"
ROWS = 24
LEFT = re.compile(r"([\d.]+) (s|min|h) left")
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
JUDGED = (0.1, 0.25, 0.5, 0.75)
"""Shares of a command's time at which what it says is left is compared with what was."""
LEAST = 5.0
"""Seconds that a command must take for that."""


@dataclass(frozen=True)
class Shot:
    """A screen `at` seconds after the beginning."""

    at: float
    lines: tuple[str, ...]

    @property
    def left(self) -> float | None:
        """Seconds that it says are left."""
        found = LEFT.findall("\n".join(self.lines))
        return float(found[-1][0]) * UNITS[found[-1][1]] if found else None


def recorded(command: list[str], folder: Path, columns: int) -> list[Shot]:
    """Run a command in a terminal; its screens as they changed, the last at its end."""
    main, own = pty.openpty()
    fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    environment = os.environ | {"TERM": "xterm", "COLUMNS": str(columns), "LINES": str(ROWS), "NO_COLOR": "1"}
    start = time.monotonic()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=own, stdout=own, stderr=own, start_new_session=True
    )
    os.close(own)
    pieces: list[tuple[float, bytes]] = []  # drawn at the end: a slow terminal would slow the command down
    while True:
        ready, _, _ = select.select([main], [], [], 0.2)
        try:
            piece = os.read(main, 65536) if ready else b""
        except OSError:  # the other end is closed
            break
        if ready and not piece:
            break
        if piece:
            pieces.append((time.monotonic() - start, piece))
        elif process.poll() is not None:
            break
    code, end = process.wait(), time.monotonic() - start
    screen = pyte.HistoryScreen(columns, ROWS, history=10_000)
    stream = pyte.ByteStream(screen)
    shots: list[Shot] = []
    for at, piece in pieces:
        stream.feed(piece)
        shots.append(Shot(at, tuple(line.rstrip() for line in screen.display)))
    if code not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {code}:\n" + "\n".join(screen.display))
    history = ["".join(row[k].data for k in range(columns)).rstrip() for row in screen.history.top]
    return [
        *shots,
        Shot(end, (*history, *(line.rstrip() for line in screen.display))),
    ]


def judged(shots: list[Shot]) -> list[tuple[float, float, float]]:
    """Share of the time, seconds said to be left, seconds that were left; of the first told after each share."""
    end = shots[-1].at
    found = []
    for share in JUDGED if end > LEAST else ():
        told = [shot for shot in shots[:-1] if shot.at >= share * end and shot.left is not None]
        if told and told[0].at < (share + 0.15) * end:
            found.append((told[0].at / end, float(told[0].left or 0.0), end - told[0].at))
    return found


def shown(shots: list[Shot]) -> list[tuple[str, Shot]]:
    """The screens that are kept: at a tenth, at half, and at the end."""
    end = shots[-1].at
    found = []
    for share, name in ((0.1, "after a tenth"), (0.5, "half way")):
        earlier = [shot for shot in shots[:-1] if shot.at <= share * end]
        if earlier and end > 2 * LEAST:
            found.append((f"{name} ({earlier[-1].at:.0f} s)", earlier[-1]))
    return [*found, (f"at the end ({end:.0f} s)", shots[-1])]


def page(limit: int) -> str:
    """The text of the page, of commands that are run now."""
    gapbench = shutil.which("gapbench", path=str(Path(sys.executable).parent)) or "gapbench"
    lines = [
        "# What a terminal shows",
        "",
        "Recorded by `scripts/record_terminals.py` from commands that ran then, in terminals of 80 and 50 columns, "
        "on two cores, after a small run that is not shown. Below each command stands what it said was left of its "
        "time, and what was.",
    ]
    with tempfile.TemporaryDirectory() as place:
        recorded([gapbench, "run", "quick", "--limit", "4"], Path(place), 80)
    for columns in (80, 50):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            for words in (
                f"run quick --limit {limit}",
                "new my_proxy",
                "check my_proxy.py",
                "submit my_proxy.py --run runs/quick",
                "verify my_proxy --run runs/quick",
            ):
                shots = recorded([gapbench, *words.split()], folder, columns)
                print(f"{columns} columns: {words}: {shots[-1].at:.0f} s {judged(shots)}", flush=True)
                lines += ["", f"## `gapbench {words}`, {columns} columns"]
                if told := judged(shots):
                    lines += ["", "| of its time | said to be left | was left |", "|---|---|---|"]
                    lines += [f"| {share:.0%} | {left:.0f} s | {was:.0f} s |" for share, left, was in told]
                for name, shot in shown(shots):
                    text = "\n".join(shot.lines).strip("\n")
                    lines += ["", f"{name[0].upper()}{name[1:]}:", "", "```", *text.splitlines(), "```"]
    return "\n".join(lines).replace(str(Path.home()), "~") + "\n"


def main() -> None:
    """Run the commands and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--limit", type=int, default=60, help="networks of quick")
    arguments = parser.parse_args()
    PAGE.write_text(page(arguments.limit), encoding="utf-8")


if __name__ == "__main__":
    main()
