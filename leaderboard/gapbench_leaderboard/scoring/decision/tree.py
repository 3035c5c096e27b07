"""What a population can decide, as frozen data. NaN is what is not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NAN = float("nan")


@dataclass(frozen=True)
class Kept:
    """Networks of one level that are ranked."""

    by: str
    """`task`, `family`, `width`, an axis, or `family, width`."""
    level: str
    kept: int
    networks: int

    @property
    def share(self) -> float:
        """Of all its networks."""
        return self.kept / self.networks if self.networks else NAN


@dataclass(frozen=True)
class Stratum:
    """The target among the networks of one task, problem and family that are ranked."""

    task: str
    problem: str
    family: str
    networks: int
    configurations: int
    spread: float
    """Standard deviation over configurations, of means over seeds."""
    noise: float
    """Standard deviation of a network's value over test sets of its size (root mean square over networks)."""
    between_seeds: float
    """Standard deviation between seeds of one configuration."""
    seeds: float
    """Share of the variance of one network that lies between seeds."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Axis -> its share of the variance of one network."""

    @property
    def ratio(self) -> float:
        """Spread over noise; infinite without noise."""
        if self.noise == 0:
            return float("inf") if self.spread > 0 else NAN
        return self.spread / self.noise

    @property
    def name(self) -> str:
        """In words."""
        return ", ".join(part for part in (self.task, self.problem, self.family) if part) or "all networks"


@dataclass(frozen=True)
class Resolution:
    """Which headlines and differences can be told, over all tasks."""

    competing: int
    half_width: float
    """Of the headline's interval, the median over proxies that are ranked."""
    smallest_difference: float
    rank_groups: int
    """The most proxies of which every two are told apart by their sets of ranks."""
    planted_alone: float
    planted_among: float
    planned: int | None = None
    planned_half_width: float = NAN
    """With the networks planned, by the root of their number."""
    planned_smallest_difference: float = NAN


@dataclass(frozen=True)
class Survivor:
    """A proxy's headline as it is ranked, and with all networks kept that were measured."""

    proxy: str
    tau: float
    tau_all: float


@dataclass(frozen=True)
class Survivorship:
    """What leaving networks out does: of the best proxy, and where the headline changes most."""

    left_out: int
    best: Survivor | None = None
    most: Survivor | None = None


@dataclass(frozen=True)
class Gate:
    """One verdict: passed, not passed, or not known (None), in words."""

    name: str
    passed: bool | None
    words: str

    @property
    def outcome(self) -> str:
        """`passed`, `problem` or `not known`."""
        return "not known" if self.passed is None else "passed" if self.passed else "problem"


@dataclass(frozen=True)
class PopulationDecision:
    """What a population can decide about one target."""

    target: str
    networks: int
    kept: int
    levels: tuple[Kept, ...]
    strata: tuple[Stratum, ...]
    resolution: Resolution
    survivorship: Survivorship
    gates: tuple[Gate, ...] = ()
