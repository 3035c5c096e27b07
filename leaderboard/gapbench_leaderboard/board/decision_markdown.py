"""What a population can decide, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from gapbench_leaderboard.board.content import DecisionSaid, StratumSaid
from gapbench_leaderboard.board.escaping import escape
from gapbench_leaderboard.board.numbers import rounded

STRATA = {
    "networks": 0,
    "configurations": 0,
    "spread": 4,
    "noise": 4,
    "ratio": 1,
    "between_seeds": 4,
    "seeds": 2,
}
"""Columns of the table of strata, with digits."""
HEADINGS = {
    "noise": "test noise",
    "ratio": "spread / noise",
    "between_seeds": "between seeds",
    "seeds": "share of seeds",
}


def decision_lines(said: DecisionSaid) -> list[str]:
    """The section of a board: the verdicts, then the numbers behind them folded away."""
    survivors = str(said["survivorship"].get("words") or "")
    return [
        "",
        "## What this population can decide",
        "",
        f"Of {escape(said['target'])}, with {said['networks']} networks.",
        "",
        *(
            f"- **{escape(gate['name'])}**, {gate['outcome']}: {escape(gate['words'])}."
            for gate in said["gates"]
        ),
        *([f"- **survivors**: {escape(survivors)}."] if survivors else []),
        "",
        "<details><summary>By level, and by problem and family</summary>",
        "",
        *_levels(said),
        "",
        *_strata(said["strata"]),
        "",
        "</details>",
    ]


def _levels(said: DecisionSaid) -> list[str]:
    rows = [(own["by"], own["level"], f"{own['kept']}/{own['networks']}") for own in said["levels"]]
    return [
        "| by | level | ranked |",
        "|---|---|---:|",
        *(f"| {escape(by)} | {escape(level)} | {count} |" for by, level, count in rows),
    ]


def _strata(strata: Sequence[StratumSaid]) -> list[str]:
    axes = list(dict.fromkeys(axis for own in strata for axis in own["shares"]))
    heads = [HEADINGS.get(name, name) for name in STRATA] + [f"share of {escape(axis)}" for axis in axes]
    lines = ["| problem and family | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for own in strata:
        cells = [rounded(own[name], digits) for name, digits in STRATA.items()]  # type: ignore[literal-required]
        cells += [rounded(own["shares"].get(axis), 2) for axis in axes]
        lines.append(f"| {escape(own['name'])} | " + " | ".join(cells) + " |")
    return lines
