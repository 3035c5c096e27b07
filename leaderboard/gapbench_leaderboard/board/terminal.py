"""The ranking as aligned plain text of at most 100 columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from gapbench_leaderboard.board.doubts import MEANINGS, Doubts, marks_in
from gapbench_leaderboard.board.numbers import rounded
from gapbench_leaderboard.board.ranked import LIKE_WIDTH, ranked
from gapbench_leaderboard.scores import MEASURED_BASELINES

MOST_COLUMNS = 100
NAME_COLUMNS = 34

MARKS = {
    "S": "Simpson: the pooled association is not borne out among networks of equal family and width",
    "u": "interval unreliable: fewer than 30 configurations",
    "w": "orders the networks of a family much as their width does (|tau| of 0.8 or more): it may be the width",
    "c": "unranked: measured on less than 90 % of the networks",
    "d": "few distinct values",
    **MEANINGS,
}


UNDECIDED = "No two proxies can be told apart: no difference is significant, so all have rank 1."


def ranking_text(
    scores: pd.DataFrame,
    target: str = "gap",
    baselines: Collection[str] = MEASURED_BASELINES,
    doubts: Mapping[str, Doubts] | None = None,
) -> str:
    """The ranking over all tasks and families: rank, headline tau with its 95 % interval, tau within width,
    pooled tau, networks used of those that could be ranked, and marks, which are spelled out below; then on how
    many networks a symmetry was not covered or an ascent had not converged (`doubts.doubts_of`).
    """
    doubts = doubts or {}
    found = ranked(scores, target=target, baselines=baselines)
    if found is None:
        return f"No proxy could be ranked by {target}: the scores hold no rank coefficient for it."
    table = found.table
    names = {name: _clean(name) for name in table["proxy"]}
    width = min(NAME_COLUMNS, max([len("proxy"), *(display_width(name) for name in names.values())]))
    head = (
        f"rank  {_pad('proxy', width)}  {'tau':>6}  {'95 % interval':<16}  within  pooled   networks  marks"
    )
    tasks = [name for name in scores["task"].dropna().astype(str).unique() if name]
    over = f"task {_clean(tasks[0])}" if len(tasks) == 1 else "mean over tasks"
    lines = [f"Ranked by tau with {_clean(target)}, {over}", "", head.rstrip()]
    used: dict[str, None] = {}
    for baseline in (False, True):
        group = table[table["baseline"] == baseline]
        if baseline and len(group):
            lines += ["      baselines (not ranked)"]
        for row in group.to_dict("records"):
            line, marks = _row(row, names[row["proxy"]], width, found.networks, doubts)
            lines.append(line)
            used |= dict.fromkeys(marks)
    lines.append("")
    if found.competing > 1 and not found.told_apart:
        lines.append(UNDECIDED)
    for name, (value, low, high) in found.ceilings.items():
        lines.append(f"ceiling, {name}: {rounded(value)}  {_interval(low, high)}".rstrip())
    lines.append("within: among networks of equal family and width; pooled: all networks of a task together")
    lines += [f"{mark}: {meaning}" for mark, meaning in MARKS.items() if mark in used]
    for label in table["proxy"]:
        told = doubts[str(label)].sentences if str(label) in doubts else []
        lines += [f"{_pad(names[label], width)}  {text}" for text in told]
    return "\n".join(lines)


def marks_of(row: Mapping[Any, Any], doubts: Mapping[str, Doubts]) -> str:
    """The marks of one row of `ranked`, as keys of `MARKS`."""
    return marks_of_scores(row) + marks_in(doubts, row["proxy"])


def marks_of_scores(row: Mapping[Any, Any]) -> str:
    """Those that the scores tell."""
    return "".join(
        (
            "S" if row["simpson"] == 1 else "",
            "u" if row["unreliable"] else "",
            "w" if abs(row["with_width"]) >= LIKE_WIDTH and not row["baseline"] else "",
            "c" if row["coverage"] < 0.9 and not row["baseline"] else "",
            "d" if row["few_distinct"] == 1 else "",
        )
    )


def _row(
    row: Mapping[Any, Any], name: str, width: int, networks: int | None, doubts: Mapping[str, Doubts]
) -> tuple[str, str]:
    rank = "–" if row["rank"] != row["rank"] else str(int(row["rank"]))
    marks = marks_of(row, doubts)
    count = f"{row['models']}/{networks}" if networks is not None else f"{row['models']}/?"
    line = (
        f"{rank:>4}  {_pad(name, width)}  {rounded(row['value']):>6}  "
        f"{_interval(row['low'], row['high']):<16}  {rounded(row['within']):>6}  "
        f"{rounded(row['pooled']):>6}  {count:>9}  {marks}"
    )
    return line.rstrip(), marks


def _interval(low: float, high: float) -> str:
    if low != low or high != high:
        return ""
    return f"[{rounded(low):>6}, {rounded(high):>6}]"


def _clean(name: object) -> str:
    """Without characters that steer a terminal."""
    text = str(name)
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)


def display_width(text: str) -> int:
    """Columns of a terminal that the text takes: wide characters two, combining marks none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _pad(text: str, width: int) -> str:
    if display_width(text) > width:
        kept = ""
        for character in text:
            if display_width(kept + character) > width - 1:
                break
            kept += character
        text = kept + "…"
    return text + " " * (width - display_width(text))
