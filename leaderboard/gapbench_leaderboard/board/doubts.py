"""On how many networks a value is not what its name says: a symmetry covered in part, an unfinished ascent.

The one place where this is judged; the page, Markdown, JSON and the terminal show what it found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from gapbench_leaderboard.board.content import DoubtsSaid

PARTLY, MISSING, ASCENT = "p", "n", "a"
NAMES = {PARTLY: "partly covered", MISSING: "no symmetry found", ASCENT: "not converged"}
MEANINGS = {
    PARTLY: "quotient: symmetry covered in part on some networks; the rest of it is in the value",
    MISSING: "quotient: no symmetry found on some networks, where it is the full space",
    ASCENT: "worst case: on some networks doubling the ascent's steps still gained more than 5 %",
}

ABOUT = {
    PARTLY: "Of a quotient: the network's symmetry was only partly covered on some networks, so a part of"
    " it is still in the value.",
    MISSING: "Of a quotient: no symmetry was found on some networks, where the quotient is the full space.",
    ASCENT: "A worst-case ascent had not converged on some networks: doubling its steps gained more than "
    "5 %.",
}
"""What the page says of them."""


@dataclass(frozen=True)
class Doubts:
    """Doubts about one proxy, counted over the networks that it has a value on.

    `covered` say how far their symmetry was covered, `partly` and `missing` of them in part and not at
    all; `ascents` say whether their ascent converged, `unconverged` that it did not.
    """

    covered: int = 0
    partly: int = 0
    missing: int = 0
    ascents: int = 0
    unconverged: int = 0

    @property
    def marks(self) -> str:
        """Keys of `NAMES`, those that apply."""
        counts = {PARTLY: self.partly, MISSING: self.missing, ASCENT: self.unconverged}
        return "".join(mark for mark, count in counts.items() if count)

    @property
    def sentences(self) -> list[str]:
        """What applies, with the number of networks, without points."""
        told = {
            PARTLY: f"symmetry partly covered on {_of(self.partly, self.covered)}",
            MISSING: f"no symmetry found on {_of(self.missing, self.covered)}",
            ASCENT: f"ascent not converged on {_of(self.unconverged, self.ascents)}",
        }
        return [told[mark] for mark in self.marks]

    def as_dict(self) -> DoubtsSaid:
        """For the board's document: the counts, the marks by name, and each with its sentence."""
        return {
            "covered": self.covered,
            "partly": self.partly,
            "missing": self.missing,
            "ascents": self.ascents,
            "unconverged": self.unconverged,
            "marks": {NAMES[mark]: text for mark, text in zip(self.marks, self.sentences)},
        }


def marks_of_one(coverage: object, converged: object) -> str:
    """The marks of one measurement.

    Args:
        coverage: "whole group", "partly covered: ..." or "no symmetry found"; whatever else it is says nothing.
        converged: a truth value, of Python or numpy; whatever else it is says nothing.

    Returns:
        Keys of `NAMES`.
    """
    text = coverage if isinstance(coverage, str) else ""
    partly = PARTLY if text.startswith("partly covered") else ""
    missing = MISSING if text.startswith("no symmetry found") else ""
    return partly + missing + (ASCENT if _truth(converged) is False else "")


def words_of_one(coverage: object, converged: object) -> list[str]:
    """The marks of one measurement in words."""
    told = {PARTLY: f"symmetry {coverage}", MISSING: "no symmetry found", ASCENT: "ascent not converged"}
    return [told[mark] for mark in marks_of_one(coverage, converged)]


def doubts_of(measurements: pd.DataFrame) -> dict[str, Doubts]:
    """The doubts that measurements tell.

    Args:
        measurements: with `proxy`, `status` and, where they exist, `coverage`, `converged` and `repeat`.

    Returns:
        Label -> its doubts; labels whose measurements say nothing of either are left out.
    """
    if not {"coverage", "converged"} & set(measurements.columns):
        return {}
    rows = measurements[measurements["status"] == "ok"]
    if "repeat" in rows.columns:
        rows = rows[~(pd.to_numeric(rows["repeat"], errors="coerce") > 0)]
    nothing = [None] * len(rows)
    stated = zip(
        rows["proxy"].astype(str),
        rows["coverage"] if "coverage" in rows.columns else nothing,
        rows["converged"] if "converged" in rows.columns else nothing,
    )
    counts: dict[str, dict[str, int]] = {}
    for label, coverage, converged in stated:
        told, ends = isinstance(coverage, str) and bool(coverage), _truth(converged) is not None
        if not (told or ends):
            continue
        marks = marks_of_one(coverage, converged)
        own = counts.setdefault(label, dict.fromkeys(Doubts.__dataclass_fields__, 0))
        own["covered"] += told
        own["ascents"] += ends
        for mark, name in ((PARTLY, "partly"), (MISSING, "missing"), (ASCENT, "unconverged")):
            own[name] += mark in marks
    return {label: Doubts(**own) for label, own in counts.items()}


def marks_in(doubts: Mapping[str, Doubts], label: object) -> str:
    """The marks of a label, none where nothing is known of it."""
    found = doubts.get(str(label))
    return found.marks if found is not None else ""


def _truth(value: object) -> bool | None:
    """True or False where it is one, also numpy's; None for anything else."""
    if isinstance(value, bool):
        return value
    return bool(value) if type(value).__name__ in ("bool_", "bool") else None


def _of(count: int, total: int) -> str:
    return f"{count} of {total} network{'' if total == 1 else 's'}"
