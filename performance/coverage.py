"""Coverage of the 95 % intervals, each for its own estimand, and bias of the ceilings, on simulated populations.

    python performance/coverage.py [--populations 200] [--configurations 30,100,300] [--seed 0]

A population is a random part of a grid (width, learning rate, depth), with random effects of the configuration
and of the seed on the true gap, 3 seeds each, and test errors on 1,000 examples. A proxy mixes the true gap
with noise of its own, part of it shared by the seeds of a configuration. The estimand of every estimator is
its mean over 1,200 further populations of the same kind (300 for 300 configurations or joint ones, 75 for
both); for `tau_true_gap` it is tau-b with the true gap, for the paired difference that of two proxies.
"joint" populations share one test set, example by example.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.ceiling import ceilings
from gapbench_leaderboard.statistics.configurations import axis_codes, means
from gapbench_leaderboard.statistics.disattenuation import disattenuated
from gapbench_leaderboard.statistics.granulated import axis_cells, cell_mean_replicates
from gapbench_leaderboard.statistics.grouped import Groups
from gapbench_leaderboard.statistics.intervals import LinearPart, interval
from gapbench_leaderboard.statistics.noise import BinomialNoise, JointNoise, TestNoise
from gapbench_leaderboard.statistics.pair_lists import count_listed
from gapbench_leaderboard.statistics.pairs import count_pairs, lay_out, order_of
from gapbench_leaderboard.statistics.partial import matched_pairs
from gapbench_leaderboard.statistics.rank import spearman_replicates
from gapbench_leaderboard.statistics.resampling import draw_configurations

SEEDS = 3
TEST_SIZE = 1_000
REPLICATES = 400
TRUTH_POPULATIONS = 1_200
AXES = ["width", "rate", "depth"]
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


def simulate(count: int, rho: float, joint: bool, random: np.random.Generator) -> Population:
    """A population of `count` configurations whose proxy has the correlation `rho` with the true gap."""
    grid = np.array(list(itertools.product(range(3), range(5), range(max(2, round(count / 10))))))
    levels = grid[random.permutation(len(grid))[:count]]
    mean = 0.25 - 0.03 * levels[:, 0] + 0.015 * levels[:, 1] + 0.03 * random.standard_normal(count)
    code = np.repeat(np.arange(count), SEEDS)
    true = np.clip(mean[code] + 0.015 * random.standard_normal(len(code)), 0.01, 0.9)
    noise: TestNoise
    if joint:
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
    population: Population, draws: NDArray[np.int64], random: np.random.Generator, ceiling: bool
) -> dict[str, NDArray[np.float64]]:
    """All estimators under the multiplicities `draws`, the original sample first."""
    drawn = lay_out(draws[:, population.configuration])
    x, y = order_of(population.proxy), order_of(population.gap)
    counts = count_pairs(x, y, drawn)
    width = population.frame["width"].to_numpy()
    found = {
        "tau_a": counts.tau_a(),
        "tau_b": counts.tau_b(),
        "spearman": spearman_replicates(x, y, drawn),
        "granulated": _granulated(population, draws),
        "tau_within": Groups.of(width, population.gap, drawn).tau(population.proxy, "b").mean(),
    }
    pairs = matched_pairs(population.frame, ["parameters"])
    found["tau_partial"] = count_listed(population.proxy, population.gap, pairs, drawn).tau_b()
    found["difference"] = found["tau_b"] - count_pairs(order_of(population.rival), y, drawn).tau_b()
    if ceiling:
        oracle = ceilings(
            population.gap,
            population.configuration,
            population.noise.draw(random, 100),
            draws[:1, population.configuration],
            random,
            inner=16,
        )
        found["network"], found["configuration"] = oracle.network, oracle.configuration
        found["tau_true_gap"] = disattenuated(found["tau_b"], oracle.network[0])
    return found


def _granulated(population: Population, draws: NDArray[np.int64]) -> NDArray[np.float64]:
    count = draws.shape[1]
    measure = means(population.proxy, population.configuration, count)
    target = means(population.gap, population.configuration, count)
    codes = axis_codes(population.frame.iloc[::SEEDS], AXES)
    drawn = lay_out(draws)
    per_axis = [
        cell_mean_replicates(measure, target, axis_cells(codes, axis), drawn) for axis in range(len(AXES))
    ]
    return np.nanmean(np.stack(per_axis), axis=0)


def truths(count: int, rho: float, joint: bool, random: np.random.Generator) -> dict[str, float]:
    """The estimands: means over many populations."""
    sums: dict[str, list[float]] = {}
    number = TRUTH_POPULATIONS if count <= 100 else TRUTH_POPULATIONS // 4
    once = np.ones((1, count), dtype=np.int64)
    single = lay_out(np.ones((1, count * SEEDS), dtype=np.int64))
    for _ in range(number if not joint else number // 4):
        population = simulate(count, rho, joint, random)
        found = {name: float(value[0]) for name, value in estimate(population, once, random, False).items()}
        true, gap = order_of(population.true_gap), order_of(population.gap)
        found["tau_true_gap"] = float(count_pairs(order_of(population.proxy), true, single).tau_b()[0])
        found["network"] = float(count_pairs(true, gap, single).tau_b()[0])
        found["configuration"] = float(count_pairs(order_of(population.true_mean), gap, single).tau_b()[0])
        for name, value in found.items():
            sums.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in sums.items()}


def coverage(count: int, rho: float, joint: bool, populations: int, seed: int) -> dict[str, float]:
    """Percentage of intervals that contain their estimand, and the bias of both ceilings."""
    random = np.random.default_rng([seed, count, round(1000 * rho), int(joint)])
    truth = truths(count, rho, joint, random)
    inside: dict[str, list[bool]] = {name: [] for name in ESTIMATORS}
    bias: dict[str, list[float]] = {"network": [], "configuration": []}
    for _ in range(populations):
        population = simulate(count, rho, joint, random)
        draws = draw_configurations(count, max(REPLICATES, 2 * count), random)
        linear = LinearPart.of([draws])
        found = estimate(population, draws, random, True)
        for name in ESTIMATORS:
            low, high = interval(
                found[name],
                linear,
                bounded=name != "difference",
                recentre=name not in ("spearman", "granulated"),
                removed=0.5 if name == "granulated" else 1.0,
            )
            inside[name].append(bool(low <= truth[name] <= high))
        for name, values in bias.items():
            values.append(float(found[name][0]) - truth[name])
    result = {name: 100 * float(np.mean(values)) for name, values in inside.items()}
    result |= {f"bias_{name}": float(np.mean(values)) for name, values in bias.items()}
    return result | {"true_tau_b": truth["tau_b"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--populations", type=int, default=200)
    parser.add_argument("--configurations", default="30,100,300")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    header = ["configurations", "test set", "true tau-b", *ESTIMATORS, "network bias", "configuration bias"]
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for count in map(int, arguments.configurations.split(",")):
        for rho, joint in [(0.0, False), (0.4, False), (0.7, False), (0.95, False), (0.7, True)]:
            found = coverage(count, rho, joint, arguments.populations, arguments.seed)
            cells = [str(count), "joint" if joint else "own", f"{found['true_tau_b']:.2f}"]
            cells += [f"{found[name]:.1f}" for name in ESTIMATORS]
            cells += [f"{found[f'bias_{name}']:+.3f}" for name in ("network", "configuration")]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
