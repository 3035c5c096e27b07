"""A decision in words: for the terminal, for Markdown, and as plain values for JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gapbench_leaderboard.scoring.decision.tree import PopulationDecision, Survivor

COLUMNS = 100
NAMES = 11
OUTCOMES = 9


def decision_text(decision: PopulationDecision, width: int = COLUMNS) -> str:
    """The verdicts as lines of at most `width` columns."""
    lines = [f"What these {decision.networks} networks can decide ({decision.target})"]
    rows = [(gate.name, gate.outcome, gate.words) for gate in decision.gates]
    survivors = survivor_words(decision)
    if survivors:
        rows.append(("survivors", "", survivors))
    indent = " " * (2 + NAMES + OUTCOMES + 2)
    for name, outcome, words in rows:
        head = f"  {name:<{NAMES}}{outcome:<{OUTCOMES}}  "
        lines += textwrap.wrap(
            printable(words),
            max(50, min(width, COLUMNS)),
            initial_indent=head,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def survivor_words(decision: PopulationDecision) -> str:
    """How headlines change where networks are kept that did not converge; empty where none was measured."""
    found = decision.survivorship
    if found.best is None or found.most is None:
        return ""
    return (
        f"with all networks kept that were measured, the best proxy ({_change(found.best)}) and the largest change "
        f"({_change(found.most)})"
    )


def _change(own: Survivor) -> str:
    return f"{own.proxy}: {own.tau:.3f} becomes {own.tau_all:.3f}"


def printable(text: str) -> str:
    """Without characters that steer a terminal."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def decision_values(decision: PopulationDecision) -> Mapping[str, Any]:
    """The tree as dictionaries and lists, with what its classes derive."""
    values = asdict(decision)
    for made, own in zip(values["levels"], decision.levels):
        made["share"] = own.share
    for made, stratum in zip(values["strata"], decision.strata):
        made |= {"ratio": stratum.ratio, "name": stratum.name}
    for made, gate in zip(values["gates"], decision.gates):
        made["outcome"] = gate.outcome
    values["survivorship"]["words"] = survivor_words(decision)
    return values
