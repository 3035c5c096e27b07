"""How the time that scoring takes grows with networks and proxies, on the tables of a board.

    python performance/scoring_time.py [--board leaderboard/results/compact-v3]

Processor time of one target with one thread. Prints the time for each size, and as fitted: the power of the number
of networks (with 3 proxies), and what a proxy more costs of what 3 cost. `gapbench.runs.scoring_time` has the
second, and a power between the first and what runs of small suites took.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd

from gapbench_leaderboard.scores import score_population

NETWORKS = (60, 120, 240, 480)
PROXIES = (3, 8, 16)


def seconds(
    population: pd.DataFrame, measurements: pd.DataFrame, networks: int, proxies: int, about: dict
) -> float:
    """Processor seconds of scoring so many networks, drawn at random, and the first proxies."""
    chosen = population.sample(min(networks, len(population)), random_state=1).reset_index(drop=True)
    labels = sorted(measurements["proxy"].unique())[:proxies]
    own = measurements[measurements["cell"].isin(chosen["cell"]) & measurements["proxy"].isin(labels)]
    began = time.process_time()
    score_population(chosen, own, axes=about["axes"], problem=about["problem"], workers=1)
    return time.process_time() - began


def main() -> None:
    """Print the table and what is fitted to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = Path(__file__).resolve().parents[1]
    parser.add_argument("--board", type=Path, default=root / "leaderboard" / "results" / "compact-v3")
    folder = parser.parse_args().board
    population = pd.read_csv(folder / "population.csv")
    measurements = pd.read_csv(folder / "measurements.csv")
    data = folder / "data.json"
    about = json.loads(data.read_text()) if data.exists() else _axes_of(population)
    seconds(population, measurements, 20, 3, about)  # imports and compiled code
    found = {}
    print("networks  " + "  ".join(f"{count:>2} proxies" for count in PROXIES))
    for networks in NETWORKS:
        own = [seconds(population, measurements, networks, proxies, about) for proxies in PROXIES]
        found |= {(networks, proxies): value for proxies, value in zip(PROXIES, own)}
        print(f"{networks:>8}  " + "  ".join(f"{value:>8.2f} s" for value in own), flush=True)
    few = [found[networks, PROXIES[0]] for networks in NETWORKS]
    power = np.polyfit(np.log(NETWORKS), np.log(few), 1)[0]
    each = [
        (found[networks, PROXIES[-1]] / found[networks, PROXIES[0]] - 1) / (PROXIES[-1] - PROXIES[0])
        for networks in NETWORKS
    ]
    print(
        f"power of the number of networks: {power:.2f}; each proxy more: {np.mean(each):.3f} of what 3 cost"
    )


def _axes_of(population: pd.DataFrame) -> dict[str, list[str]]:
    """The axes of tables that do not say them: the columns between the test size and the training loss."""
    columns = list(population.columns)
    between = columns[columns.index("test_size") + 1 : columns.index("train_loss")]
    data = [name for name in ("train_size", "label_noise", "spectrum", "data_seed") if name in columns]
    return {"axes": ["width", *dict.fromkeys([*data, *between])], "problem": data}


if __name__ == "__main__":
    main()
