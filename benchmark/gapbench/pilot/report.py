"""What a pilot says: what the whole suite costs, keeps and can decide, and what to change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gapbench.pilot.costs import FamilyCost
from gapbench_base.durations import duration
from gapbench_leaderboard.scoring.decision import PopulationDecision
from gapbench_leaderboard.scoring.decision.forecast import Forecast
from gapbench_leaderboard.scoring.decision.gates import (
    FEWEST_CONFIGURATIONS,
    LEAST_KEPT_OF_LEVEL,
    LEAST_POWER,
    LEAST_RATIO,
    MOST_OF_AXIS,
    MOST_OF_SEEDS,
    WIDEST_HALF,
    kept_words,
)
from gapbench_leaderboard.scoring.decision.tree import Kept
from gapbench_leaderboard.scoring.decision.words import decision_values
from gapbench_leaderboard.scoring.resolving import LARGEST_DIFFERENCE
from gapbench_leaderboard.statistics.proportions import wilson

MOST_NAMED = 6
BUSY = 1.3
"""From this load for each core on, times are said to be those of a busy machine."""


@dataclass(frozen=True)
class PilotReport:
    """A pilot of `networks` networks of a suite that plans `planned`, on `workers` workers of a `device`."""

    suite: str
    networks: int
    planned: int
    workers: int
    device: str
    costs: tuple[FamilyCost, ...]
    overhead_seconds: float
    """In which no network is worked on; see `costs.overhead`."""
    cores: int
    load: float
    """Processes that wanted to work at its end (load average); NaN where the system does not tell."""
    database_bytes: float
    kept: float
    """Share of the planned networks that will be ranked: that of each task and family, by their planned numbers."""
    forecast: Forecast
    decision: PopulationDecision

    @property
    def hours(self) -> float:
        """To train and measure all planned networks."""
        return math.fsum([self.overhead_seconds / 3600, *(own.hours for own in self.costs)])

    @property
    def bytes(self) -> float:
        """On disk: weights and database."""
        return math.fsum(own.bytes for own in self.costs) + self.database_bytes


def report_values(report: PilotReport) -> Mapping[str, Any]:
    """The report as dictionaries and lists, with the intervals of what was kept and what to change."""
    values = asdict(report) | {"decision": decision_values(report.decision)}
    levels = [
        {**said, "low": interval[0], "high": interval[1]}
        for said, own in zip(values["decision"]["levels"], report.decision.levels)
        for interval in [wilson(own.kept, own.networks)]
    ]
    values["decision"] = {**values["decision"], "levels": levels}
    return {**values, "hours": report.hours, "bytes": report.bytes, "advice": advice(report)}


def summary(report: PilotReport) -> list[tuple[str, str]]:
    """What is predicted of the whole suite: a name and words each."""
    found, now = report.forecast, report.decision
    low, high = wilson(now.kept, now.networks)
    busy = report.device == "cpu" and report.load > BUSY * report.cores
    other = f"; measured beside other work (load {report.load:.1f} on {report.cores} cores)" if busy else ""
    return [
        (
            "time",
            f"{duration(3600 * report.hours)} to train and measure, with {report.workers} workers "
            f"({report.device}); of it {duration(report.overhead_seconds)} for starting, trials and waiting{other}",
        ),
        ("disk", f"{size(report.bytes)} of weights and measurements"),
        (
            "kept",
            f"{number(report.kept, 2)} of the networks (in the pilot {now.kept} of {now.networks}, "
            f"95 % interval {low:.2f} to {high:.2f})",
        ),
        ("half-width", f"± {number(found.half_width, 3)} of a typical headline (at most {WIDEST_HALF})"),
        (
            "difference",
            "none of two headlines can be significant"
            if found.smallest_difference > LARGEST_DIFFERENCE
            else f"{number(found.smallest_difference, 3)} is the smallest significant one of two headlines",
        ),
        (
            "planted",
            f"proxies planted at 0.2 and 0.4 are told apart in {share(found.planted.alone)} of plantings (at least "
            f"{LEAST_POWER:.0%}), among all proxies at once in {share(found.planted.among)}",
        ),
    ]


def advice(report: PilotReport) -> list[str]:
    """What to change before the whole suite is trained."""
    return [*_of_levels(report.decision), *_of_strata(report.decision), *_of_resolution(report)]


def _of_levels(decision: PopulationDecision) -> list[str]:
    low = [own for own in decision.levels if own.share < LEAST_KEPT_OF_LEVEL]
    low.sort(key=lambda own: (own.by != "family, width", own.share, -own.networks, own.level))
    said = [f"{kept_words(own)} (95 % interval {_interval(own)})" for own in low]
    more = [f"and {len(said) - MOST_NAMED} more levels of which less than 0.9 are kept"]
    return said[:MOST_NAMED] + (more if len(said) > MOST_NAMED else [])


def _interval(own: Kept) -> str:
    low, high = wilson(own.kept, own.networks)
    return f"{low:.2f} to {high:.2f}"


def _of_strata(decision: PopulationDecision) -> list[str]:
    found: list[str] = []
    axes: dict[str, list[str]] = {}
    for own in decision.strata:
        for axis, part in own.shares.items():
            if part > MOST_OF_AXIS and own.configurations >= FEWEST_CONFIGURATIONS:
                axes.setdefault(axis, []).append(f"{min(part, 1.0):.2f} in {own.name}")
    for axis, places in axes.items():
        found.append(f"{axis} decides alone ({'; '.join(places)}): narrow its range, or vary more beside it")
    seeds = [
        f"{min(own.seeds, 1.0):.2f} in {own.name}" for own in decision.strata if own.seeds >= MOST_OF_SEEDS
    ]
    if seeds:
        found.append(
            f"seeds explain much of the variance ({'; '.join(seeds)}): vary more, or test on more examples"
        )
    quiet = [f"{own.ratio:.1f} in {own.name}" for own in decision.strata if own.ratio < LEAST_RATIO]
    if quiet:
        found.append(
            f"the spread is less than {LEAST_RATIO:g} times the test noise ({'; '.join(quiet)}): test on more "
            "examples, or vary more"
        )
    return found


def _of_resolution(report: PilotReport) -> list[str]:
    half = report.forecast.half_width
    if not half > WIDEST_HALF:
        return []
    needed = math.ceil(report.planned * (half / WIDEST_HALF) ** 2)
    now = f"with {report.planned} it is {half:.3f}"
    return [f"for a half-width of {WIDEST_HALF} about {needed} networks are needed, {now}"]


def size(count: float) -> str:
    """Bytes in words."""
    if not math.isfinite(count):
        return "unknown size"
    power, unit = next((p for p in ((1, "kB"), (2, "MB")) if count < 1000 ** (p[0] + 1)), (3, "GB"))
    return f"{count / 1000**power:.1f} {unit}"


def number(value: float, digits: int) -> str:
    """A number, or `not known`."""
    return f"{value:.{digits}f}" if math.isfinite(value) else "not known"


def share(value: float) -> str:
    """A share in percent, or `not known`."""
    return f"{value:.0%}" if math.isfinite(value) else "not known"


HEADINGS = ("task", "family", "networks", "train, s", "measure, s", "in all", "weights")
"""Of `family_rows`."""


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows under `HEADINGS` as indented lines."""
    every = [HEADINGS, *rows]
    widths = [max(len(row[k]) for row in every) for k in range(len(HEADINGS))]
    lines = []
    for row in every:
        cells = [f"{cell:<{w}}" if k < 2 else f"{cell:>{w}}" for k, (cell, w) in enumerate(zip(row, widths))]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines


def family_rows(costs: Sequence[FamilyCost]) -> list[tuple[str, str, str, str, str, str, str]]:
    """A row of words for each task and family."""
    return [
        (
            own.task,
            own.family,
            str(own.networks),
            number(own.train_seconds, 2),
            number(own.measure_seconds, 2),
            duration(3600 * own.hours),
            size(own.bytes),
        )
        for own in costs
    ]
