"""Coverage of the headline's intervals and of the confidence sets of ranks, on simulated populations.

    python performance/rank_coverage.py [--populations 200] [--configurations 100,200,400] [--problems 2]

A population has three families with 60, 25 and 15 % of the configurations, each over several problems whose levels
of the gap differ, with random effects of the configuration and of the seed, 2 seeds each. A proxy mixes the gap
within the problem with noise of its own and noise that it shares with three other proxies, part of both shared by
the seeds of a configuration; it also follows the level of the problem, which must not matter. In "equal"
populations all proxies are equally good, so that any two that are told apart are a mistake: here sets of ranks
should cover in 95 % of the populations. In "spread" ones their correlations with the gap go from 0 to 0.8, a
mistake is a difference of the wrong sign, and sets cover more often.

A set covers if it contains every rank that its proxy may claim (several where proxies are equally good), and a
population counts as covered if all of its sets do. The estimand of the headline is its mean over further
populations.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != HERE]  # of the package `coverage`

from gapbench_leaderboard.statistics.grouped import Groups, equal_mean, of_families  # noqa: E402
from gapbench_leaderboard.statistics.intervals import Sampling, interval  # noqa: E402
from gapbench_leaderboard.statistics.pairs import Multiplicities, lay_out, once  # noqa: E402
from gapbench_leaderboard.statistics.rank_sets import rank_sets  # noqa: E402
from gapbench_leaderboard.statistics.resampling import (  # noqa: E402
    deletion_numbers,
    deletions,
    draw_configurations,
)
from gapbench_leaderboard.statistics.signs import Signs, in_groups, weighted  # noqa: E402

SEEDS = 2
REPLICATES = 1000
SHARES = (0.6, 0.25, 0.15)
ALIKE = 4
"""Proxies that share a part of their noise."""
TRUTH_POPULATIONS = 400
KINDS = ("equal", "spread")


@dataclass(frozen=True)
class Population:
    """Arrays of shape (networks,), `proxies` of shape (proxies, networks)."""

    configuration: NDArray[np.int64]
    family: NDArray[np.int64]
    problem: NDArray[np.int64]
    gap: NDArray[np.float64]
    proxies: NDArray[np.float64]


def simulate(
    count: int, problems: int, strength: NDArray[np.float64], random: np.random.Generator
) -> Population:
    """A population of `count` configurations, whose proxies correlate with the gap by `strength`."""
    family = np.repeat(np.arange(len(SHARES)), np.round(np.multiply(SHARES, count)).astype(int))[:count]
    problem = random.permutation(np.arange(count) % problems)
    code = np.repeat(np.arange(count), SEEDS)
    of_seed = np.sqrt(0.2) * random.standard_normal(len(code))
    signal = (np.sqrt(0.8) * random.standard_normal(count))[code] + of_seed

    def noise(rows: int) -> NDArray[np.float64]:
        shared = np.sqrt(0.7) * random.standard_normal((rows, count))[:, code]
        mixed: NDArray[np.float64] = shared + np.sqrt(0.3) * random.standard_normal((rows, len(code)))
        return mixed

    own, common = noise(len(strength)), noise(-(-len(strength) // ALIKE))
    mixed = np.sqrt(0.5) * own + np.sqrt(0.5) * np.repeat(common, ALIKE, axis=0)[: len(strength)]
    level = 3.0 * problem[code]
    proxies = strength[:, None] * signal + np.sqrt(1 - strength[:, None] ** 2) * mixed + level
    return Population(code, family[code], problem[code], 0.3 + 0.05 * (signal + level), proxies)


def headlines(population: Population, drawn: Multiplicities) -> tuple[NDArray[np.float64], Signs | None]:
    """The headline of every proxy under all multiplicities, shape (proxies, entries), and its signs."""
    problems = int(population.problem.max()) + 1
    groups = Groups.of(problems * population.family + population.problem, population.gap, drawn)
    family = groups.named(population.family)
    members = [[own for own, f in zip(groups.members, family) if f == k] for k in range(len(SHARES))]
    signs = weighted([in_groups(own, population.configuration) for own in members])
    taus = [equal_mean(of_families(groups.tau(row, "b"), family, len(SHARES))) for row in population.proxies]
    return np.stack(taus), signs


def strengths(kind: str, proxies: int) -> NDArray[np.float64]:
    """Correlation of each proxy with the gap."""
    return np.full(proxies, 0.4) if kind == "equal" else np.linspace(0.0, 0.8, proxies)


def truth(
    count: int, problems: int, strength: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64]:
    """Mean headline of each proxy, the same for those equally good."""
    single, every = once(count * SEEDS), []
    for _ in range(TRUTH_POPULATIONS):
        every.append(headlines(simulate(count, problems, strength, random), single)[0][:, 0])
    mean: NDArray[np.float64] = np.mean(every, axis=0)
    return np.array([mean[strength == own].mean() for own in strength])


def coverage(
    count: int, problems: int, proxies: int, kind: str, populations: int, seed: int
) -> dict[str, float]:
    """Percentages of headlines' intervals and of populations that are covered, and the mean size of sets."""
    random = np.random.default_rng([seed, count, proxies, KINDS.index(kind)])
    strength = strengths(kind, proxies)
    expected = truth(count, problems, strength, random)
    first = 1 + (strength[None, :] > strength[:, None]).sum(axis=1)
    last = proxies - (strength[None, :] < strength[:, None]).sum(axis=1)
    pairs = list(itertools.combinations(range(proxies), 2))
    headline, ranks, sizes = [], [], []
    for _ in range(populations):
        population = simulate(count, problems, strength, random)
        numbers = deletion_numbers(count, random)
        deleted = deletions(numbers, int(numbers.max()) + 1)
        every = np.concatenate([draw_configurations(count, REPLICATES, random), deleted])
        sampling = Sampling.of(REPLICATES, [numbers])
        values, signs = headlines(population, lay_out(every[:, population.configuration]))
        for own, true in zip(values, expected):
            low, high = interval(own, sampling, signs=signs)
            headline.append(low <= true <= high)
        differences = np.stack([values[i] - values[j] for i, j in pairs])
        sets = rank_sets(proxies, pairs, differences, sampling, [signs] * len(pairs))
        ranks.append(bool(((sets.low <= first) & (last <= sets.high)).all()))
        sizes.append(float((sets.high - sets.low + 1).mean()))
    return {
        "true": float(expected.mean()),
        "headline": 100 * float(np.mean(headline)),
        "ranks": 100 * float(np.mean(ranks)),
        "size": float(np.mean(sizes)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--populations", type=int, default=200)
    parser.add_argument("--configurations", default="100,200,400")
    parser.add_argument("--problems", default="2")
    parser.add_argument("--proxies", default="20,60")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    header = [
        "configurations",
        "problems",
        "proxies",
        "kind",
        "mean true tau",
        "headline",
        "all ranks",
        "mean size of sets",
    ]
    print("| " + " | ".join([*header, "seconds"]) + " |")
    print("|" + "---|" * (len(header) + 1))
    lists = (arguments.configurations, arguments.problems, arguments.proxies)
    grid = itertools.product(*([int(number) for number in given.split(",")] for given in lists), KINDS)
    for count, problems, proxies, kind in grid:
        start = time.process_time()
        found = coverage(count, problems, proxies, kind, arguments.populations, arguments.seed)
        cells: list[object] = [count, problems, proxies, kind, f"{found['true']:.2f}"]
        cells += [f"{found[name]:.1f}" for name in ("headline", "ranks", "size")]
        cells.append(f"{time.process_time() - start:.0f}")
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
