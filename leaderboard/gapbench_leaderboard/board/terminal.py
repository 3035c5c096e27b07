"""The ranking as aligned plain text of at most 100 columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from rich.cells import cell_len

from gapbench_leaderboard.board.doubts import Doubts
from gapbench_leaderboard.board.marks import marks_of, meanings
from gapbench_leaderboard.board.numbers import TableRow, rounded
from gapbench_leaderboard.board.ranked import rank_text, ranked, text_of
from gapbench_leaderboard.scores import MEASURED_BASELINES
from gapbench_leaderboard.scoring.registry import HEADLINE, NETWORKS_AT, TERMINAL, Estimator
from gapbench_leaderboard.scoring.registry import columns as columns_of

MOST_COLUMNS = 100
MARKS_COLUMNS = 5
LEAST_NAME_COLUMNS = 24
UNDECIDED = "No two proxies can be told apart: no difference is significant, so any may be the best."
RANKS = "rank 3 (1-6): third by tau, and between 1 and 6 with 95 % confidence, all proxies at once"


def ranking_text(
    scores: pd.DataFrame,
    target: str = "gap",
    baselines: Collection[str] = MEASURED_BASELINES,
    doubts: Mapping[str, Doubts] | None = None,
) -> str:
    """The ranking over all tasks and families, as lines.

    Rank, headline with its 95 % interval, the other columns that the terminal shows, networks used of those that
    could be ranked, and marks, which are spelled out below; then on how many networks a symmetry was not covered
    or an ascent had not converged (`doubts.doubts_of`).

    Returns:
        The text, or one line that says that nothing could be ranked.
    """
    doubts = doubts or {}
    found = ranked(scores, target=target, baselines=baselines)
    if found is None:
        return f"No proxy could be ranked by {target}: the scores hold no rank coefficient for it."
    table = found.table
    known = found.filled(columns_of(TERMINAL))
    ranks = [rank_text(row) for row in table.to_dict("records")]
    rank_width = max(len("rank"), *map(len, ranks))
    names = {name: _clean(name) for name in table["proxy"]}
    longest = max([len("proxy"), *(cell_len(name) for name in names.values())])
    columns, room = _fitting(known, rank_width, min(longest, LEAST_NAME_COLUMNS))
    layout = _Layout(
        columns,
        min(room, longest),
        found.networks,
        rank_width,
    )
    tasks = [name for name in scores["task"].dropna().astype(str).unique() if name]
    over = f"task {_clean(tasks[0])}" if len(tasks) == 1 else "mean over tasks"
    lines = [f"Ranked by {HEADLINE} with {_clean(target)}, {over}", "", layout.head()]
    used: dict[str, None] = {}
    for baseline in (False, True):
        group = table[table["baseline"] == baseline]
        if baseline and len(group):
            lines += ["      baselines (not ranked)"]
        for row in group.to_dict("records"):
            marks = marks_of(row, doubts)
            lines.append(layout.line(row, names[row["proxy"]], marks))
            used |= dict.fromkeys(marks)
    lines.append("")
    if found.competing > 1:
        lines.append(RANKS)
        lines += [UNDECIDED] if not found.told_apart else _best([names[name] for name in found.best])
    for name, (value, low, high) in found.ceilings.items():
        lines.append(f"ceiling, {name}: {rounded(value)}  {_interval(low, high)}".rstrip())
    lines += _notes(columns)
    lines += [f"{mark}: {meaning}" for mark, meaning in meanings().items() if mark in used]
    for label in table["proxy"]:
        told = doubts[str(label)].sentences if str(label) in doubts else []
        lines += [f"{_pad(names[label], layout.width)}  {text}" for text in told]
    return "\n".join(lines)


def _best(names: Sequence[str]) -> list[str]:
    """The proxies that may be the best, as many on a line as fit."""
    lines = [f"may be the best ({len(names)}):"]
    for position, name in enumerate(names):
        text = _pad(name, min(cell_len(name), MOST_COLUMNS - 3)) + ("," if position < len(names) - 1 else "")
        if cell_len(lines[-1]) + 1 + cell_len(text) <= MOST_COLUMNS:
            lines[-1] += f" {text}"
        else:
            lines.append(f"  {text}")
    return lines


def _notes(columns: Sequence[Estimator]) -> list[str]:
    """What the headings mean, as many on a line as fit."""
    lines: list[str] = []
    for shown in columns:
        note = f"{_heading(shown)}: {shown.note}"
        if not shown.note:
            continue
        if lines and len(lines[-1]) + 2 + len(note) <= MOST_COLUMNS:
            lines[-1] += f"; {note}"
        else:
            lines.append(note)
    return lines


@dataclass(frozen=True)
class _Layout:
    """The columns beside the headline, the width of the proxies' names, and how many networks could be ranked."""

    columns: tuple[Estimator, ...]
    width: int
    networks: int | None
    rank_width: int

    def head(self) -> str:
        """The line of headings."""
        parts = [f"{_heading(shown):>{_width(shown)}}" for shown in self.columns]
        return self._joined("rank", "proxy", HEADLINE, "95 % interval", parts, "networks", "marks")

    def line(self, row: TableRow, name: str, marks: str) -> str:
        """The line of one proxy."""
        rank = rank_text(row)
        count = f"{row['models']}/{'?' if self.networks is None else self.networks}"
        parts = [f"{text_of(shown, row[shown.key]):>{_width(shown)}}" for shown in self.columns]
        interval = _interval(row["low"], row["high"])
        return self._joined(rank, name, rounded(row["value"]), interval, parts, count, marks)

    def _joined(
        self, rank: str, name: str, value: str, interval: str, parts: list[str], count: str, marks: str
    ) -> str:
        split = sum(shown.order < NETWORKS_AT for shown in self.columns)
        middle = "".join(f"{part}  " for part in parts[:split])
        last = "".join(f"  {part}" for part in parts[split:])
        lead = f"{rank:>{self.rank_width}}  {_pad(name, self.width)}  {value:>6}  {interval:<16}"
        text = f"{lead}  {middle}{count:>9}{last}  {marks}"
        return text.rstrip()


def _fitting(columns: Sequence[Estimator], rank_width: int, least: int) -> tuple[tuple[Estimator, ...], int]:
    """The columns that fit beside names of `least` columns, first come first, and the room left for names."""
    lead = _Layout((), 0, None, rank_width).head().removesuffix("marks")
    room = MOST_COLUMNS - len(lead) - MARKS_COLUMNS
    kept: list[Estimator] = []
    for shown in columns:
        if room - 2 - _width(shown) < least:
            continue
        kept.append(shown)
        room -= 2 + _width(shown)
    return tuple(kept), room


def _heading(shown: Estimator) -> str:
    return shown.heading_in(TERMINAL)


def _width(shown: Estimator) -> int:
    return max(6, len(_heading(shown)))


def _interval(low: float, high: float) -> str:
    if low != low or high != high:
        return ""
    return f"[{rounded(low):>6}, {rounded(high):>6}]"


def _clean(name: object) -> str:
    """Without characters that steer a terminal."""
    text = str(name)
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)


def _pad(text: str, width: int) -> str:
    if cell_len(text) > width:
        kept = ""
        for character in text:
            if cell_len(kept + character) > width - 1:
                break
            kept += character
        text = kept + "…"
    return text + " " * (width - cell_len(text))
