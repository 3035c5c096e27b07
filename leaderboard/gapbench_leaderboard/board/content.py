"""The parts of a board's document, which `data.json` holds and the page, Markdown and mirror are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypedDict

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Cells = list[Json]
"""Of a column; None where missing."""


class Coded(TypedDict):
    """Text that repeats: distinct texts, and for each cell the number of its own, -1 where missing."""

    names: list[str]
    codes: list[int]


Columns = dict[str, Cells | Coded]
"""A table by column."""


class PopulationSaid(TypedDict, total=False):
    """Which networks a board is about."""

    fingerprint: str
    words: str
    networks: int
    planned: int
    complete: bool
    gapbench: str
    devices: list[str]
    date: str


class BoardSuite(TypedDict, total=False):
    """What was asked, and with what it was made."""

    name: str
    version: int
    fingerprint: str
    summary: str
    planned: int
    samples: int
    made_with: list[str]
    population: PopulationSaid
    of_table: bool
    """Whether it is a researcher's own table, which says neither families nor what converged."""


class BoardAudit(TypedDict):
    """What became of a proxy's value under one transformation; see `board.building.build`."""

    kind: str
    strength: float | None
    relative_change: float | None
    rank_correlation: float | None
    verdict: str
    reason: NotRequired[str | None]


class Audit(TypedDict):
    """Of invariance."""

    networks: NotRequired[int]
    seed: NotRequired[int]
    proxies: Mapping[str, Sequence[BoardAudit]]


class BoardVerification(TypedDict, total=False):
    """One attempt to bear out a submission."""

    outcome: str
    kind: str
    date: str
    by: str
    role: str


class StandingSaid(TypedDict):
    """See `board.standing`."""

    kind: str
    words: str


class DoubtsSaid(TypedDict):
    """See `board.doubts`."""

    covered: int
    partly: int
    missing: int
    ascents: int
    unconverged: int
    marks: dict[str, str]


class SourceSaid(TypedDict):
    """A publication that a reference names; see `board.bibliography`."""

    text: str
    url: str
    bibtex: str


class BoardEntry(TypedDict, total=False):
    """What was measured, under which label, with which options; see `board.building.build`."""

    label: str
    made_by_scorer: bool
    baseline: bool
    proxy: str
    version: int
    summary: str
    reference: str | None
    sources: list[SourceSaid]
    higher_means: str
    options: dict[str, Json]
    of_table: bool
    submitted: bool
    verified: bool
    verifications: list[BoardVerification]
    authors: str
    source_sha256: str
    measured_on: dict[str, Json]
    other_population: str
    standing: StandingSaid
    doubts: DoubtsSaid
    audit: list[BoardAudit]
    audit_mark: str
    verdicts: dict[str, list[str]]


class PageColumn(TypedDict):
    """A column of the page's ranking; see `board.columns.page_columns`."""

    key: str
    title: str
    about: str
    kind: NotRequired[str]
    estimator: NotRequired[str]
    whole: NotRequired[bool]
    text: NotRequired[bool]
    ascending: NotRequired[bool]
    sort: NotRequired[str]


class PageMark(TypedDict):
    """A mark of the page; see `board.marks.page_marks`."""

    name: str
    about: str
    estimator: NotRequired[str]
    whole: NotRequired[bool]
    at_least: NotRequired[float | None]
    below: NotRequired[float | None]
    of_baselines: NotRequired[bool]


class PageHeatMap(TypedDict):
    """A choice of the page's heat map; see `board.columns.heat_maps`."""

    key: str
    title: str
    about: str
    estimator: str
    columns: Literal["axis", "task", "family"]
    single_tasks: bool


class PageTest(TypedDict):
    """A test whose outcome the head of the page tells; see `board.verdicts.HEAD`."""

    estimator: str
    one: str
    many: str
    about: str
    against: NotRequired[str]


class PageDifference(TypedDict):
    """The estimators of the difference of two proxies: `<estimator>:<other>`."""

    value: str
    p: str


class Agreement(TypedDict):
    """See `board.agreement`."""

    proxies: list[str]
    tau: list[list[float | None]]


class KeptSaid(TypedDict):
    """See `scoring.decision.tree.Kept`."""

    by: str
    level: str
    kept: int
    networks: int
    share: float | None


class StratumSaid(TypedDict):
    """See `scoring.decision.tree.Stratum`; numbers may be None, or the text "inf"."""

    name: str
    task: str
    problem: str
    family: str
    networks: int
    configurations: int
    spread: Json
    noise: Json
    ratio: Json
    between_seeds: Json
    seeds: Json
    shares: dict[str, Json]


class GateSaid(TypedDict):
    """See `scoring.decision.tree.Gate`."""

    name: str
    passed: bool | None
    outcome: str
    words: str


class DecisionSaid(TypedDict):
    """See `scoring.decision.tree.PopulationDecision`."""

    target: str
    networks: int
    kept: int
    levels: list[KeptSaid]
    strata: list[StratumSaid]
    resolution: dict[str, Json]
    survivorship: dict[str, Json]
    gates: list[GateSaid]


class Content(TypedDict):
    """The whole document; see `board.document.document`."""

    format: int
    suite: BoardSuite
    notes: list[str]
    axes: list[str]
    problem: list[str]
    within: str
    targets: list[str]
    tasks: list[str]
    families: list[str]
    columns: list[PageColumn]
    marks: list[PageMark]
    heat_maps: list[PageHeatMap]
    meanings: dict[str, str]
    tests: list[PageTest]
    difference: PageDifference
    oracle: str
    proxies: list[BoardEntry]
    agreement: Agreement
    decision: DecisionSaid
    population: Columns
    measurements: Columns
    scores: Columns
