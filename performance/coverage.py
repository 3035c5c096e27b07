"""Coverage of the 95 % intervals, each for its own estimand, and bias of the ceilings, on simulated populations.

    python performance/coverage.py [--populations 1000] [--configurations 30,100,300] [--seed 0]

A population is a random part of a grid (width, learning rate, depth), with random effects of the configuration
and of the seed on the true gap, 3 seeds each, and test errors on 1,000 examples. A proxy mixes the true gap
with noise of its own, part of it shared by the seeds of a configuration. The estimand of every estimator is
its mean over 1,200 further populations of the same kind (600 for 300 configurations or joint ones); for
`tau_true_gap` it is tau-b with the true gap, for the paired difference that of two proxies.
"joint" populations share one test set, example by example; in "full" ones the grid is complete, so that the
levels of its axes are the same in every population.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if __name__ == "coverage":  # numba, in a script of this folder, asks for the package of that name
    raise ImportError("a script, not the package coverage")
HERE = Path(__file__).resolve().parent
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != HERE]

from gapbench_leaderboard.statistics.ceiling import ceilings, reliability  # noqa: E402
from gapbench_leaderboard.statistics.configurations import axis_codes, means  # noqa: E402
from gapbench_leaderboard.statistics.disattenuation import disattenuated  # noqa: E402
from gapbench_leaderboard.statistics.dyads import Dyads  # noqa: E402
from gapbench_leaderboard.statistics.granulated import (  # noqa: E402
    axis_cells,
    cell_mean_error,
    cell_mean_replicates,
)
from gapbench_leaderboard.statistics.grouped import Groups  # noqa: E402
from gapbench_leaderboard.statistics.intervals import Sampling, interval  # noqa: E402
from gapbench_leaderboard.statistics.noise import BinomialNoise, JointNoise, TestNoise  # noqa: E402
from gapbench_leaderboard.statistics.pair_lists import count_dyads  # noqa: E402
from gapbench_leaderboard.statistics.pairs import count_pairs, lay_out, order_of  # noqa: E402
from gapbench_leaderboard.statistics.partial import matched_pairs, tau_b_error  # noqa: E402
from gapbench_leaderboard.statistics.rank import spearman_replicates  # noqa: E402
from gapbench_leaderboard.statistics.resampling import (  # noqa: E402
    deletion_numbers,
    deletions,
    draw_configurations,
)

SEEDS = 3
TEST_SIZE = 1_000
REPLICATES = 400
TRUTH_POPULATIONS = 1_200
NOISE_DRAWS = 100
FULL = {30: (3, 5, 2), 100: (4, 5, 5), 300: (5, 6, 10)}
AXES = ["width", "rate", "depth"]
KINDS = ["own", "joint", "full"]
ROWS = [(0.0, "own"), (0.4, "own"), (0.7, "own"), (0.95, "own"), (0.7, "joint"), (0.7, "full")]
ESTIMATORS = [
    "tau_a", "tau_b", "spearman", "granulated", "tau_within", "tau_partial", "difference", "tau_true_gap",
]  # fmt: skip


@dataclass(frozen=True)
class Population:
    """One simulated population; arrays of shape (networks,)."""

    frame: pd.DataFrame
    configuration: NDArray[np.int64]
    true_gap: NDArray[np.float64]
    true_mean: NDArray[np.float64]
    gap: NDArray[np.float64]
    proxy: NDArray[np.float64]
    rival: NDArray[np.float64]
    noise: TestNoise


def simulate(count: int, rho: float, kind: str, random: np.random.Generator) -> Population:
    """A population of `count` configurations whose proxy has the correlation `rho` with the true gap."""
    shape = FULL[count] if kind == "full" else (3, 5, max(2, round(count / 10)))
    grid = np.array(list(itertools.product(*map(range, shape))))
    levels = grid[random.permutation(len(grid))[:count]]
    mean = 0.25 - 0.03 * levels[:, 0] + 0.015 * levels[:, 1] + 0.03 * random.standard_normal(count)
    code = np.repeat(np.arange(count), SEEDS)
    true = np.clip(mean[code] + 0.015 * random.standard_normal(len(code)), 0.01, 0.9)
    noise: TestNoise
    if kind == "joint":
        difficulty = random.random(TEST_SIZE)
        own = random.random((len(code), TEST_SIZE))
        hard = 0.5  # half of the decisions of a network follow the shared difficulty of the examples
        wrong = np.where(random.random((len(code), TEST_SIZE)) < hard, difficulty, own) < true[:, None]
        noise, gap = JointNoise(wrong), wrong.mean(axis=1)
    else:
        gap = random.binomial(TEST_SIZE, true) / TEST_SIZE
        noise = BinomialNoise(gap, np.full(len(code), TEST_SIZE))
    standard = (true - 0.25) / 0.045
    frame = pd.DataFrame(levels[code], columns=AXES)
    frame["parameters"] = 2.0 * np.log(2.0) * frame["width"] + 1.5 * frame["depth"] / frame["depth"].max()
    return Population(
        frame=frame,
        configuration=code,
        true_gap=true,
        true_mean=mean[code],
        gap=gap,
        proxy=_mixture(standard, code, rho, random),
        rival=_mixture(standard, code, 0.5, random),
        noise=noise,
    )


def _mixture(
    signal: NDArray[np.float64], code: NDArray[np.int64], rho: float, random: np.random.Generator
) -> NDArray[np.float64]:
    shared = np.sqrt(0.7) * random.standard_normal(code.max() + 1)[code]
    return rho * signal + np.sqrt(1 - rho**2) * (shared + np.sqrt(0.3) * random.standard_normal(len(code)))


def estimate(
    population: Population, multiplicities: NDArray[np.int64]
) -> tuple[dict[str, NDArray[np.float64]], dict[str, float]]:
    """All estimators under multiplicities of configurations, the original sample first; and standard errors of
    those that have their own."""
    drawn = lay_out(multiplicities[:, population.configuration])
    x, y = order_of(population.proxy), order_of(population.gap)
    counts = count_pairs(x, y, drawn)
    width = population.frame["width"].to_numpy()
    found = {
        "tau_a": counts.tau_a(),
        "tau_b": counts.tau_b(),
        "spearman": spearman_replicates(x, y, drawn),
        "tau_within": Groups.of(width, population.gap, drawn).tau(population.proxy, "b").mean(),
    }
    errors = {}
    found["granulated"], errors["granulated"] = _granulated(population, multiplicities)
    pairs = matched_pairs(population.frame, ["parameters"])
    own = population.configuration
    dyads = Dyads.of(own[pairs.first], own[pairs.second], multiplicities.shape[1])
    counted = count_dyads(population.proxy, population.gap, pairs, dyads, lay_out(multiplicities))
    found["tau_partial"] = counted.tau_b()
    errors["tau_partial"] = tau_b_error(population.proxy, population.gap, pairs, dyads)
    found["difference"] = found["tau_b"] - count_pairs(order_of(population.rival), y, drawn).tau_b()
    return found, errors


def _granulated(
    population: Population, multiplicities: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float]:
    count = multiplicities.shape[1]
    measure = means(population.proxy, population.configuration, count)
    target = means(population.gap, population.configuration, count)
    codes = axis_codes(population.frame.iloc[::SEEDS], AXES)
    drawn = lay_out(multiplicities)
    cells = [axis_cells(codes, axis) for axis in range(len(AXES))]
    per_axis = [cell_mean_replicates(measure, target, own, drawn) for own in cells]
    with np.errstate(invalid="ignore"):
        defined = np.isfinite(np.stack(per_axis))
        mean = np.where(defined, per_axis, 0.0).sum(axis=0) / defined.sum(axis=0)
    return mean, cell_mean_error(measure, target, cells)


def limits_of(
    population: Population, random: np.random.Generator
) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
    """The intervals of all estimators, as the scores have them, and both ceilings."""
    count = int(population.configuration.max()) + 1
    numbers = deletion_numbers(count, random)
    deleted = deletions(numbers, int(numbers.max()) + 1)
    every = np.concatenate([draw_configurations(count, REPLICATES, random), deleted])
    sampling = Sampling.of(REPLICATES, [numbers])
    found, errors = estimate(population, every)
    limits = {
        name: interval(values, sampling, error=errors.get(name), bounded=name != "difference")
        for name, values in found.items()
    }
    noise = population.noise.draw(random, NOISE_DRAWS)
    once = np.ones((1, len(population.gap)), dtype=np.int64)
    oracle = ceilings(population.gap, population.configuration, noise, once, random, inner=16)
    top = float(oracle.network[0])
    share = reliability(
        population.gap, noise, np.concatenate([once, deleted[:, population.configuration]]).astype(float)
    )
    rho = np.sin(np.pi / 2 * found["tau_b"])
    rho[1 + REPLICATES :] /= np.sqrt(share[1:] / share[0])
    measured = interval(2 / np.pi * np.arcsin(np.clip(rho, -1.0, 1.0)), sampling)
    low, high = disattenuated(np.array(measured), top)
    limits["tau_true_gap"] = (float(low), float(high))
    return limits, {"network": top, "configuration": float(oracle.configuration[0])}


def truths(count: int, rho: float, kind: str, random: np.random.Generator) -> dict[str, float]:
    """The estimands: means over many populations."""
    sums: dict[str, list[float]] = {}
    number = TRUTH_POPULATIONS if count <= 100 and kind != "joint" else TRUTH_POPULATIONS // 2
    once = np.ones((1, count), dtype=np.int64)
    single = lay_out(np.ones((1, count * SEEDS), dtype=np.int64))
    for _ in range(number):
        population = simulate(count, rho, kind, random)
        found = {name: float(value[0]) for name, value in estimate(population, once)[0].items()}
        true, gap = order_of(population.true_gap), order_of(population.gap)
        found["tau_true_gap"] = float(count_pairs(order_of(population.proxy), true, single).tau_b()[0])
        found["network"] = float(count_pairs(true, gap, single).tau_b()[0])
        found["configuration"] = float(count_pairs(order_of(population.true_mean), gap, single).tau_b()[0])
        for name, value in found.items():
            sums.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in sums.items()}


def coverage(count: int, rho: float, kind: str, populations: int, seed: int) -> dict[str, float]:
    """Percentage of intervals that contain their estimand, and the bias of both ceilings."""
    random = np.random.default_rng([seed, count, round(1000 * rho), KINDS.index(kind)])
    truth = truths(count, rho, kind, random)
    inside: dict[str, list[bool]] = {name: [] for name in ESTIMATORS}
    bias: dict[str, list[float]] = {"network": [], "configuration": []}
    for _ in range(populations):
        limits, tops = limits_of(simulate(count, rho, kind, random), random)
        for name in ESTIMATORS:
            inside[name].append(bool(limits[name][0] <= truth[name] <= limits[name][1]))
        for name, values in bias.items():
            values.append(tops[name] - truth[name])
    result = {name: 100 * float(np.mean(values)) for name, values in inside.items()}
    result |= {f"bias_{name}": float(np.mean(values)) for name, values in bias.items()}
    return result | {"true_tau_b": truth["tau_b"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--populations", type=int, default=1000)
    parser.add_argument("--configurations", default="30,100,300")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    header = ["configurations", "kind", "true tau-b", *ESTIMATORS, "network bias", "configuration bias"]
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for count in map(int, arguments.configurations.split(",")):
        for rho, kind in ROWS:
            found = coverage(count, rho, kind, arguments.populations, arguments.seed)
            cells = [str(count), kind, f"{found['true_tau_b']:.2f}"]
            cells += [f"{found[name]:.1f}" for name in ESTIMATORS]
            cells += [f"{found[f'bias_{name}']:+.3f}" for name in ("network", "configuration")]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
