"""An order of networks, and numbers of levels, that do not depend on how levels are spelled or rows are sorted.

Random numbers are drawn configuration by configuration. Were these numbered by the alphabet, another word for
a level would change every interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.quantities import levels, quantity


def own_order(values: Sequence[NDArray[np.float64]], codes: Sequence[NDArray[np.int64]]) -> NDArray[np.intp]:
    """The rows sorted by `values`, the first of them first; by the codes of levels only where all are equal."""
    return np.lexsort([*reversed(list(codes)), *reversed(list(values))])


def axis_values(column: pd.Series, target: NDArray[np.float64]) -> pd.Series:
    """An axis as numbers where it holds nothing else, and else as levels named in an order of the targets.

    Args:
        column: the cells of the axis.
        target: shape (rows,), in the same order, itself independent of the spelling.

    Returns:
        Numbers, or levels that stand for the cells, with the index of `column`.
    """
    own = column.astype(object).tolist()
    if not isinstance(column.dtype, pd.CategoricalDtype) and not any(
        isinstance(cell, str | bool | np.bool_) for cell in own
    ):
        found = quantity(column, "")
        if not found.unreadable and (found.merged is None or _is_whole(column)):
            if _is_whole(column):
                return pd.Series(column.to_numpy(), index=column.index)
            return pd.Series(found.values, index=column.index)
    code = levels(column)
    ranks = np.unique(np.where(np.isnan(target), np.inf, target), return_inverse=True)[1].reshape(-1)
    place: dict[int, tuple[list[int], list[int]]] = {}
    for row, level in enumerate(code.tolist()):
        ranked, rows = place.setdefault(level, ([], []))
        ranked.append(int(ranks[row]))
        rows.append(row)
    ordered = sorted(place, key=lambda level: (sorted(place[level][0]), place[level][1]))
    number = {level: position for position, level in enumerate(ordered)}
    return pd.Series([f"level {number[level]:09d}" for level in code.tolist()], index=column.index)


def _is_whole(column: pd.Series) -> bool:
    return isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu"
