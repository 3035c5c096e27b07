"""What stands behind a row, and which population a remote run belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from gapbench_leaderboard.board.mirror import entry_records, group, leaderboard_identifier
from gapbench_leaderboard.board.publishing import aliases, artifact_names
from gapbench_leaderboard.board.standing import standing
from leaderboard.board_cases import scored

SUBMITTED: dict[str, Any] = {"label": "x", "baseline": False, "submitted": True, "verified": False}
DONE = {"kind": "fresh networks", "date": "2026-01-02T03:04:05+00:00", "by": "N. N.", "role": "another"}


@pytest.mark.parametrize(
    ("entry", "kind", "tags", "words"),
    [
        ({"baseline": True}, "baseline", ("baseline",), "baseline"),
        ({"baseline": False}, "built_in", ("built_in",), "Comes with gapbench"),
        (SUBMITTED, "claimed", ("claimed",), "measured by its author, not verified"),
        (
            {**SUBMITTED, "verified": True, "verifications": [{**DONE, "outcome": "confirmed"}]},
            "verified",
            ("verified", "verified_by_another", "fresh networks"),
            "Verified: by another than its author (N. N.), on fresh networks, 2026-01-02.",
        ),
        (
            {
                **SUBMITTED,
                "verified": True,
                "verifications": [
                    {"outcome": "confirmed", "kind": "same networks", "by": "", "role": "author"}
                ],
            },
            "verified",
            ("verified", "verified_by_author", "same networks"),
            "Verified: by its author (nobody else is named), on the same networks.",
        ),
        (
            {**SUBMITTED, "verified": True, "verifications": [{"outcome": "confirmed"}]},
            "verified",
            ("verified",),
            "Verified: it is not recorded by whom.",
        ),
        (
            {**SUBMITTED, "verifications": [{**DONE, "outcome": "not contradicted"}]},
            "not contradicted",
            ("claimed", "not contradicted", "fresh networks"),
            "not contradicted, but not confirmed either: by another",
        ),
        (
            {**SUBMITTED, "verifications": [{**DONE, "outcome": "contradicted"}]},
            "contradicted",
            ("claimed", "contradicted", "fresh networks"),
            "contradicted: by another",
        ),
    ],
)
def test_the_standing_of_a_row(entry: dict[str, Any], kind: str, tags: tuple[str, ...], words: str) -> None:
    found = standing(entry)
    assert (found.kind, found.tags) == (kind, tags)
    assert words in found.words


def suite(fingerprint: str | None, complete: bool = True) -> dict[str, Any]:
    known = {"fingerprint": fingerprint, "complete": complete, "words": "4 of 12 networks: incomplete"}
    return {"name": "made", "version": 1} | ({"population": known} if fingerprint else {})


def test_populations_have_runs_groups_and_aliases_of_their_own() -> None:
    _, _, scores = scored(("one",), 2, 2, ("param_norm",))
    suites = [suite(None), suite("a" * 16), suite("b" * 16), suite("c" * 16, complete=False)]
    entry = {**SUBMITTED, "label": "param_norm", "other_population": "param_norm was measured elsewhere."}
    records = [entry_records({"suite": s, "proxies": [entry]}, scores)[0] for s in suites]
    assert len({record.identifier for record in records}) == 4
    assert len({leaderboard_identifier(s) for s in suites}) == 4
    assert [group(s) for s in suites] == [
        "made-v1",
        "made-v1-aaaaaaaa",
        "made-v1-bbbbbbbb",
        "made-v1-cccccccc-trial",
    ]
    assert [("trial" in record.tags) for record in records] == [False, False, False, True]
    assert all("other_population" in record.tags for record in records)
    assert "population" not in records[0].config
    assert records[3].config["population_words"] == "4 of 12 networks: incomplete"
    assert aliases(suites[0]) == ["suite-made-v1"]
    assert aliases(suites[1]) == ["suite-made-v1", f"population-{'a' * 16}"]
    assert artifact_names("made", "1", trial=True)[:2] == (
        "gapbench-trial-made",
        "gapbench-trial-made-weights",
    )
