"""What the driver asks of a worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapbench.suites.suite import Configuration, ProxyRequest

Record = dict[str, Any]


@dataclass(frozen=True)
class Setup:
    """What all jobs of a run share."""

    run: Path
    data_dir: str | None
    device: str
    samples: int
    loss: str
    measure_seed: int


@dataclass(frozen=True)
class TrainJob:
    """Train a cell. With `restore`, only rewrite its weight file, whose sha256 must come out as given."""

    cell: str
    seed: int
    configuration: Configuration
    description: Record
    restore: str | None = None


@dataclass(frozen=True)
class MeasureJob:
    """Measure proxies, each with the key of its measurement, on a trained cell."""

    cell: str
    seed: int
    configuration: Configuration
    weights_sha256: str
    requests: tuple[tuple[str, ProxyRequest, Record], ...]
