"""The column to be predicted: one of the table, or the difference of two."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gapbench_base.errors import TableError
from gapbench_leaderboard.intake.outcomes import RESULTS, is_outcome, of_training
from gapbench_leaderboard.statistics.quantities import quantity

MINUS = " - "
_ERRORS = ("error", "err", "loss", "risk", "nll", "ce", "mse")


@dataclass(frozen=True)
class Target:
    """A target, the columns that it is made of, and the test errors behind it where they are known."""

    name: str
    columns: tuple[str, ...]
    errors: str | None = None


def with_target(frame: pd.DataFrame, target: str, test_errors: bool = False) -> tuple[pd.DataFrame, Target]:
    """The table with the target, where it is the difference of two columns: `test_error - train_error`.

    A column whose name is the whole text comes first. With `test_errors`, a difference of accuracies brings a
    column of test errors along (1 - the accuracy that is subtracted): the size of the test noise is that of these.

    Args:
        frame: of `read_table`; its attributes stay.
        target: name of a column, or two names with " - " between.
        test_errors: whether test errors are wanted.

    Returns:
        The table, and what the target is.

    Raises:
        TableError: if there is no such column; the message names columns that a gap can be made of.
    """
    if target in frame.columns:
        return frame, Target(target, (target,))
    first, minus, second = (part.strip() for part in target.partition(MINUS))
    if not minus:
        raise TableError(f"the table has no column {target!r}{_made_of(frame)}")
    for name in (first, second):
        if name not in frame.columns:
            raise TableError(f"--target {target!r}: the table has no column {name!r}{_made_of(frame)}")
    parts = []
    for name in (first, second):
        found = quantity(frame[name], name, frame.attrs.get("numbers"))
        if found.unreadable:
            raise TableError(found.complaint(name, frame.attrs.get("numbers")))
        parts.append(found.values)
    made = frame.assign(**{target: parts[0] - parts[1]})
    errors = None
    if test_errors and re.search(r"err(or)?s?(?![a-z])", first.lower()) and not of_training(first):
        errors = first
    elif (
        test_errors and re.search(r"acc(urac(y|ies)|s)?(?![a-z])", second.lower()) and not of_training(second)
    ):
        errors = f"1 - {second}"
        made = made.assign(**{errors: 1.0 - parts[1]})
    made.attrs = dict(frame.attrs)
    return made, Target(target, tuple(dict.fromkeys((first, second))), errors)


def _made_of(frame: pd.DataFrame) -> str:
    """What a gap can be made of, or the columns that there are."""
    names = [str(name) for name in frame.columns]
    numbers = [name for name in names if np.isfinite(quantity(frame[name], name).values).any()]
    tests = [name for name in numbers if is_outcome(name) and not of_training(name)]
    trains = [name for name in numbers if of_training(name) and any(word in name.lower() for word in RESULTS)]
    for test in tests:
        for train in trains:
            if _is_error(test) and _is_error(train) and _kind(test) == _kind(train):
                return f"; --target '{test} - {train}' takes the difference of two that it has"
            if "acc" in test.lower() and "acc" in train.lower():
                return f"; --target '{train} - {test}' takes the difference of two that it has"
    listed = f"{', '.join(names[:20])}{', ...' if len(names) > 20 else ''}"
    return f"; it has {listed}; --target names the one to be predicted"


def _is_error(name: str) -> bool:
    return any(word in name.lower() for word in _ERRORS)


def _kind(name: str) -> str:
    return next(word for word in _ERRORS if word in name.lower())
