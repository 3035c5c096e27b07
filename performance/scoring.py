"""Speed of the statistics: bootstrap tau-b against a loop of scipy.stats.kendalltau, and a full score.

    python performance/statistics.py            both
    python performance/statistics.py tau        bootstrap tau-b only
    python performance/statistics.py score      full score of 1,000 networks x 60 proxies only

The tau-b of 60 proxies and 10,000 replicates is computed in full; scipy is timed on a sample of the same
replicates in the same run, which are checked to agree to 1e-12. One core; seconds of processor time, so that
other work on the machine does not count; compilation excluded. The full score takes two threads.
"""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np
import pandas as pd
from scipy import stats

from gapbench_leaderboard.scores import score_population
from gapbench_leaderboard.statistics.pairs import count_pairs, lay_out, order_of, tied_pairs

PROXIES = 60
REPLICATES = 10_000
SCIPY_SAMPLE = 200


def bootstrap_tau(models: int, ties: bool) -> tuple[float, float]:
    """Seconds per tau of scipy and of the replayed merges."""
    random = np.random.default_rng(models)
    target = random.standard_normal(models)
    proxies = target + random.standard_normal((PROXIES, models))
    if ties:
        target, proxies = np.round(target, 1), np.round(proxies, 1)
    draws = random.multinomial(models, np.full(models, 1 / models), size=REPLICATES)
    count_pairs(order_of(proxies[0]), order_of(target), lay_out(draws[:1])).tau_b()  # compile

    start = time.process_time()
    multiplicities = lay_out(draws)
    y = order_of(target)
    tied = tied_pairs(y, multiplicities)
    taus = np.stack([count_pairs(order_of(proxy), y, multiplicities, tied).tau_b() for proxy in proxies])
    ours = (time.process_time() - start) / taus.size

    chosen = list(
        zip(random.integers(PROXIES, size=SCIPY_SAMPLE), random.integers(REPLICATES, size=SCIPY_SAMPLE))
    )
    samples = [(np.repeat(proxies[p], draws[r]), np.repeat(target, draws[r])) for p, r in chosen]
    start = time.process_time()
    for x, y_sample in samples:
        stats.kendalltau(x, y_sample)
    scipy_seconds = (time.process_time() - start) / SCIPY_SAMPLE
    for (p, r), (x, y_sample) in zip(chosen[:20], samples[:20]):
        # copies are tied in both vectors and so change neither the numerator nor the untied pairs of tau-b
        assert abs(taus[p, r] - stats.kendalltau(x, y_sample).statistic) < 1e-12
    return scipy_seconds, ours


def population(models: int, random: np.random.Generator) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A population of `models` networks (5 seeds each) and 60 proxies of very different quality."""
    grid = itertools.product(
        ("resnet", "mlp"), (0.25, 0.5, 1.0, 2.0, 4.0), (0.1, 0.03, 0.01, 0.003, 0.001), (32, 128), (0, 1e-4)
    )
    rows = []
    for family, width, rate, batch, decay in grid:
        base = 0.3 - 0.03 * np.log2(width) - 0.04 * np.log10(rate) + 0.02 * (batch == 128)
        base += 0.02 * random.standard_normal()
        for seed in range(5):
            gap = base + 0.01 * random.standard_normal()
            rows.append((family, width, rate, batch, decay, seed, gap))
    names = ["family", "width", "learning_rate", "batch_size", "weight_decay", "seed", "gap"]
    table = pd.DataFrame(rows[:models], columns=names)
    table = table.assign(
        cell=[f"c{number}" for number in range(len(table))],
        task="synthetic",
        status="converged",
        test_error=table["gap"],
        test_size=10_000,
        parameters=(1e5 * table["width"] ** 2).astype(int),
    )
    frames = []
    for number in range(PROXIES):
        value = table["gap"] + 0.01 * 1.1**number * random.standard_normal(len(table))
        frames.append(
            pd.DataFrame({"cell": table["cell"], "proxy": f"p{number}", "value": value, "status": "ok"})
        )
    return table, pd.concat(frames, ignore_index=True)


def full_score(models: int = 1_000, workers: int = 2) -> tuple[float, float]:
    """Seconds and processor seconds of one full score with all estimators."""
    random = np.random.default_rng(0)
    table, measured = population(models, random)
    axes = ["learning_rate", "batch_size", "weight_decay"]
    small = {"replicates": 8, "pair_replicates": 4, "prediction_replicates": 2, "workers": 1}
    few = measured[measured["proxy"] == "p0"]
    score_population(table, few, axes=axes, **small)  # compile
    start, used = time.perf_counter(), time.process_time()
    score_population(
        table,
        measured,
        axes=axes,
        replicates=2_000,
        pair_replicates=200,
        prediction_replicates=50,
        workers=workers,
    )
    return time.perf_counter() - start, time.process_time() - used


def main(arguments: list[str]) -> None:
    if "score" not in arguments:
        print(f"bootstrap tau-b, {PROXIES} proxies x {REPLICATES:,} replicates, one core")
        print("models  ties   scipy/us   ours/us   ratio")
        for models, ties in itertools.product((200, 1_000, 5_000), (False, True)):
            scipy_seconds, ours = bootstrap_tau(models, ties)
            ratio = scipy_seconds / ours
            print(
                f"{models:6d}  {ties!s:5} {1e6 * scipy_seconds:9.1f} {1e6 * ours:9.2f} {ratio:7.0f}",
                flush=True,
            )
    if "tau" not in arguments:
        seconds, used = full_score()
        print(
            f"full score, 1,000 models x {PROXIES} proxies, 2 threads: {seconds:.0f} s, "
            f"{used:.0f} s of processor time"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
