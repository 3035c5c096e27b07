"""The ranking as aligned plain text of at most 100 columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from rich.cells import cell_len, chop_cells

from gapbench_leaderboard.board.doubts import Doubts
from gapbench_leaderboard.board.leading import leading_text
from gapbench_leaderboard.board.marks import marks_of, meanings
from gapbench_leaderboard.board.numbers import TableRow, rounded
from gapbench_leaderboard.board.ranked import rank_text, ranked, text_of
from gapbench_leaderboard.board.shortening import shortened
from gapbench_leaderboard.board.trained import networks_text
from gapbench_leaderboard.scores import MEASURED_BASELINES
from gapbench_leaderboard.scoring.registry import HEADLINE, NETWORKS_AT, TERMINAL, Estimator
from gapbench_leaderboard.scoring.registry import columns as columns_of

MOST_COLUMNS = 100
MARKS_COLUMNS = 5
LEAST_NAME_COLUMNS = 24
UNDECIDED = "No two proxies can be told apart: no difference is significant, so any may be the best."
NETWORKS = "networks: ranked, of all that were trained"
NARROW = 76
"""Columns below which networks and marks stand on a line of their own."""
NARROW_NAME = 12
RANKS = "rank: by tau; in brackets between which ranks it is with 95 % confidence, all proxies at once"


def ranking_text(
    scores: pd.DataFrame,
    target: str = "gap",
    baselines: Collection[str] = MEASURED_BASELINES,
    doubts: Mapping[str, Doubts] | None = None,
    width: int = MOST_COLUMNS,
) -> str:
    """The ranking over all tasks and families, as lines.

    Rank, headline with its 95 % interval, the other columns that the terminal shows, networks ranked of those that
    were trained, and marks, which are spelled out below; then on how many networks a symmetry was not covered
    or an ascent had not converged (`doubts.doubts_of`). Lines have at most `width` columns, of at least 50: what
    does not fit is left out, networks and marks last, which get a line of their own.

    Returns:
        The text, or one line that says that nothing could be ranked.
    """
    doubts = doubts or {}
    found = ranked(scores, target=target, baselines=baselines)
    if found is None:
        return f"No proxy could be ranked by {target}: the scores hold no rank coefficient for it."
    table, rows = found.table, found.table.to_dict("records")
    known = found.filled(columns_of(TERMINAL))
    layout = _Layout.of(rows, known, max(50, min(width, MOST_COLUMNS)))
    columns, width = layout.columns, layout.columns_in_all
    tasks = [name for name in scores["task"].dropna().astype(str).unique() if name]
    over = f"task {_clean(tasks[0])}" if len(tasks) == 1 else "mean over tasks"
    lines = [f"Ranked by {HEADLINE} with {_clean(target)}, {over}", "", layout.head()]
    used: dict[str, None] = {}
    for baseline in (False, True):
        group = [row for row in rows if row["baseline"] == baseline]
        if baseline and group:
            lines += ["      baselines (not ranked)"]
        for row in group:
            marks = marks_of(row, doubts)
            lines += layout.lines(row, marks)
            used |= dict.fromkeys(marks)
    lines.append("")
    if found.competing > 1:
        lines += _wrapped(RANKS, width)
        best = [_clean(name) for name in found.best]
        lines += _best(best, width) if found.told_apart else _wrapped(UNDECIDED, width)
        lines += _wrapped(_clean(leading_text(scores, table, target)), width)
    for name, (value, low, high) in found.ceilings.items():
        lines.append(f"ceiling, {name}: {rounded(value)}  {_interval(low, high)}".rstrip())
    lines += [NETWORKS, *_notes(columns, width)]
    for mark, meaning in meanings().items():
        lines += _wrapped(f"{mark}: {meaning}", width) if mark in used else []
    for label in table["proxy"]:
        *above, last = layout.names[_clean(label)]
        told = doubts[str(label)].sentences if str(label) in doubts else []
        for text in told:
            lines += above
            lines += _wrapped(text, width, f"{_padded(last, layout.width)}  ")
    return "\n".join(lines)


def _best(names: Sequence[str], width: int) -> list[str]:
    """The proxies that may be the best, as many on a line as fit."""
    lines = [f"may be the best ({len(names)}):"]
    whole = shortened(names, width - 3)
    for position, name in enumerate(names):
        for text in whole[name]:
            text += "," if position < len(names) - 1 and text == whole[name][-1] else ""
            if cell_len(lines[-1]) + 1 + cell_len(text) <= width:
                lines[-1] += f" {text}"
            else:
                lines.append(f"  {text}")
    return lines


def _wrapped(text: str, width: int, lead: str = "") -> list[str]:
    """Words on lines that fit, the first after `lead`; words that do not fit on one are broken."""
    lines, indent = [lead], " " * (cell_len(lead) or 2)
    for word in text.split():
        for part in chop_cells(word, max(8, width - len(indent))):
            space = "" if lines[-1] in (lead, indent) else " "
            if cell_len(lines[-1]) + len(space) + cell_len(part) <= width:
                lines[-1] += f"{space}{part}"
            else:
                lines.append(f"{indent}{part}")
    return [line.rstrip() for line in lines] if text.split() else []


def _notes(columns: Sequence[Estimator], width: int) -> list[str]:
    """What the headings mean, as many on a line as fit."""
    lines: list[str] = []
    for shown in columns:
        note = f"{_heading(shown)}: {shown.note}"
        if not shown.note:
            continue
        if lines and len(lines[-1]) + 2 + len(note) <= width:
            lines[-1] += f"; {note}"
        else:
            lines += _wrapped(note, width)
    return lines


@dataclass(frozen=True)
class _Layout:
    """The columns beside the headline, the lines of each name, and widths."""

    columns: tuple[Estimator, ...]
    names: Mapping[str, tuple[str, ...]]
    width: int
    rank_width: int
    networks_width: int
    columns_in_all: int

    @classmethod
    def of(cls, rows: Sequence[TableRow], known: Sequence[Estimator], in_all: int) -> _Layout:
        """For these rows, with those of the known columns that fit."""
        ranks = max(len("rank"), *(len(rank_text(row)) for row in rows))
        networks = max(len("networks"), *(len(networks_text(row)) for row in rows))
        names = [_clean(row["proxy"]) for row in rows]
        longest = max([len("proxy"), *map(cell_len, names)])
        lead = cls((), {}, len("proxy"), ranks, networks, in_all).head()
        marks = len("[-0.000, -0.000]") - len("95 % interval") if in_all < NARROW else MARKS_COLUMNS
        room = max(NARROW_NAME, in_all - len(lead.removesuffix("marks")) + len("proxy") - marks)
        kept: list[Estimator] = []
        for shown in known:  # first come first
            if in_all < NARROW or room - 2 - _width(shown) < min(longest, LEAST_NAME_COLUMNS):
                continue
            kept.append(shown)
            room -= 2 + _width(shown)
        width = min(room, longest)
        return cls(tuple(kept), shortened(names, width), width, ranks, networks, in_all)

    def head(self) -> str:
        """The line of headings."""
        parts = [f"{_heading(shown):>{_width(shown)}}" for shown in self.columns]
        return self._joined("rank", "proxy", HEADLINE, "95 % interval", parts, "networks", "marks")

    def lines(self, row: TableRow, marks: str) -> list[str]:
        """The line of one proxy, and further ones where its name needs them."""
        first, *rest = self.names[_clean(row["proxy"])]
        parts = [f"{text_of(shown, row[shown.key]):>{_width(shown)}}" for shown in self.columns]
        interval, count = _interval(row["low"], row["high"]), networks_text(row)
        line = self._joined(rank_text(row), first, rounded(row["value"]), interval, parts, count, marks)
        indent = " " * (self.rank_width + 2)
        more = [f"{indent}{count}  {marks}".rstrip()] if self.columns_in_all < NARROW else []
        return [line, *(indent + text for text in rest), *more]

    def _joined(
        self, rank: str, name: str, value: str, interval: str, parts: list[str], count: str, marks: str
    ) -> str:
        split = sum(shown.order < NETWORKS_AT for shown in self.columns)
        middle = "".join(f"{part}  " for part in parts[:split])
        last = "".join(f"  {part}" for part in parts[split:])
        if self.columns_in_all < NARROW:
            return f"{rank:>{self.rank_width}}  {_padded(name, self.width)}  {value:>6}  {interval}".rstrip()
        lead = f"{rank:>{self.rank_width}}  {_padded(name, self.width)}  {value:>6}  {interval:<16}"
        text = f"{lead}  {middle}{count:>{self.networks_width}}{last}  {marks}"
        return text.rstrip()


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


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
