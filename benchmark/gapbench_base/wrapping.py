"""Lines that break between words."""

from __future__ import annotations

import textwrap


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
