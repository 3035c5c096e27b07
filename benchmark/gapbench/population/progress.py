"""What the driver tells while it works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gapbench.runs.records import StoredMeasurement, TrainedCell


class Progress(Protocol):
    """Hears of every finished result, in the process that called `run`."""

    def about(self, axes: Sequence[str]) -> None:
        """The names that vary in the run, by which its networks are told apart; before anything else."""

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """How many cells and measurements there are in all, and how many were there before."""

    def trained(self, record: TrainedCell) -> None:
        """A cell was trained, or failed."""

    def measured(self, record: StoredMeasurement) -> None:
        """A proxy was measured, or failed."""

    def left(self, seconds: float | None) -> None:
        """About how long the rest will take, None as long as that is not known; every few seconds."""

    def message(self, text: str) -> None:
        """Something that a person should know."""


class Silent:
    """A `Progress` that says nothing."""

    def about(self, axes: Sequence[str]) -> None:
        """Nothing."""

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """Nothing."""

    def trained(self, record: TrainedCell) -> None:
        """Nothing."""

    def measured(self, record: StoredMeasurement) -> None:
        """Nothing."""

    def left(self, seconds: float | None) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""
