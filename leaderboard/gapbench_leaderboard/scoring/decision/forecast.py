"""What a population that is not trained yet could resolve, from its layout and a few of its networks.

Errors of the headline fall with the root of the number of configurations only where groups are large; in groups of
few networks the pairs matter, the seeds of one configuration, and how many groups there are. So the layout that is
planned is filled with simulated targets and proxies, and the board's own statistics are taken of them; the same
is done with the layout that was trained. What was measured there, over its simulation, says how real proxies differ
from simulated ones; the fewer configurations say so, the less it is believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from gapbench_leaderboard.scoring.decision.tree import NAN, PopulationDecision
from gapbench_leaderboard.scoring.resolving import ToldApart, common_noise, smallest_difference, told_apart
from gapbench_leaderboard.scoring.scope import Scope, StudySet
from gapbench_leaderboard.scoring.study import Study, identifying, measured, studies
from gapbench_leaderboard.statistics.configurations import axis_codes, group_codes
from gapbench_leaderboard.statistics.intervals import interval
from gapbench_leaderboard.statistics.planting import noise_scale, planted
from gapbench_leaderboard.statistics.resampling import generator

DRAWS = 4
"""Simulated populations over which is averaged."""
FEWEST, MOST = 0.02, 0.9
"""Between these the headlines of simulated proxies are kept."""
MOST_PROXIES = 24
SEEDS = 0.1
"""Share of the variance between seeds where nothing tells it."""
BELIEVED = 40
"""So many configurations are believed as much as the simulation."""


@dataclass(frozen=True)
class Assumed:
    """What simulated proxies and targets are like.

    `taus`: headlines of the proxies; `seeds`: share of the target's variance between seeds of a configuration;
    `common`: share of a proxy's own variance that seeds share.
    """

    taus: Sequence[float]
    seeds: float = SEEDS
    common: float = 0.0


@dataclass(frozen=True)
class Forecast:
    """What a layout resolves; NaN where it resolves nothing."""

    half_width: float = NAN
    smallest_difference: float = NAN
    planted: ToldApart = field(default_factory=lambda: ToldApart(NAN, NAN))


def assumed_of(
    population: pd.DataFrame,
    measurements: pd.DataFrame,
    scores: pd.DataFrame,
    decision: PopulationDecision,
    axes: Sequence[str],
    problem: Sequence[str],
) -> Assumed:
    """What the networks that were trained say of proxies and targets.

    Args:
        population: one row per network.
        measurements: of them.
        scores: of them, see `score_population`.
        decision: of them.
        axes: of the grid.
        problem: those of them that change the data.

    Returns:
        The headlines of the proxies that are ranked, the share of seeds (the mean over strata by networks), and the
        share that seeds have in common of the proxies' own variance.
    """
    rows = scores[
        (scores["target"] == decision.target)
        & (scores["task"].fillna("") == "")
        & (scores["family"].fillna("") == "")
    ]
    names = list(rows.loc[(rows["estimator"] == "rank") & rows["value"].notna(), "proxy"])
    taus = rows.loc[(rows["estimator"] == "tau") & rows["proxy"].isin(names), "value"].dropna()
    known = [own for own in decision.strata if np.isfinite(own.seeds)]
    networks = sum(own.networks for own in known)
    seeds = sum(own.seeds * own.networks for own in known) / networks if known else SEEDS
    values = measured(population, measurements, names, None)
    nothing = values.iloc[:, :0]
    found = studies(
        population, values, nothing, decision.target, axes, ["converged"], seed_column="seed", problem=problem
    )
    common = common_noise(StudySet.of(found, 1, 0), names)
    return Assumed(tuple(map(float, taus)), float(np.clip(seeds, FEWEST, MOST)), common)


def forecast(
    now: pd.DataFrame,
    planned: pd.DataFrame,
    axes: Sequence[str],
    problem: Sequence[str],
    decision: PopulationDecision,
    assumed: Assumed,
    *,
    kept: Mapping[tuple[str, str], float] | None = None,
    seed: int = 0,
) -> Forecast:
    """What the planned layout will resolve.

    Args:
        now: the layout of the networks that are ranked, one row per network: `task`, `family`, the axes, the
            width among them.
        planned: the layout of all networks that there are to be.
        axes: of the grid.
        problem: those of them that change the data.
        decision: what was found with the networks of `now`.
        assumed: what proxies and targets are like.
        kept: share of the networks of a task and family that will be ranked, 1 where it is not given.
        seed: of all that is drawn.

    Returns:
        Half-width and smallest difference are those of the simulation, times the ratio of what was found to what
        the simulation of `now` says, to the power n / (n + 40) for the n configurations of `now`.
    """
    later = simulate(planned, axes, problem, assumed, kept=kept, seed=seed)
    before = simulate(now, axes, problem, assumed, seed=seed)
    columns = ["task", *identifying(now, axes)]
    number = len(np.unique(group_codes(axis_codes(now, columns)))) if len(now) else 0
    power = number / (number + BELIEVED)
    found = decision.resolution
    return Forecast(
        _corrected(later.half_width, found.half_width, before.half_width, power),
        _corrected(later.smallest_difference, found.smallest_difference, before.smallest_difference, power),
        later.planted,
    )


def simulate(
    layout: pd.DataFrame,
    axes: Sequence[str],
    problem: Sequence[str],
    assumed: Assumed,
    *,
    kept: Mapping[tuple[str, str], float] | None = None,
    replicates: int = 500,
    seed: int = 0,
    draws: int = DRAWS,
) -> Forecast:
    """Fill a layout with normal targets and proxies, and take what the board would say of them.

    Args:
        layout: see `forecast`.
        axes: of the grid.
        problem: those of them that change the data.
        assumed: what proxies and targets are like.
        kept: see `forecast`; the others are left out at random.
        replicates: bootstrap samples.
        seed: of all that is drawn.
        draws: simulated populations over which is averaged.

    Returns:
        The median half-width over the proxies, the smallest difference, and how often planted ones are told apart.
    """
    found = []
    for number in range(draws):
        random = generator(seed, "forecast", str(number))
        places = zip(layout["task"], layout["family"])
        chance = [(kept or {}).get((str(task), str(family)), 1.0) for task, family in places]
        left = layout[random.random(len(layout)) < np.array(chance)].reset_index(drop=True)
        table = left.assign(status="converged", gap=np.arange(float(len(left))))
        nothing = pd.DataFrame(index=table.index)
        parts = studies(table, nothing, nothing, "gap", axes, ["converged"], problem=problem)
        if parts:
            filled = [_filled(study, assumed, random) for study in parts]
            found.append(_resolved(StudySet.of(filled, replicates, seed), assumed, seed + number))
    return Forecast(
        _mean([own.half_width for own in found]),
        _mean([own.smallest_difference for own in found]),
        ToldApart(_mean([own.planted.alone for own in found]), _mean([own.planted.among for own in found])),
    )


def _filled(study: Study, assumed: Assumed, random: np.random.Generator) -> Study:
    """The study with a normal target, a part of each configuration and a part of each network, and with proxies."""
    shared = random.standard_normal(study.configurations)[study.configuration]
    own = random.standard_normal(study.size)
    target = np.sqrt(1 - assumed.seeds) * shared + np.sqrt(assumed.seeds) * own
    group = group_codes(np.column_stack([study.problem, study.family]))
    proxies = {}
    for name, tau in _named(assumed.taus).items():
        scale = np.zeros(study.size)
        for number in range(int(group.max()) + 1):
            members = np.flatnonzero(group == number)
            scale[members] = noise_scale(target[members], study.configuration[members], tau, assumed.common)
        proxies[name] = planted(target, study.configuration, scale, assumed.common, random)
    return replace(study, target=target, proxies=proxies)


def _named(taus: Sequence[float]) -> dict[str, float]:
    """At most 24 proxies, spread over the headlines in order."""
    sizes = np.clip(np.sort(np.abs(np.asarray(taus, dtype=np.float64))), FEWEST, MOST)
    if len(sizes) > MOST_PROXIES:
        sizes = np.quantile(sizes, (np.arange(MOST_PROXIES) + 0.5) / MOST_PROXIES)
    return {f"p{number}": float(tau) for number, tau in enumerate(sizes)}


def _resolved(sets: StudySet, assumed: Assumed, seed: int) -> Forecast:
    scope, names = Scope(), list(_named(assumed.taus))
    halves = []
    for name in names:
        low, high = interval(sets.headline(name, scope), sets.sampling(scope), signs=sets.signs(name, scope))
        halves.append(0.5 * (high - low))
    difference = smallest_difference(sets, names)
    half = float(np.nanmedian(halves)) if np.isfinite(halves).any() else NAN
    return Forecast(half, difference.smallest, told_apart(sets, seed, assumed.common, difference.critical))


def _corrected(later: float, found: float, before: float, power: float) -> float:
    """A simulated number, times how much more was found than simulated, as far as that is believed."""
    ratio = found / before if before > 0 else NAN
    return later * ratio**power if np.isfinite(ratio) and ratio > 0 else later


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else NAN
