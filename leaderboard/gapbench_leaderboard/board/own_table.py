"""The board of a researcher's own table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from gapbench_leaderboard.board.building import build
from gapbench_leaderboard.board.verdicts import WIDTH
from gapbench_leaderboard.intake.selecting import Only, standing_of_rows
from gapbench_leaderboard.scoring.registry import estimators
from gapbench_leaderboard.scoring.rows import COLUMNS
from gapbench_leaderboard.statistics.quantities import quantity

RESERVED = ("cell", "task", "family", "status", "shift", "train_error", "test_error")
"""Columns that a board reads as its own: an axis of such a name has another on it."""


def build_own(
    folder: Path,
    frame: pd.DataFrame,
    scores: pd.DataFrame,
    *,
    name: str,
    measures: Sequence[str],
    target: str,
    axes: Sequence[str],
    seed_column: str | None = None,
    problem: Sequence[str] = (),
    higher_means: Mapping[str, str] | None = None,
    strata: Sequence[str] | None = None,
    only: Only | None = None,
    made_with: str = "",
) -> list[Path]:
    """Write the board of a table that was scored: the page, Markdown and tables of `building.build`.

    The table is one task; its rows are the networks, called after their number. Rows that the scores leave out have
    a status that says why: `copy`, or the value that `only` does not ask for, as in `status=diverged`.

    Args:
        folder: of the board; made if it does not exist.
        frame: one row per network, as `score_table` had it.
        scores: of `score_table`.
        name: of the table.
        measures: columns that were scored.
        target: as `score_table` had it, like the following.
        axes: likewise.
        seed_column: likewise.
        problem: likewise.
        higher_means: likewise.
        strata: likewise.
        only: likewise.
        made_with: what the first note says: the version and the options.

    Returns:
        The paths written.
    """
    said = standing_of_rows(frame, only or {}, seed_column is None)
    rows, style = frame.reset_index(drop=True), frame.attrs.get("numbers")
    called = {axis: _called(axis, rows) for axis in axes}
    population = pd.DataFrame({"cell": [f"row {row + 1}" for row in range(len(rows))]})
    population = population.assign(task=name, status=[text or "converged" for text in said])
    population[target] = quantity(rows[target], target, style).values
    for axis, label in called.items():
        population[label] = rows[axis].to_numpy()
    if seed_column is not None and seed_column not in population.columns:
        population[seed_column] = rows[seed_column].to_numpy()
    parts = []
    for measure in measures:
        values = quantity(rows[measure], measure, style).values
        known = np.isfinite(values)
        part = pd.DataFrame({"cell": population["cell"], "proxy": measure, "value": values})
        part = part.assign(status=np.where(known, "ok", "failed"), reason=np.where(known, "", "no number"))
        parts.append(part)
    counted = [_left_out(measures, target, text, said.count(text)) for text in dict.fromkeys(said) if text]
    return build(
        folder,
        population=population,
        measurements=pd.concat(parts, ignore_index=True),
        scores=pd.concat([_renamed(scores, called), *counted], ignore_index=True),
        axes=list(called.values()),
        suite={
            "name": name,
            "summary": "Networks of a table; whether they converged, the table does not say.",
            "of_table": True,
        },
        entries={
            measure: _entry(measure, name, (higher_means or {}).get(measure, "worse")) for measure in measures
        },
        notes=[made_with, *scores.attrs["notes"]] if made_with else scores.attrs["notes"],
        problem=[called[axis] for axis in problem],
        decision=scores.attrs["decision"],
        within=" and ".join(strata or ()) or WIDTH,
    )


def _left_out(measures: Sequence[str], target: str, why: str, number: int) -> pd.DataFrame:
    """Rows counted as the scores count everything else that they leave out."""
    rows = [
        ("", "", target, measure, f"left_out:{why}", float(number), np.nan, np.nan, 0) for measure in measures
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _called(axis: str, rows: pd.DataFrame) -> str:
    """The name of an axis on the board, which takes widths for numbers."""
    taken = axis in RESERVED or (axis == "width" and not pd.api.types.is_numeric_dtype(rows[axis]))
    return f"{axis} (axis)" if taken else axis


def _renamed(scores: pd.DataFrame, called: Mapping[str, str]) -> pd.DataFrame:
    """The scores with the rows of each axis under its name on the board."""
    by_axis = [known for known in estimators() if known.each == "axis"]
    labels = [known.name for known in by_axis] + [f"pairs:{known.name}" for known in by_axis if known.counted]
    names = {f"{label}:{axis}": f"{label}:{own}" for label in labels for axis, own in called.items()}
    return scores.assign(estimator=[names.get(name, name) for name in scores["estimator"]])


def _entry(measure: str, table: str, higher_means: str) -> dict[str, object]:
    """What the board says of a measure; the proxy is named so that it is none of ours."""
    return {
        "proxy": f"column {measure}",
        "summary": f"The column {measure} of {table}.",
        "higher_means": higher_means,
        "options": {},
        "of_table": True,
    }
