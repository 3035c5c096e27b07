"""Which proxies change when a network's function does not: the audit as a table and as a mark."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from gapbench_leaderboard.board.content import Audit, BoardAudit

COLUMNS = ["proxy", "kind", "strength", "relative_change", "rank_correlation", "verdict", "reason"]


def invariance_table(audit: Audit) -> pd.DataFrame:
    """One row per proxy, kind and strength of transformation; columns as in `COLUMNS`."""
    rows = [
        {"proxy": label, **{name: row.get(name) for name in COLUMNS[1:]}}
        for label, found in audit["proxies"].items()
        for row in found
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def invariance_mark(rows: Sequence[BoardAudit]) -> str:
    """`invariant 3/5`: unchanged under 3 of the 5 transformations that apply; empty if none applies."""
    applicable = [row for row in rows if row["verdict"] != "not applicable"]
    unchanged = sum(row["verdict"] == "invariant" for row in applicable)
    return f"invariant {unchanged}/{len(applicable)}" if applicable else ""
