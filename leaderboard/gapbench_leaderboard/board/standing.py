"""What stands behind a row of the board: nobody's claim, a claim, or a verification, by whom and on what."""

from __future__ import annotations

from dataclasses import dataclass

from gapbench_leaderboard.board.content import BoardEntry, BoardVerification

CLAIMED = "Submitted: measured by its author, not verified."
OUTCOMES = {
    "not contradicted": "Submitted; on fresh networks not contradicted, but not confirmed either",
    "contradicted": "Submitted; contradicted",
    "refuted": "Submitted; measured again with other values",
    "undecided": "Submitted; measured again, but its scores cannot be compared",
}
"""Latest outcomes other than confirmed, and how they are said."""
ABOUT = {
    "verified": "Submitted, and measured again by gapbench verify, which bore it out; the details say on "
    "which networks.",
    "other population": "Submitted, and measured on other networks than those of this board.",
    "claimed": CLAIMED,
    "not contradicted": "Submitted; its score on fresh networks is compatible with the claim, but its "
    "interval contains 0.",
    "contradicted": "Submitted; its score on fresh networks is significantly smaller than claimed, or of "
    "the other sign.",
    "refuted": "Submitted; measured again on the same networks with other values.",
    "undecided": "Submitted; measured again, but its scores cannot be compared.",
}
"""What the page says of each kind, where an entry does not say it itself."""


@dataclass(frozen=True)
class Standing:
    """What stands behind an entry.

    `kind`: baseline, built_in, claimed, verified, or a key of `OUTCOMES`; `tags` for a mirror, `words` for people.
    """

    kind: str
    tags: tuple[str, ...]
    words: str


def standing(entry: BoardEntry) -> Standing:
    """The standing of an entry of a board's document."""
    if entry.get("baseline"):
        return Standing("baseline", ("baseline",), "A baseline, not ranked.")
    if not entry.get("submitted") and "verified" not in entry:
        words = (
            "A column of the table."
            if entry.get("of_table")
            else "Comes with gapbench; measured by who made the run."
        )
        return Standing("built_in", ("built_in",), words)
    found = [v for v in entry.get("verifications") or () if isinstance(v, dict)]
    last: BoardVerification = found[-1] if found else {}
    details = _details(last)
    if entry.get("verified"):
        tags = ("verified", *(("verified_by_" + str(last["role"]),) if last.get("role") else ()))
        return Standing("verified", (*tags, *_networks(last)), f"Verified{details}.")
    outcome = str(last.get("outcome", ""))
    if outcome in OUTCOMES:
        return Standing(outcome, ("claimed", outcome, *_networks(last)), f"{OUTCOMES[outcome]}{details}.")
    return Standing("claimed", ("claimed",), CLAIMED)


def _networks(last: BoardVerification) -> tuple[str, ...]:
    return (str(last["kind"]),) if last.get("kind") else ()


def _details(last: BoardVerification) -> str:
    """`, by its author, on the same networks, 2026-01-02`; what was not recorded is said to be so."""
    if not last:
        return ", it is not recorded by whom and on which networks"
    name, role = str(last.get("by") or ""), str(last.get("role") or "")
    who = {
        "author": f"by its author{f' ({name})' if name else ' (nobody else is named)'}",
        "another": f"by another than its author ({name})",
        "unknown": f"by {name} (the entry names no author)",
    }.get(role, "it is not recorded by whom")
    kind = (
        f", on {'the ' if last.get('kind') == 'same networks' else ''}{last['kind']}"
        if last.get("kind")
        else ""
    )
    date = f", {str(last['date'])[:10]}" if last.get("date") else ""
    return f": {who}{kind}{date}"
