"""A pilot's report as text and as Markdown."""

from __future__ import annotations

import textwrap

from gapbench.pilot.report import HEADINGS, PilotReport, advice, aligned, family_rows, summary
from gapbench_leaderboard.board.escaping import escape
from gapbench_leaderboard.scoring.decision.words import decision_text, printable
from gapbench_leaderboard.statistics.proportions import wilson

COLUMNS = 100


def report_text(report: PilotReport) -> str:
    """The report as lines of at most 100 columns."""
    lines = [decision_text(report.decision), "", _head(report), ""]
    lines += [line for name, words in summary(report) for line in _wrapped(f"  {name:<12}", words)]
    lines += ["", "Seconds of one worker for each network; in all on this machine:", ""]
    lines += aligned(family_rows(report.costs))
    said = advice(report)
    if said:
        lines += ["", "What to change:", ""]
        lines += [line for words in said for line in _wrapped("  - ", words)]
    return "\n".join(lines)


def report_markdown(report: PilotReport) -> str:
    """The report as Markdown."""
    decision = report.decision
    lines = [f"# Pilot of {escape(report.suite)}", "", f"{_head(report)}", ""]
    lines += [f"- **{name}**: {escape(words)}" for name, words in summary(report)]
    lines += ["", "## What to change", ""]
    lines += [f"- {escape(words)}" for words in advice(report)] or ["- nothing that the pilot shows"]
    lines += [
        "",
        "## Cost",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|---|---|" + "---:|" * (len(HEADINGS) - 2),
    ]
    lines += ["| " + " | ".join(map(escape, row)) + " |" for row in family_rows(report.costs)]
    lines += ["", f"## What the {decision.networks} networks of the pilot decide", ""]
    lines += [f"- **{gate.name}**, {gate.outcome}: {escape(gate.words)}." for gate in decision.gates]
    lines += ["", "## Networks ranked", "", "| by | level | ranked | 95 % interval |", "|---|---|---:|---|"]
    for own in decision.levels:
        low, high = wilson(own.kept, own.networks)
        lines.append(
            f"| {escape(own.by)} | {escape(own.level)} | {own.kept}/{own.networks} | {low:.2f} to {high:.2f} |"
        )
    return "\n".join(lines) + "\n"


def _head(report: PilotReport) -> str:
    return f"Of the whole suite {report.suite}, {report.planned} networks, as far as {report.networks} tell"


def _wrapped(head: str, words: str) -> list[str]:
    return textwrap.wrap(
        printable(words),
        COLUMNS,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
    )
