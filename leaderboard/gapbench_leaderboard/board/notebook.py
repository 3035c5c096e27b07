"""The ranking of a board as an HTML table, for notebooks."""

from __future__ import annotations

from html import escape
from pathlib import Path

from gapbench_leaderboard.board.numbers import rounded
from gapbench_leaderboard.board.ranked import rank_text, ranked
from gapbench_leaderboard.board.scores_file import read_scores
from gapbench_leaderboard.board.trained import networks_text
from gapbench_leaderboard.scoring.registry import HEADLINE


def ranking_html(board: Path) -> str:
    """The ranking by the gap over all tasks, with the confidence set of every rank and 95 % intervals.

    Args:
        board: the folder of a board.

    Returns:
        A table; empty where no board was built, or it ranks nothing.
    """
    if not (board / "scores.csv").is_file():
        return ""
    found = ranked(read_scores(board / "scores.csv"))
    if found is None:
        return ""
    heads = ("rank", "proxy", escape(HEADLINE), "95 % interval", "networks")
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for row in found.table.sort_values("baseline", kind="stable").to_dict("records"):
        value, low, high = (rounded(row[part]) for part in ("value", "low", "high"))
        name = escape(str(row["proxy"]))
        name = f"<i>{name}</i> (baseline)" if row["baseline"] else name
        cells = (rank_text(row), name, value, f"[{low}, {high}]", networks_text(row))
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table>{''.join(lines)}</table>"
