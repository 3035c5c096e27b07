"""The gap on test labels as noisy as the training labels, where a task says how many classes it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gapbench.runs.known import Known
from gapbench.runs.records import TrainedCell
from gapbench_tasks.selection import noisy_error_slope, noisy_test_error, wrong_share


def noise_of(description: Mapping[str, Any], row: TrainedCell, known: Known) -> tuple[float, int] | None:
    """Share of wrong training labels and number of classes; None where they are not known."""
    if "imported" in description:
        return None
    task, options = description["task"]["name"], description["task"]["options"]
    share = {**known.task_options(task), **options}.get("label_noise")
    classes = known.classes(task, options)
    if not isinstance(share, int | float) or classes is None or classes < 2:
        return None
    return (wrong_share(share, row.train_size) if row.train_size else float(share)), classes


def noisy_gap(description: Mapping[str, Any], row: TrainedCell, known: Known) -> float | None:
    """Expected error on noisy test labels minus train error; None where either is unknown."""
    noise = noise_of(description, row, known)
    if noise is None or row.test_error is None or row.train_error is None:
        return None
    return noisy_test_error(row.test_error, *noise) - row.train_error


def slope(description: Mapping[str, Any], row: TrainedCell, known: Known) -> float | None:
    """Change of `noisy_gap` with the test error: what test noise is multiplied by."""
    noise = noise_of(description, row, known)
    return None if noise is None else noisy_error_slope(*noise)
