"""What is written down of a trained network and of a measurement: one row each of the run database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gapbench.proxies.results import Measurement, MeasurementStatus
from gapbench_base.json_values import plain

CellStatus = Literal["converged", "not_converged", "diverged", "failed"]
MEASURABLE: tuple[CellStatus, ...] = ("converged", "not_converged")
"""States of a trained network in which proxies are measured."""
CALIBRATED = "calibrated"
"""In the description of a measurement: the options whose numbers are those of the problem and family."""
OF_A_NETWORK = ("repeat", "sibling", CALIBRATED)
"""What differs in such a description between networks and repeats, beside the network."""
LONGEST_LIST = 200
"""Longer lists, such as one value per example, are left out of a measurement's details."""


@dataclass(frozen=True, kw_only=True)
class TrainedCell:
    """What came of training one cell.

    Attributes:
        cell: its key, a hash of the description.
        description: all that the network depends on, as JSON.
        seed: the seed that the suite names; `width` the multiplier.
        status: `converged`, `not_converged`, `diverged` or `failed`; `reason` says why, where there is something
            to say.
        train_error: fraction of wrong training labels in eval mode, without augmentation; `test_error` likewise,
            `gap` the test error minus the train error, `loss_gap` the same of `test_loss` and `train_loss` (nats).
        epochs: epochs trained, in `steps` steps and `seconds` seconds; `history` the training loss after each, as
            JSON.
        train_size: number of examples trained on, without those held out to choose an epoch.
        source: of the data (`gapbench_tasks.Task.source`); `shift` 1 where training and test inputs differ in
            distribution.
        train_correct: packed bits, whether each example is classified rightly; `test_correct` likewise.
        test_groups: the image that each test example shows, where several show one
            (`gapbench.runs.image_groups`); None where each shows its own.
        weights_sha256: of the weight file of `weights_bytes` bytes.
        device: kind of device trained on.
        engine: by what it was trained (`gapbench.population.engines`); None in runs of before there were several.
        company: keys of all networks trained with it, in their order, as JSON, where its numbers depend on them.
        attempt: 0, or how often the cell had failed before; `finished` when (seconds of the epoch). The store sets
            both.
    """

    cell: str
    description: str
    task: str
    family: str
    width: float
    seed: int
    status: CellStatus
    reason: str = ""
    train_error: float | None = None
    test_error: float | None = None
    gap: float | None = None
    loss_gap: float | None = None
    train_loss: float | None = None
    test_loss: float | None = None
    parameters: int | None = None
    train_size: int | None = None
    test_size: int | None = None
    epochs: int | None = None
    steps: int | None = None
    seconds: float | None = None
    history: str | None = None
    source: str | None = None
    shift: int | None = None
    train_correct: bytes | None = None
    test_correct: bytes | None = None
    weights_sha256: str | None = None
    weights_bytes: int | None = None
    device: str | None = None
    engine: str | None = None
    company: str | None = None
    test_groups: str | None = None
    attempt: int = 0
    finished: float | None = None

    @property
    def measurable(self) -> bool:
        """Whether proxies are measured on it."""
        return self.status in MEASURABLE


@dataclass(frozen=True, kw_only=True)
class StoredMeasurement:
    """One proxy's measurement on one network.

    Attributes:
        measurement: its key, a hash of the description.
        cell: key of the network.
        proxy: registered name; `label` is the name of its row on the board.
        description: all that the value depends on, as JSON.
        value: None unless the status is `ok`; `standard_error` covers the proxy's own sampling.
        seconds: what it cost, with `peak_memory` bytes.
        details: what the proxy says beside its value, as JSON.
        attempt: see `TrainedCell`, as `finished`.
    """

    measurement: str
    cell: str
    proxy: str
    label: str
    description: str
    status: MeasurementStatus
    reason: str = ""
    value: float | None = None
    standard_error: float | None = None
    seconds: float | None = None
    peak_memory: float | None = None
    details: str = "{}"
    device: str | None = None
    attempt: int = 0
    finished: float | None = None


def stored_measurement(
    found: Measurement, *, key: str, cell: str, label: str, description: Mapping[str, object], device: str
) -> StoredMeasurement:
    """The record of a measurement, wherever it was made.

    Args:
        found: what measuring gave.
        key: the hash of `description`.
        cell: key of the network.
        label: the row's name on the board.
        description: all that the value depends on.
        device: kind of device measured on.

    Returns:
        The record, its details without long lists.
    """
    return StoredMeasurement(
        measurement=key,
        cell=cell,
        proxy=found.proxy,
        label=label,
        description=json_text(description),
        status=found.status,
        reason=found.reason,
        value=found.value,
        standard_error=found.standard_error,
        seconds=found.seconds,
        peak_memory=found.peak_memory,
        details=details_text(found.details),
        device=device,
    )


def details_text(details: Mapping[str, object]) -> str:
    """A measurement's details as the JSON text that a run keeps, without lists of many examples."""
    short = {k: v for k, v in details.items() if not (isinstance(v, list) and len(v) > LONGEST_LIST)}
    return json.dumps(plain(short), sort_keys=True, default=str)


def json_text(description: Mapping[str, object]) -> str:
    """A description as it is stored: JSON with sorted keys."""
    return json.dumps(description, sort_keys=True)


def checksums_of(cells: Iterable[TrainedCell]) -> dict[str, str | None]:
    """Checksums of the weights of the networks that proxies are measured on, by cell."""
    return {cell.cell: cell.weights_sha256 for cell in cells if cell.measurable}
