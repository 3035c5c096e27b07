"""What a reader of the scores should know of a researcher's table: nothing of this is an error."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.intake.outcomes import is_better_where_larger, of_training
from gapbench_leaderboard.intake.targets import MINUS
from gapbench_leaderboard.statistics.cells import NumberFormat, is_missing, nearly, remedy
from gapbench_leaderboard.statistics.configurations import axis_codes, group_codes
from gapbench_leaderboard.statistics.quantities import quantity

FEW_LEVELS = 12
DATA_AXES = ("label_noise", "train_size", "data_seed")
"""Names of axes that change the data, in the suites of gapbench."""


def notes(
    frame: pd.DataFrame,
    measures: Sequence[str],
    target: str,
    axes: Sequence[str],
    values: Mapping[str, NDArray[np.float64]],
) -> list[str]:
    """What a reader of the scores should know of the table: nothing of this is an error."""
    found = []
    y = values[target]
    missing = int((~np.isfinite(y)).sum())
    if missing:
        found.append(f"{missing} of {len(frame)} rows have no finite {target} and are left out{_which(y)}")
    known = y[np.isfinite(y)]
    if len(known) < 2:
        found.append(f"fewer than two rows have a finite {target}: there is nothing to rank")
    elif (known == known[0]).all():
        found.append(f"{target} has the same value in every row: there is nothing to rank")
    for name in measures:
        x = values[name][np.isfinite(y)]
        missing = int((~np.isfinite(x)).sum())
        if missing:
            found.append(f"{name}: {missing} of {len(x)} values are not finite and are left out{_which(x)}")
    found += _unclear_levels(frame, axes)
    codes = axis_codes(frame, axes)[np.isfinite(y)]
    configurations = len(np.unique(group_codes(codes))) if len(codes) else 0
    counts = [len(np.unique(codes[:, position])) for position in range(len(axes))]
    for axis, count in zip(axes, counts):
        if count <= 1:
            found.append(f"axis {axis} has a single value")
        elif count > FEW_LEVELS and 2 * count > configurations:
            found.append(
                f"axis {axis} is continuous ({count} values in {configurations} configurations): no two "
                "networks agree on it, so it can be neither held fixed nor conditioned on"
            )
    full = int(np.prod([float(count) for count in counts])) if counts else 0
    if configurations < full:
        found.append(
            f"the grid is incomplete: {configurations} of {full} combinations of the axes occur; cells of the "
            "granulated coefficient with a single configuration are skipped"
        )
    if len(codes) == configurations:
        found.append(
            "one network per configuration: what a seed changes cannot be told, no configuration ceiling"
        )
    alike = pd.DataFrame(
        np.column_stack([codes, *(values[name][np.isfinite(y)] for name in (target, *measures))])
    )
    if alike.duplicated().any():
        found.append(
            f"{int(alike.duplicated().sum())} rows equal another of their configuration in the target and in every "
            "measure: if they are copies and no seeds, leave them out"
        )
    return found


def _which(values: NDArray[np.float64]) -> str:
    empty, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    parts = [*([f"{empty} empty"] if empty else []), *([f"{infinite} infinite"] if infinite else [])]
    return f" ({', '.join(parts)})"


def _unclear_levels(frame: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Levels of an axis that might have been meant for nothing at all."""
    found = []
    for axis in axes:
        words = sorted({cell for cell in frame[axis].tolist() if isinstance(cell, str) and is_missing(cell)})
        texts = [cell for cell in frame[axis].tolist() if isinstance(cell, str) and not is_missing(cell)]
        if (
            texts
            and all(map(nearly, texts))
            and "--" in remedy(texts[0])
            and NumberFormat().read(texts[0]) is None
        ):
            found.append(f"axis {axis}: {texts[0]!r} is read as a word; {remedy(texts[0])}")
        empty = int(frame[axis].isna().sum())
        if words:
            found.append(f"axis {axis}: {', '.join(map(repr, words))} read as levels like any other")
        if empty:
            found.append(f"axis {axis}: {empty} empty cells are a level of their own")
    return found


def renamed_headings(frame: pd.DataFrame) -> list[str]:
    """pandas calls the second of two columns `m` `m.1` and says nothing."""
    found = []
    for name in map(str, frame.columns):
        renamed = re.fullmatch(r"(.+)\.[1-9]", name)
        if renamed and renamed[1] in frame.columns:
            found.append(
                f"columns {renamed[1]!r} and {name!r}: pandas names the second of two columns called "
                f"{renamed[1]!r} so; both are what the file says, under names that only one of them had"
            )
    return found


def unnamed_problem(frame: pd.DataFrame, axes: Sequence[str], problem: Sequence[str]) -> list[str]:
    """Axes that sound as if they changed the data, where none is said to."""
    varied = [axis for axis in axes if len(np.unique(axis_codes(frame, [axis]))) > 1]
    found = [str(axis) for axis in varied if str(axis).lower() in DATA_AXES]
    if problem or not found:
        return []
    return [
        f"axis {', '.join(found)}: sounds as if it changed the data that networks learned from; if so, name it as "
        "part of the problem (--problem), so that only networks of the same data are compared"
    ]


def turned_target(target: str) -> list[str]:
    """A target that sounds as if larger values were better: tau then has the other sign."""
    first, minus, second = str(target).partition(MINUS)
    if minus and not (is_better_where_larger(first) and of_training(second)):
        return []
    if not is_better_where_larger(first if minus else target):
        return []
    return [
        f"target {target}: sounds as if larger were better; it is taken as larger is worse, like a gap or an "
        "error, so that every tau has the other sign if it is not"
    ]


def unnamed_width(axes: Sequence[str], width: str | None) -> list[str]:
    """An axis that sounds like a width, where none is said to be it."""
    found = [str(axis) for axis in axes if "width" in str(axis).lower()]
    if width is not None or not found:
        return []
    return [
        f"axis {', '.join(found)}: if it is the networks' width, name it (--width {found[0]}): then the width is a "
        "baseline, and measures that order networks as their width does are marked"
    ]


def errors_behind(frame: pd.DataFrame, target: str, has_part: Collection[object]) -> tuple[str | None, str]:
    """The column of test errors where nobody named one, and what is said of it.

    Returns:
        `test_error` where the table has such fractions and they have no other part, else None.
    """
    name = "test_error"
    if name in frame.columns and name not in has_part:
        found = quantity(frame[name], name, frame.attrs.get("numbers"))
        values = found.values[np.isfinite(found.values)]
        if not found.unreadable and len(values) == len(frame) and ((values >= 0) & (values <= 1)).all():
            return name, f"the size of the test noise is that of the column {name}"
    return None, (
        f"the size of the test noise is that of a test error of {target}, as if the training error were 0; "
        "--test-error names the column of test errors"
    )
