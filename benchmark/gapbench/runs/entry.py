"""An entry: a submitted proxy with its source, what it was measured on, its values and scores, who verified it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from gapbench.proxies.results import MeasurementStatus
from gapbench.sandbox.limits import Limits

FORMAT: Literal[1] = 1
RULES = 1
"""Version of RULES.md that a submission follows."""
Option = bool | int | float | str | None


@dataclass(frozen=True, kw_only=True)
class Score:
    """A coefficient with its 95 % interval; None where it is not defined."""

    estimator: str = "tau"
    target: str = "gap"
    value: float | None
    low: float | None
    high: float | None
    models: int = 0


@dataclass(frozen=True, kw_only=True)
class ScoreRow:
    """A row of scores.csv, without the proxy's name."""

    task: str = ""
    family: str = ""
    target: str
    estimator: str
    value: float | None
    low: float | None = None
    high: float | None = None
    models: int = 0


@dataclass(frozen=True, kw_only=True)
class EntryValue:
    """The measurement on one network; `weights` is the checksum of those that it was made on.

    `coverage` and `converged` are what its details say (`gapbench.runs.details`).
    """

    status: MeasurementStatus
    value: float | None = None
    standard_error: float | None = None
    reason: str | None = None
    coverage: str | None = None
    converged: bool | None = None
    weights: str | None = None


@dataclass(frozen=True, kw_only=True)
class EntryPopulation:
    """Which population an entry was measured on, as `gapbench.runs.identity.Identity` says it."""

    fingerprint: str
    networks: int | None = None
    planned: int | None = None
    gapbench: tuple[str, ...] | None = ()
    devices: tuple[str, ...] | None = ()
    date: str | None = ""
    complete: bool | None = None
    words: str | None = ""


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What came of measuring an entry again: `by` whom, in which `role` (author, another, unknown), on what.

    On the same networks: how many of the `networks` were `differing`, with `examples`. On fresh networks: the
    `claimed` score and the `fresh` one, or why the proxy was `refused`.
    """

    outcome: str
    kind: str | None = ""
    population: EntryPopulation | None = None
    networks: int | None = None
    differing: int | None = None
    examples: tuple[str, ...] = ()
    claimed: Score | None = None
    fresh: Score | None = None
    refused: tuple[str, ...] = ()
    text: str | None = ""
    by: str | None = ""
    role: str | None = ""
    gapbench: str | None = ""
    date: str | None = ""


@dataclass(frozen=True, kw_only=True)
class SuiteName:
    """The suite of the population."""

    name: str
    version: int


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds and bytes that measuring took; None where nothing was measured."""

    seconds_median: float | None = None
    seconds_total: float | None = None
    peak_memory_max: float | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One submission.

    Attributes:
        id: 16 hexadecimal digits, a hash of name, source, options and suite.
        name: on the board; `label` is the name of its row, with the `version` where there are several.
        proxy: the name that the source registers.
        limits: of time, memory and output that it was measured with.
        options: those measured with, defaults included.
        seed: 32 hexadecimal digits, drawn at submission.
        statuses: how many measurements have each status.
        claimed: tau with the gap, mean over tasks.
        values: by cell.
        source: the text of the file, whose sha256 is `source_sha256`.
    """

    format: Literal[1] = FORMAT
    id: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z", description="16 hexadecimal digits")]
    name: str
    label: str
    version: int
    proxy: Annotated[
        str,
        Meta(
            pattern=r"^[a-z][a-z0-9_]{0,63}\Z",
            description="a valid name: lower-case letters, digits and '_', a letter first, at most 64",
        ),
    ]
    summary: str | None = ""
    reference: str | None = ""
    higher_means: Literal["worse", "better"]
    authors: str | None = ""
    paper: str | None = ""
    sandbox: str | None = ""
    rules: int = RULES
    gapbench: str | None = ""
    submitted: str | None = ""
    source_sha256: str
    options: Mapping[str, Option]
    default_options: Mapping[str, Option]
    seed: str
    limits: Limits
    suite: SuiteName | None = None
    population: EntryPopulation
    environment: Mapping[str, object] | None = None
    statuses: Mapping[str, int]
    cost: Cost | None = None
    claimed: Score
    scores: tuple[ScoreRow, ...]
    values: Mapping[str, EntryValue]
    verifications: tuple[Verification, ...]
    source: str
    further: Mapping[str, object] = field(default_factory=dict)
    """Keys that this version does not know, kept as they are."""
