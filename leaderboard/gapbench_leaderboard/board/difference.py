"""What changed between two boards, and whether it is more than noise."""

from __future__ import annotations

import math

import pandas as pd

from gapbench_leaderboard.board.numbers import rounded
from gapbench_leaderboard.board.ranked import rank_text
from gapbench_leaderboard.scores import TableError
from gapbench_leaderboard.statistics.resampling import SIGNIFICANCE, holm

FEW = "too few configurations"
ESTIMATORS = {
    "tau": "tau", "error": "tau_standard_error", "rank": "rank", "rank_low": "rank_low", "rank_high": "rank_high",
    "few": "unreliable",
}  # fmt: skip
RANKS = [f"{name}_{when}" for when in ("before", "after") for name in ("rank", "rank_low", "rank_high")]
COLUMNS = [
    "target",
    "task",
    "proxy",
    "change",
    "before",
    "after",
    "difference",
    "p",
    *RANKS,
]


def difference(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """The headlines of two boards side by side, for every target and task (empty: mean over tasks).

    p is two-sided, of the difference over the root of the sum of squares of both standard errors, after Holm's
    correction over all headlines that differ. Boards that share networks have errors that agree in part, so
    that the test is cautious: a difference may be real and not called significant.

    Returns:
        A row per target, task and proxy with the columns `COLUMNS`. `change`: `added`, `removed`,
        `same` (equal to the last digit), `significant`, `within noise`, or `too few configurations`
        (fewer than 30 on either board: what their errors are is not known well enough).

    Raises:
        TableError: if the boards have no headline in common, neither target nor task nor proxy.
    """
    tables = [_headlines(scores) for scores in (before, after)]
    first, second = (table.add_suffix(suffix) for table, suffix in zip(tables, ("_before", "_after")))
    joined = first.join(second, how="outer")
    if tables[0].index.intersection(tables[1].index).empty:
        raise TableError("the two boards have no proxy, task and target in common: nothing can be compared")
    rows = []
    for key, row in zip(joined.index, joined.to_dict("records")):
        target, task, proxy = key
        old, new = float(row["tau_before"]), float(row["tau_after"])
        rows.append(
            {
                "target": target,
                "task": task,
                "proxy": proxy,
                "change": _change(key in tables[0].index, key in tables[1].index, old, new),
                "before": old,
                "after": new,
                "difference": new - old,
                "p": _p(new - old, float(row["error_before"]), float(row["error_after"])),
            }
            | {name: float(row[name]) for name in RANKS}
        )
    table = pd.DataFrame(rows, columns=COLUMNS)
    differing = table["change"] == "differs"
    table.loc[differing & (joined[["few_before", "few_after"]] == 1).any(axis=1).to_numpy(), "change"] = FEW
    differing = table["change"] == "differs"
    table.loc[~differing, "p"] = math.nan
    table.loc[differing, "p"] = holm(table.loc[differing, "p"].to_numpy(dtype=float))
    table.loc[differing, "change"] = [
        "significant" if p < SIGNIFICANCE else "within noise" for p in table.loc[differing, "p"]
    ]
    return table


def difference_text(table: pd.DataFrame) -> str:
    """The changes of the means over tasks in words, then how many headlines of single tasks changed how."""
    lines = []
    for target, rows in table[table["task"] == ""].groupby("target", sort=False):
        lines.append(f"Headline tau with {target}, mean over tasks")
        shown = rows[rows["change"] != "same"]
        if shown.empty:
            lines.append("  no difference, to the last digit")
        for row in shown.sort_values("difference", key=abs, ascending=False, kind="stable").to_dict(
            "records"
        ):
            lines.append("  " + _line(row))
        lines.append("")
    single = table[table["task"] != ""]
    counts = single["change"].value_counts()
    lines.append("Single tasks: " + (", ".join(f"{n} {name}" for name, n in counts.items()) or "none") + ".")
    return "\n".join(lines)


def _line(row: dict[object, object]) -> str:
    name, change = _clean(str(row["proxy"])), row["change"]
    if change == "added":
        return f"added    {name}: tau {rounded(row['after'])}"
    if change == "removed":
        return f"removed  {name}: tau {rounded(row['before'])}"
    ranks = [rank_text(row, suffix) for suffix in ("_before", "_after")]
    moved = f", rank {ranks[0]} -> {ranks[1]}" if ranks[0] != ranks[1] else ""
    p = f", p = {row['p']:.2g}" if row["p"] == row["p"] else ""
    return f"{rounded(row['before'])} -> {rounded(row['after'])}  {name} ({change}{p}{moved})"


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text)


def _headlines(scores: pd.DataFrame) -> pd.DataFrame:
    own = scores[(scores["family"].fillna("") == "") & (scores["proxy"].fillna("") != "")]
    keys = ["target", "task", "proxy"]
    parts = {}
    for column, estimator in ESTIMATORS.items():
        rows = own[own["estimator"] == estimator].fillna({"task": ""})
        parts[column] = rows.set_index(keys)["value"].astype(float)
    return pd.DataFrame(parts).loc[parts["tau"].index]


def _change(in_first: bool, in_second: bool, old: float, new: float) -> str:
    if not in_first:
        return "added"
    if not in_second:
        return "removed"
    return "same" if old == new or (old != old and new != new) else "differs"


def _p(value: float, *errors: float) -> float:
    spread = math.hypot(*errors)
    if value != value or spread != spread:
        return math.nan
    if spread == 0:
        return 0.0 if value else 1.0
    return math.erfc(abs(value) / spread / math.sqrt(2))
