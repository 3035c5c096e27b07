"""Names of the columns of population.csv, and which of them an axis of a suite may share."""

from __future__ import annotations

from collections.abc import Iterable

CELL_COLUMNS = [
    "cell",
    "task",
    "family",
    "width",
    "seed",
    "status",
    "train_error",
    "test_error",
    "gap",
    "loss_gap",
    "parameters",
    "train_size",
    "test_size",
]
EXTRA_COLUMNS = [
    "train_loss",
    "test_loss",
    "epochs",
    "steps",
    "seconds",
    "source",
    "shift",
    "device",
    "reason",
]
NOISY_GAP = "gap_noisy"
"""The column of population.csv that stands behind the others where training labels are noisy."""
RECORDED_AXES = ("width", "train_size", "test_size")
"""Columns that are axes as they stand: what was asked for is what was recorded."""
OF_THE_TEST = ("test_size", "test_copies")
"""Options of tasks that change nothing of the data that is learned from."""
DATA = ("label_noise", "train_size", "data_seed")
"""What every task calls its data axes; the axes of networks trained elsewhere are taken at their word."""
DERIVED = ("log(parameters)", NOISY_GAP)
"""Names that the scores give to quantities of their own."""


def taken(names: Iterable[str]) -> list[str]:
    """Those of `names` that stand for something else in population.csv, so that no axis may be called so."""
    reserved = {*CELL_COLUMNS, *EXTRA_COLUMNS, *DERIVED} - set(RECORDED_AXES)
    return [name for name in names if name in reserved]
