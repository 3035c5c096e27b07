"""The ranking of a researcher's own table as plain text: what `gapbench score` prints."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from gapbench_leaderboard.board.leading import leading_text
from gapbench_leaderboard.board.numbers import TableRow
from gapbench_leaderboard.board.ranked import rank_text
from gapbench_leaderboard.board.trained import networks_text
from gapbench_leaderboard.scores import ranking
from gapbench_leaderboard.scoring.registry import SCORE, Estimator, columns, marked

NETWORKS = "networks: rows that the number is of, of all rows of the table"
NOT_SCORED = "not scored: "


def table_text(scores: pd.DataFrame, target: str, measures: Collection[str]) -> str:
    """The measures by rank with the main estimators, the ceilings, what the headings mean, and what is not scored.

    Args:
        scores: of `score_table`, with its `attrs`.
        target: that was predicted.
        measures: labels of the columns that were scored; other rows are baselines.

    Returns:
        Lines.
    """
    ranks = ranking(scores, target=target).assign(trained=scores.attrs["rows"])
    rows = ranks.to_dict("records")
    values = scores.pivot(index="proxy", columns="estimator", values="value")
    shown = [known for known in columns(SCORE) if known.name in values.columns]
    table = [["rank", "measure", "tau", "95 % interval", *(known.heading_in(SCORE) for known in shown)]]
    table[0].append("networks")
    table += [_cells(row, shown, values) for row in rows]
    widths = [max(len(line[k]) for line in table) for k in range(len(table[0]))]
    said_of = [_marks(row, values, row["proxy"] not in measures) for row in rows]
    everywhere = _shared(said_of)
    marks = ["", *("; ".join(mark for mark in said if mark not in everywhere) for said in said_of)]
    lines = []
    for cells, said in zip(table, marks):
        texts = [
            f"{cell:<{wide}}" if k == 1 else f"{cell:>{wide}}"
            for k, (cell, wide) in enumerate(zip(cells, widths))
        ]
        lines.append("  ".join([*texts, said]).rstrip())
    lines += [f"all rows: {'; '.join(everywhere)}"] if everywhere else []
    lines += [text] if (text := leading_text(scores, ranks, target)) else []
    for name in ("network", "configuration"):
        found = scores[(scores["proxy"] == "") & (scores["estimator"] == f"ceiling_{name}")]
        if len(found):
            value, low, high = (float(found[column].iloc[0]) for column in ("value", "low", "high"))
            limits = f" [{low:.3f}, {high:.3f}]" if low == low else ""
            lines.append(f"{name} ceiling of tau: {value:.3f}{limits}")
    lines += [NETWORKS, *_notes(shown)]
    turned = [str(row["proxy"]) for row in rows if row["high"] < 0 and row["proxy"] in measures]
    if turned:
        hint = f"where larger values mean a smaller {target}, say --better {turned[0]}"
        lines.append(f"significantly the wrong way round: {', '.join(turned)}; {hint}")
    ignored = [note.removeprefix(NOT_SCORED) for note in scores.attrs["notes"] if note.startswith(NOT_SCORED)]
    lines += ["", "Columns that are not scored", *(f"  {text}" for text in ignored)] if ignored else []
    return "\n".join(lines)


def _cells(row: TableRow, shown: Sequence[Estimator], values: pd.DataFrame) -> list[str]:
    low, high = row["low"], row["high"]
    numbers = [_value(values, row, known) for known in shown]
    return [
        rank_text(row).replace("–", "-"),
        str(row["proxy"]),
        _number(row["value"]),
        f"[{low:6.3f}, {high:6.3f}]" if low == low else "",
        *map(_number, numbers),
        networks_text(row),
    ]


def _value(values: pd.DataFrame, row: TableRow, known: Estimator) -> float:
    return float(values[known.name][row["proxy"]])


def _notes(shown: Sequence[Estimator]) -> list[str]:
    told = [(known.heading_in(SCORE), known.note_in(SCORE)) for known in shown]
    return [f"{heading}: {note}" for heading, note in told if note]


def _number(value: float) -> str:
    return f"{value:.3f}" if value == value else "-"


def _shared(said_of: Sequence[Sequence[str]]) -> list[str]:
    """What is said of every one of several rows, which is then said once."""
    return [mark for mark in said_of[0] if all(mark in said for said in said_of)] if len(said_of) > 1 else []


def _marks(row: TableRow, values: pd.DataFrame, baseline: bool) -> list[str]:
    said = ["baseline"] if baseline else []
    for known, mark in marked(SCORE):
        if mark.score and known.name in values.columns:
            said += [mark.score] if mark.applies(_value(values, row, known), baseline) else []
    return said
