"""Words for people, whose lines break between words where a terminal is too narrow for them."""

from __future__ import annotations

import shutil
import sys
import textwrap

import click


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


def broken(line: str, width: int, indent: int | None = None) -> str:
    """A line in lines of at most `width` columns, except for words that are longer.

    Args:
        line: without line ends.
        width: columns there are.
        indent: columns that stay free before what goes on; two more than before the line if not given.

    Returns:
        The lines, joined.
    """
    if len(line) <= width:
        return line
    before = len(line) - len(line.lstrip()) + 2 if indent is None else indent
    return "\n".join(
        textwrap.wrap(
            line,
            width,
            subsequent_indent=" " * before,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
