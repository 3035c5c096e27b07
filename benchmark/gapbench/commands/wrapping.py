"""Words for people, whose lines break between words where a terminal is too narrow for them."""

from __future__ import annotations

import shutil
import sys

import click

from gapbench_base.wrapping import broken


def terminal_width(err: bool = False) -> int | None:
    """Columns of the terminal that is written to; None where it is none."""
    if not (sys.stderr if err else sys.stdout).isatty():
        return None
    return shutil.get_terminal_size((100, 24)).columns


def echo(text: str = "", err: bool = False) -> None:
    """Print it; on a terminal a line that is too long goes on in the next one, two columns further in."""
    width = terminal_width(err)
    if width is not None:
        text = "\n".join(broken(line, width) for line in text.split("\n"))
    click.echo(text, err=err)
