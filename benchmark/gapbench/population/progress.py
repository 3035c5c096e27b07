"""What the driver tells while it works."""

from __future__ import annotations

from typing import Protocol

from gapbench.runs.records import StoredMeasurement, TrainedCell


class Progress(Protocol):
    """Hears of every finished result, in the process that called `run`."""

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """How many cells and measurements there are in all, and how many were there before."""

    def trained(self, record: TrainedCell) -> None:
        """A cell was trained, or failed."""

    def measured(self, record: StoredMeasurement) -> None:
        """A proxy was measured, or failed."""

    def message(self, text: str) -> None:
        """Something that a person should know."""


class Silent:
    """A `Progress` that says nothing."""

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None:
        """Nothing."""

    def trained(self, record: TrainedCell) -> None:
        """Nothing."""

    def measured(self, record: StoredMeasurement) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""
