"""The share of networks that is ranked, level by level."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.decision.tree import Kept
from gapbench_leaderboard.statistics.configurations import numeric
from gapbench_leaderboard.statistics.levels_of_axes import EMPTY, in_words, levels_of_axis


def is_kept(population: pd.DataFrame, target: str, ranked_status: Collection[str]) -> NDArray[np.bool_]:
    """Networks that can be ranked: of a ranked status, with a finite target; shape (networks,)."""
    kept: NDArray[np.bool_] = population["status"].isin(list(ranked_status)).to_numpy(dtype=bool)
    return kept & np.isfinite(numeric(population, target))


def kept_by_level(
    population: pd.DataFrame,
    kept: NDArray[np.bool_],
    axes: Sequence[str],
    labels: Mapping[str, str] | None = None,
) -> tuple[Kept, ...]:
    """Counts by task, family, width, every axis, and family with width, as far as the table has them.

    An axis of more than 8 numbers is divided into quarters.

    Args:
        population: one row per network.
        kept: those that are ranked, shape (networks,).
        axes: columns; those that the table lacks are left out.
        labels: of columns and tasks that are called otherwise in words, or not at all if empty.

    Returns:
        A count for every level, by column; of the axes those that vary.
    """
    columns = [
        name for name in dict.fromkeys(["task", "family", "width", *axes]) if name in population.columns
    ]
    called = labels or {}
    found: list[Kept] = []
    for column in columns:
        own = levels_of_axis(population, column)
        nameless = any(called.get(name) == "" for name in own.names)
        always = column in ("task", "family", "width") and not nameless
        if own.distinct < (1 if always else 2):
            continue
        name_of = called.get(column, column)
        found += [
            Kept(name_of, name, int(kept[own.codes == code].sum()), int((own.codes == code).sum()))
            for code, name in enumerate(own.names)
            if name != EMPTY
            or column in ("task", "family", "width")  # else tasks and families without the axis
        ]
    if {"family", "width"} <= set(columns):
        found += _by_width(population, kept)
    return tuple(found)


def _by_width(population: pd.DataFrame, kept: NDArray[np.bool_]) -> list[Kept]:
    """Counts of every width of every family, its widths in quarters where they are many."""
    found = []
    family = population["family"].astype(str).to_numpy()
    for name in sorted(set(family)):
        rows = np.flatnonzero(family == name)
        own = levels_of_axis(population.iloc[rows], "width")
        for code, level in enumerate(own.names):
            members = rows[own.codes == code]
            called = f"width {_fraction(level)} of {in_words(name)}"
            found.append(Kept("family, width", called, int(kept[members].sum()), len(members)))
    return found


def _fraction(level: str) -> str:
    """1/32 in the place of 0.03125."""
    try:
        value = float(level)
    except ValueError:
        return level
    parts = 1 / value if 0 < value < 1 else 0.0
    return f"1/{round(parts)}" if parts > 1 and abs(parts - round(parts)) < 1e-4 * parts else level
