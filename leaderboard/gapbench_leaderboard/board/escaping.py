"""Text in Markdown."""

from __future__ import annotations

import html

from gapbench_leaderboard.board.numbers import exact


def escape(value: object) -> str:
    """Text that Markdown and HTML show as it is, within one cell of a table."""
    text = html.escape(exact(value), quote=False)
    text = "".join(f"\\{c}" if c in "\\`*_{}[]#|~!" else c for c in text)
    return " ".join(text.split())
