"""Tables of networks as configurations: checked columns, codes of axes, means over seeds."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_base.errors import TableError as TableError
from gapbench_leaderboard.statistics.quantities import levels, quantity

_LARGE = 2**62


@dataclass(frozen=True)
class Configurations:
    """Distinct configurations of a table, each with the means over its rows (its seeds)."""

    codes: NDArray[np.int64]
    """Shape (configurations, axes): the level of each axis, 0.. in sorted order."""
    levels: tuple[int, ...]
    """Number of levels of each axis."""
    measure: NDArray[np.float64]
    target: NDArray[np.float64]
    row_of: NDArray[np.int64]
    """Shape (rows,): the configuration of each row that is kept."""
    kept: NDArray[np.bool_]
    """Shape (rows of the table,): rows whose measure and target are finite."""


def require_columns(frame: pd.DataFrame, columns: Iterable[str]) -> None:
    """Refuse a table that lacks columns.

    Raises:
        TableError: naming every column that `frame` lacks, with near misses.
    """
    missing = [column for column in dict.fromkeys(columns) if column not in frame.columns]
    if not missing:
        return
    parts = []
    for column in missing:
        lower = {str(name).lower(): str(name) for name in frame.columns}
        near = difflib.get_close_matches(str(column).lower(), lower, n=1)
        parts.append(f"{column!r}" + (f" (did you mean {lower[near[0]]!r}?)" if near else ""))
    raise TableError(
        f"the table has no column {', '.join(parts)}; its columns are: {', '.join(map(str, frame.columns))}"
    )


def numeric(frame: pd.DataFrame, column: str) -> NDArray[np.float64]:
    """A column as float64; empty entries become NaN.

    Returns:
        shape (rows,).

    Raises:
        TableError: if the column holds text that is no number, naming the first such row.
    """
    found = quantity(frame[column], column)
    if found.words or found.unreadable:
        both = replace(found, unreadable=tuple(sorted([*found.words, *found.unreadable], key=_row)))
        raise TableError(both.complaint(column))
    return found.values


def _row(cell: tuple[int, object]) -> int:
    return cell[0]


def axis_codes(frame: pd.DataFrame, axes: Sequence[str]) -> NDArray[np.int64]:
    """Level of every axis in every row; levels are numbered in sorted order.

    An empty entry is a level of its own (a hyper-parameter that does not apply); so are "NA" and "None".

    Returns:
        shape (rows, axes).
    """
    require_columns(frame, axes)
    codes = np.zeros((len(frame), len(axes)), dtype=np.int64)
    for position, axis in enumerate(axes):
        codes[:, position] = levels(frame[axis], axis)
    return codes


def group_codes(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of the group of equal rows that each row of `codes`, shape (rows, axes), belongs to."""
    if codes.shape[1] == 0:
        return np.zeros(len(codes), dtype=np.int64)
    return np.unique(_as_one(codes), axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _as_one(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows as whole numbers in the same order, which sort far faster; unchanged where these are too large."""
    if not len(codes):
        return codes
    least = codes.min(axis=0)
    sizes = [int(high) - int(low) + 1 for low, high in zip(least, codes.max(axis=0))]
    if math.prod(sizes) >= _LARGE:
        return codes
    found = np.zeros(len(codes), dtype=np.int64)
    for position, size in enumerate(sizes):
        found = found * size + (codes[:, position] - least[position])
    return found


def gather(frame: pd.DataFrame, measure: str, target: str, axes: Sequence[str]) -> Configurations:
    """Average the rows of each configuration (its seeds); rows without finite values are left out.

    Returns:
        The configurations in sorted order.

    Raises:
        TableError: for missing columns, no axes, an axis named twice, or text where numbers are needed.
    """
    check_axes(axes)
    require_columns(frame, [measure, target, *axes])
    x, y = numeric(frame, measure), numeric(frame, target)
    kept = np.isfinite(x) & np.isfinite(y)
    rows = axis_codes(frame, axes)[kept]
    if not len(rows):
        empty = np.zeros(0)
        codes = np.zeros((0, len(axes)), dtype=np.int64)
        return Configurations(codes, (0,) * len(axes), empty, empty, np.zeros(0, dtype=np.int64), kept)
    codes, row_of = np.unique(rows, axis=0, return_inverse=True)
    row_of = row_of.reshape(-1).astype(np.int64)
    return Configurations(
        codes=codes,
        levels=tuple(len(np.unique(codes[:, position])) for position in range(len(axes))),
        measure=means(x[kept], row_of, len(codes)),
        target=means(y[kept], row_of, len(codes)),
        row_of=row_of,
        kept=kept,
    )


def means(values: NDArray[np.float64], group: NDArray[np.int64], groups: int) -> NDArray[np.float64]:
    """Mean of each group, by pandas' compensated summation, exact where all are equal.

    Means that are equal but for rounding decide ties between configurations. The arithmetic is that of
    published tables (`DataFrame.groupby().mean()`); a correctly rounded sum would give other ties.

    Returns:
        shape (groups,).

    Raises:
        ValueError: if a group has no member.
    """
    by_group = pd.Series(values).groupby(group)
    mean = by_group.mean().to_numpy()
    lowest, highest = by_group.min().to_numpy(), by_group.max().to_numpy()
    if len(mean) != groups:
        raise ValueError(f"{groups - len(mean)} groups have no member")
    return np.where(lowest == highest, lowest, mean)


def check_axes(axes: Sequence[str]) -> None:
    """Refuse what cannot be the axes of a grid.

    Raises:
        TableError: for a string in place of a list, no axes, or an axis named twice.
    """
    if isinstance(axes, str):
        raise TableError(f"axes must be a list of column names, not the string {axes!r}")
    if not len(axes):
        raise TableError("at least one axis is needed")
    if len(set(axes)) < len(axes):
        raise TableError(f"an axis is named twice: {', '.join(map(str, axes))}")
