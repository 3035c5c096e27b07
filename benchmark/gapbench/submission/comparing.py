"""Two rows of a board side by side: versions of an entry, or any two proxies that were measured on the run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gapbench.runs.entry import Entry
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import near_and_others

if TYPE_CHECKING:
    import pandas as pd

    from gapbench.runs.run import Run

DIFFERENT = 0.05
"""p below which a difference is called one."""


@dataclass(frozen=True)
class Side:
    """One of two proxies: its headline with the gap, and how its measurements ended."""

    label: str
    tau: float
    low: float
    high: float
    networks: int
    statuses: Mapping[str, int]


@dataclass(frozen=True)
class Comparison:
    """The first less the second.

    Attributes:
        networks: of the population.
        both: networks on which both have a value.
        equal: of these, those with equal values.
        alike: tau-b between the two, over all these networks of a task, tasks equally; NaN where it is not defined.
        difference: of the headlines, on the networks that both measured; `low` and `high` its 95 % interval.
        p: two-sided, that it is zero; of this pair alone.
        changed: what differs between two entries, in words.
    """

    first: Side
    second: Side
    networks: int
    both: int
    equal: int
    alike: float
    difference: float
    low: float
    high: float
    p: float
    changed: tuple[str, ...] = field(default=())

    @property
    def told_apart(self) -> bool:
        """Whether the headlines differ by more than chance."""
        return self.p < DIFFERENT


def compared(run: str | os.PathLike[str], one: str, other: str = "") -> Comparison:
    """Compare two rows of a run's board.

    Args:
        run: the run's folder.
        one: label or name of an entry, or label of a proxy of the suite.
        other: likewise; if not given, the version of the entry `one` before its last.

    Returns:
        The comparison, the later version of an entry first where only a name is given.

    Raises:
        GapbenchError: if there is no such row, or nothing to compare it with.
    """
    from gapbench.runs.run import open_run

    opened = open_run(run)
    first, second = _labels(opened, one, other)
    scores = opened.scores(targets=("gap",), proxies=(first, second))
    values = opened.measurements[opened.measurements["proxy"].isin([first, second])]
    ranked = opened.rankable()
    ok = values[(values["status"] == "ok") & values["cell"].isin(ranked["cell"])]
    if "repeat" in ok.columns:
        ok = ok[ok["repeat"] == 0]
    wide = ok.pivot(index="cell", columns="proxy", values="value").reindex(columns=[first, second]).dropna()
    difference, low, high, p = _difference(scores, first, second)
    return Comparison(
        _side(first, scores, values),
        _side(second, scores, values),
        networks=len(ranked),
        both=len(wide),
        equal=int((wide[first] == wide[second]).sum()),
        alike=_alike(wide, ranked, first, second),
        difference=difference,
        low=low,
        high=high,
        p=p,
        changed=_changed({entry.label: entry for entry in opened.entries}, first, second),
    )


def _labels(opened: Run, one: str, other: str) -> tuple[str, str]:
    """The labels of both rows."""
    from gapbench.runs.entries import named
    from gapbench.submission.keeping import begun

    entries = sorted(opened.entries, key=lambda entry: (entry.name, entry.version))
    rows = [*(request.label for request in opened.proxies), *(entry.label for entry in entries)]
    found = []
    for wanted in filter(None, (one, other)):
        entry = named(entries, wanted)
        if entry is None and wanted not in rows:
            raise GapbenchError(f"{opened.folder} has no row {wanted!r}.{near_and_others(wanted, rows)}")
        found.append(entry.label if entry is not None else wanted)
    if not other:
        versions = [entry.label for entry in entries if entry.name == one]
        if len(versions) < 2:
            waiting = "".join(f" {own.words}" for own in begun(opened.folder) if own.name == one)
            raise GapbenchError(
                f"{one!r} has no other version on this run; --compare {one} --with OTHER takes any other row."
                f"{waiting}{near_and_others('', [row for row in rows if row != found[0]])}"
            )
        found = [versions[-1], versions[-2]]
    if found[0] == found[1]:
        raise GapbenchError(f"{one!r} and {other!r} are the same row, {found[0]}.")
    return found[0], found[1]


def _side(label: str, scores: pd.DataFrame, values: pd.DataFrame) -> Side:
    from gapbench_leaderboard.scores import ranking

    ranks = {str(row["proxy"]): row for row in ranking(scores, target="gap").to_dict("records")}
    statuses = values[values["proxy"] == label]["status"].value_counts()
    counted = {str(status): int(count) for status, count in statuses.items()}
    if label not in ranks:
        return Side(label, float("nan"), float("nan"), float("nan"), 0, counted)
    row = ranks[label]
    return Side(
        label, float(row["value"]), float(row["low"]), float(row["high"]), int(row["models"]), counted
    )


def _difference(scores: pd.DataFrame, first: str, second: str) -> tuple[float, float, float, float]:
    """The difference of the headlines over all tasks, its interval and its p; NaN where it is not known."""
    overall = scores[scores["task"].fillna("") == ""].to_dict("records")
    rows: dict[tuple[str, str], dict[Any, Any]] = {(row["proxy"], row["estimator"]): row for row in overall}
    for proxy, other, sign in ((first, second, 1.0), (second, first, -1.0)):
        row = rows.get((proxy, f"tau_minus:{other}"))
        if row is not None:
            value, low, high = (sign * float(row[name]) for name in ("value", "low", "high"))
            p = float(rows.get((proxy, f"tau_minus_p:{other}"), {}).get("value", "nan"))
            return value, min(low, high), max(low, high), p
    return (float("nan"), float("nan"), float("nan"), float("nan"))


def _alike(wide: pd.DataFrame, ranked: pd.DataFrame, first: str, second: str) -> float:
    from gapbench_leaderboard.statistics import kendall_tau

    tasks = ranked.set_index("cell")["task"].reindex(wide.index)
    found = [kendall_tau(part[first].to_numpy(), part[second].to_numpy()) for _, part in wide.groupby(tasks)]
    known = [value for value in found if value == value]
    return sum(known) / len(known) if known else float("nan")


def _changed(entries: Mapping[str, Entry], first: str, second: str) -> tuple[str, ...]:
    """What the first entry says otherwise than the second."""
    if first not in entries or second not in entries:
        return ()
    new, old = entries[first], entries[second]
    told = []
    if new.source_sha256 != old.source_sha256:
        told.append(f"another source ({old.source_sha256[:12]} -> {new.source_sha256[:12]})")
    names = sorted({*new.options, *old.options})
    for name in names:
        before, after = old.options.get(name, "not there"), new.options.get(name, "not there")
        if before != after:
            told.append(f"option {name}: {before} -> {after}")
    for what in ("proxy", "higher_means", "authors", "rules", "gapbench"):
        before, after = getattr(old, what), getattr(new, what)
        if before != after:
            told.append(f"{what.replace('_', ' ')}: {before} -> {after}")
    return tuple(told)
