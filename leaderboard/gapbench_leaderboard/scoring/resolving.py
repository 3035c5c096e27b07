"""Which differences of headlines a population can tell: the smallest one, and whether planted ones are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.pairwise import paired_difference
from gapbench_leaderboard.scoring.replicates import Replicates, mean_of
from gapbench_leaderboard.scoring.scope import Scope, StudySet
from gapbench_leaderboard.statistics.grouped import equal_mean, of_families
from gapbench_leaderboard.statistics.intervals import interval
from gapbench_leaderboard.statistics.planting import noise_scale, planted
from gapbench_leaderboard.statistics.rank_sets import critical_value, standardised
from gapbench_leaderboard.statistics.resampling import SIGNIFICANCE, generator
from gapbench_leaderboard.statistics.signs import weighted
from gapbench_leaderboard.statistics.variance_shares import variance_shares

WEAK, STRONG = 0.2, 0.4
"""True headlines of the two planted proxies."""
PLANTINGS = 20
NAN = float("nan")


LARGEST_DIFFERENCE = 2.0
"""Of two taus: beyond it nothing can be told apart."""


@dataclass(frozen=True)
class Differences:
    """How large a difference of two headlines must be, NaN where there are no two proxies to compare."""

    smallest: float
    """That is significant, of a pair with the median standard error."""
    critical: float
    """What a difference over its standard error must exceed, all pairs at once."""


@dataclass(frozen=True)
class ToldApart:
    """Share of the plantings in which the two planted proxies are told apart, rightly."""

    alone: float
    """By the interval of their difference."""
    among: float
    """As two of the proxies that are ranked, with 95 % confidence for all pairs at once."""


def smallest_difference(studies: StudySet, names: Sequence[str]) -> Differences:
    """The smallest significant difference of two headlines, by the first step of the test behind the rank sets.

    Args:
        studies: of one target.
        names: the proxies that are ranked.

    Returns:
        NaN with fewer than two proxies, without a jackknife, and where differences rest on few signs.
    """
    scope = Scope()
    sampling = studies.sampling(scope)
    errors, largest = [], np.zeros(sampling.replicates)
    for first, second in combinations(names, 2):
        signs = studies.signs(first, scope, second)
        difference = paired_difference(studies, first, second, scope)
        error = float(sampling.standard_error(difference))
        if not np.isfinite(difference[0]) or not error > 0 or (signs is not None and signs.few):
            continue
        drawn = standardised(sampling.bootstrap(difference)[None])[0]
        np.fmax(largest, np.abs(drawn), out=largest)
        errors.append(error)
    if not errors or sampling.freedom < 1:
        return Differences(NAN, NAN)
    critical = critical_value(largest, 2 * len(errors), sampling.freedom, SIGNIFICANCE)
    return Differences(critical * float(np.median(errors)), critical)


def common_noise(studies: StudySet, names: Sequence[str]) -> float:
    """What seeds have in common of a typical proxy.

    Returns:
        Share of its variance that the seeds of a configuration share, within problem and family, of ranks; the
        median over proxies. 0 where nothing tells it.
    """
    found = []
    for name in names:
        shares, weights = [], []
        for part in studies.having(name):
            mask = part.measured(name)
            if not mask.any():
                continue
            index = np.flatnonzero(mask)
            values, configuration = part.study.proxies[name][index], part.study.configuration[index]
            for members in part.groups("problem", mask).members:
                ranks = np.argsort(np.argsort(values[members])).astype(np.float64)
                own = variance_shares(ranks, configuration[members], np.zeros((len(members), 0), np.int64))
                if np.isfinite(own.seeds):
                    shares.append(own.seeds)
                    weights.append(len(members))
        if shares:
            found.append(1 - float(np.average(shares, weights=weights)))
    return float(np.clip(np.median(found), 0.0, 1.0)) if found else 0.0


def told_apart(
    studies: StudySet, seed: int, common: float, critical: float, plantings: int = PLANTINGS
) -> ToldApart:
    """Plant two proxies, of true headlines 0.2 and 0.4, and test their difference as the board does.

    Args:
        studies: of one target.
        seed: of the noise.
        common: see `planting.planted`.
        critical: see `Differences`; NaN where nothing is ranked.
        plantings: how often.

    Returns:
        NaN where nothing can be ranked or no difference tested.
    """
    scope, tested, alone, among = Scope(), 0, 0, 0
    sampling = studies.sampling(scope)
    everyone = [np.ones(part.study.size, dtype=bool) for part in studies.parts]
    signs = weighted([part.signs_within("problem", mask) for part, mask in zip(studies.parts, everyone)])
    scales = {tau: [_scale(part, tau, common) for part in studies.parts] for tau in (WEAK, STRONG)}
    for number in range(plantings):
        found = {}
        for tau, scale in scales.items():
            made = [
                planted(
                    part.study.target, part.study.configuration, own, common, _random(seed, part, number, tau)
                )
                for part, own in zip(studies.parts, scale)
            ]
            found[tau] = headline_of(studies, made)
        difference = found[STRONG] - found[WEAK]
        low, _ = interval(difference, sampling, bounded=False, signs=signs)
        if not np.isfinite(low):
            continue
        tested += 1
        alone += low > 0
        error = float(sampling.standard_error(difference))
        among += error > 0 and difference[0] / error > critical
    if not tested:
        return ToldApart(NAN, NAN)
    return ToldApart(alone / tested, among / tested if np.isfinite(critical) else NAN)


def headline_of(studies: StudySet, values: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The headline of a proxy that is none of the studies', with its replicates and deletions.

    Args:
        studies: of one target.
        values: of all networks of each study, finite.

    Returns:
        shape (entries,).
    """
    tasks = []
    for part, own in zip(studies.parts, values):
        mask = np.ones(part.study.size, dtype=bool)
        found = part.groups("problem", mask).tau(own, "b")
        families = of_families(found, part.family_of("problem", mask), len(part.study.family_names))
        tasks.append(equal_mean(families))
    return mean_of(tasks)


def _scale(part: Replicates, tau: float, common: float) -> NDArray[np.float64]:
    """Standard deviation of each network's noise: that of its problem and family, shape (networks,)."""
    study = part.study
    scale = np.zeros(study.size)
    for members in part.groups("problem", np.ones(study.size, dtype=bool)).members:
        scale[members] = noise_scale(study.target[members], study.configuration[members], tau, common)
    return scale


def _random(seed: int, part: Replicates, number: int, tau: float) -> np.random.Generator:
    return generator(seed, "planted", part.study.task, str(number), str(tau))
