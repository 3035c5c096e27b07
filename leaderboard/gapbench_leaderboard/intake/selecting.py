"""Which rows of a table are scored: those asked for, and each once."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_base.errors import TableError
from gapbench_base.suggestions import near_and_others
from gapbench_leaderboard.intake.copies import copies, named_rows, numbering
from gapbench_leaderboard.statistics.cells import is_empty
from gapbench_leaderboard.statistics.quantities import quantity, shown

STATES = ("status", "state", "converged", "diverged", "failed", "finished", "completed")
"""What people call a column that says whether the training of a network came to its end."""
_GOOD = ("ok", "converged", "done", "success", "finished", "completed", "complete", "true", "1", "yes")
_BAD = ("false", "0", "no")
"""What is said of a network that did not fail, or did not diverge."""
COPY = "copy"
_MOST_VALUES = 12

Only = Mapping[Any, Collection[object]]


def standing_of_rows(frame: pd.DataFrame, only: Only, unique: bool) -> list[str]:
    """Of each row why it is not scored: "status=diverged", or "copy"; "" where it is.

    Args:
        frame: one row per network.
        only: column -> the values whose rows are scored.
        unique: whether rows that equal another count once (they are no seeds).

    Returns:
        One text per row.

    Raises:
        TableError: for a column that is not there, or a value that no row has.
    """
    said = [""] * len(frame)
    for column, wanted in only.items():
        if column not in frame.columns:
            raise TableError(
                f"--only: the table has no column {column!r}.{near_and_others(str(column), frame.columns)}"
            )
        kept = _rows_of(frame.loc[:, column], column, wanted)
        for row, cell in enumerate(_texts(frame.loc[:, column])):
            if not said[row] and not kept[row]:
                said[row] = f"{column}={cell}"
    if unique:
        chosen = np.flatnonzero([not text for text in said])
        for row in chosen[copies(frame.iloc[chosen], numbering(frame))]:
            said[row] = COPY
    return said


def _rows_of(column: pd.Series[Any], name: object, wanted: Collection[object]) -> NDArray[np.bool_]:
    """Rows whose cell is one of the values: as it is written where some cell is, else as a number or word.

    Returns:
        shape (rows,).

    Raises:
        TableError: for a value that no row has.
    """
    written, read = [str(cell).strip() for cell in column.tolist()], _texts(column)
    kept = np.zeros(len(column), dtype=bool)
    for value in wanted:
        exact = np.array([cell == str(value).strip() for cell in written])
        found = exact if exact.any() else np.array([cell == _text(value) for cell in read])
        if not found.any():
            there = ", ".join(
                f"{text} ({read.count(text)})" for text in list(dict.fromkeys(read))[:_MOST_VALUES]
            )
            raise TableError(f"--only: no row has {name} = {value}; there are {there}")
        kept |= found
    return kept


def kept_rows(said: Sequence[str]) -> NDArray[np.intp]:
    """Places of the rows that are scored."""
    return np.flatnonzero([not text for text in said])


def notes_on_rows(
    frame: pd.DataFrame, said: Sequence[str], used: Collection[Hashable], only: Only
) -> list[str]:
    """What a reader should know of the rows that are left out, and of a column that could have said which.

    Args:
        frame: one row per network.
        said: of `standing_of_rows`.
        used: columns that have a part in the scores.
        only: as `standing_of_rows` had it.

    Returns:
        Notes.
    """
    notes = []
    for text in dict.fromkeys(said):
        rows = [row for row, own in enumerate(said) if own == text]
        if text == COPY:
            notes.append(
                f"{len(rows)} rows equal another in every column ({named_rows(rows)}) and are left out: copies "
                "would pass for seeds without any spread"
            )
        elif text:
            notes.append(f"{len(rows)} rows with {text} are left out, as --only asks")
    return notes + [
        note
        for name in frame.columns
        if name not in used and name not in only and (note := _unused_state(frame[name], name))
    ]


def _unused_state(column: pd.Series[Any], name: Hashable) -> str:
    if str(name).strip().lower() not in STATES:
        return ""
    cells = _texts(column)
    values = list(dict.fromkeys(cells))
    if not 1 < len(values) <= _MOST_VALUES:
        return ""
    told = ", ".join(f"{value} {cells.count(value)}" for value in values)
    wanted = _BAD if str(name).strip().lower() in ("diverged", "failed") else _GOOD
    good = max(values, key=lambda value: (value.lower() in wanted, cells.count(value)))
    return (
        f"column {name}: not used ({told}); all rows are ranked, whatever it says: --only {name}={good} ranks "
        "those alone"
    )


def _texts(column: pd.Series[Any]) -> list[str]:
    known: dict[str, str] = {}
    cells = column.tolist()
    for cell in cells:
        if repr(cell) not in known:
            known[repr(cell)] = _text(cell)
    return [known[repr(cell)] for cell in cells]


def _text(cell: object) -> str:
    """A cell as one writes it on a command line: 1 for 1.0, true for True, "" for an empty one."""
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell)).lower()
    found = quantity(pd.Series([cell], dtype=object), "")
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if not found.unreadable and np.isfinite(found.values).all():
        return f"{found.values[0]:.15g}"
    if isinstance(cell, str):
        text = cell.strip()
        return text.lower() if text.lower() in ("true", "false") else text
    return "" if is_empty(cell) else shown(cell)
