"""How alike two proxies rank the networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.board.content import Agreement, BoardEntry
from gapbench_leaderboard.board.numbers import plain_text
from gapbench_leaderboard.scores import BASELINES
from gapbench_leaderboard.statistics.configurations import axis_codes, group_codes

BLOCK = 2_000_000
"""Pairs of networks looked at together, for all proxies."""


def oriented_values(
    population: pd.DataFrame, measurements: pd.DataFrame, entries: Sequence[BoardEntry]
) -> pd.DataFrame:
    """Values of the converged networks, a column per measured proxy that has any, larger = larger gap predicted.

    Returns:
        A row per converged network, indexed as `population`; NaN where there is no first measurement
        with status `ok` and a finite value. The baseline `width` is included.
    """
    usable = measurements[measurements["status"] == "ok"]
    if "repeat" in usable.columns:
        usable = usable[~(pd.to_numeric(usable["repeat"], errors="coerce") > 0)]
    table = pd.DataFrame(
        {
            "cell": usable["cell"],
            "proxy": usable["proxy"].astype(str),
            "value": pd.to_numeric(usable["value"], errors="coerce"),
        }
    ).drop_duplicates(["cell", "proxy"])
    converged = population[population["status"] == "converged"]
    wide = table.pivot(index="cell", columns="proxy", values="value").reindex(index=converged["cell"])
    found: dict[str, NDArray[np.float64]] = {}
    for entry in entries:
        label = entry["label"]
        if label in wide.columns:
            sign = -1.0 if entry.get("higher_means") == "better" else 1.0
            found[label] = sign * wide[label].to_numpy(dtype=float)
        elif label in BASELINES and label in converged.columns:
            found[label] = pd.to_numeric(converged[label], errors="coerce").to_numpy(dtype=float)
    values = pd.DataFrame(found, index=converged.index)
    values = values.where(np.isfinite(values))
    return values.loc[:, values.notna().any()]


def agreement(
    population: pd.DataFrame,
    measurements: pd.DataFrame,
    entries: Sequence[BoardEntry],
    problem: Sequence[str] = (),
) -> Agreement:
    """tau-b between every two proxies as the headline has it: within problem and family.

    By pairs over the problems of a family, families of a task equally, then tasks; `problem` are the columns that
    tell the problems of a task apart. Only networks that both measured count; a group in which either is constant
    drops out of the mean.

    Returns:
        `proxies`: labels in the order of an average-linkage clustering by 1 - tau; `tau`: the matrix in that
        order, None where undefined.
    """
    values = oriented_values(population, measurements, entries)
    networks = population.loc[values.index]
    size = values.shape[1]
    total, tasks = np.zeros((size, size)), np.zeros((size, size))
    for _, of_task in networks.groupby(networks["task"].astype(str), sort=True):
        own, families = np.zeros((size, size)), np.zeros((size, size))
        family = of_task["family"].astype(str) if "family" in of_task.columns else of_task["task"].astype(str)
        for _, of_family in of_task.groupby(family, sort=True):
            mean = _within_problems(of_family, values, problem)
            defined = np.isfinite(mean)
            own[defined] += mean[defined]
            families += defined
        present = families > 0
        total[present] += own[present] / families[present]
        tasks += present
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(tasks > 0, total / tasks, np.nan)
    order = clustered(mean)
    labels = list(map(str, values.columns))
    ordered = mean[np.ix_(order, order)].tolist()
    return {
        "proxies": [plain_text(labels[i]) for i in order],
        "tau": [[tau if tau == tau else None for tau in row] for row in ordered],
    }


def _within_problems(
    networks: pd.DataFrame, values: pd.DataFrame, problem: Sequence[str]
) -> NDArray[np.float64]:
    """tau-b between every two proxies in one family, by pairs over its problems; NaN if undefined."""
    size = values.shape[1]
    weighted, weight = np.zeros((size, size)), np.zeros((size, size))
    code = group_codes(axis_codes(networks, list(problem)))
    for number in np.unique(code):
        group = networks.index[code == number]
        tau, pairs = pairwise_tau_b(values.loc[group].to_numpy(dtype=float))
        defined = np.isfinite(tau)
        weighted[defined] += (tau * pairs)[defined]
        weight[defined] += pairs[defined]
    mean: NDArray[np.float64] = np.full((size, size), np.nan)
    np.divide(weighted, weight, out=mean, where=weight > 0)
    return mean


def pairwise_tau_b(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """tau-b between columns of shape (networks, proxies), on the rows that both have, and the number of pairs.

    tau-b = (concordant - discordant) / sqrt(pairs untied in the first * pairs untied in the second); Kendall
    1945.

    Returns:
        Two arrays of shape (proxies, proxies); tau-b is NaN where a column is constant on the common
        rows.
    """
    size = values.shape[1]
    score, untied, pairs = (np.zeros((size, size)) for _ in range(3))
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    step = max(1, BLOCK // max(1, len(values) * max(1, size)))
    for start in range(0, len(values) - 1, step):
        signs, both = [], []
        for i in range(start, min(start + step, len(values) - 1)):
            together = known[i + 1 :] & known[i]
            both.append(together)
            signs.append(
                ((filled[i + 1 :] > filled[i]).astype(float) - (filled[i + 1 :] < filled[i])) * together
            )
        sign = np.concatenate(signs)
        joint = np.concatenate(both).astype(float)
        score += sign.T @ sign
        untied += np.abs(sign).T @ joint
        pairs += joint.T @ joint
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = score / np.sqrt(untied * untied.T)
    return np.where(untied * untied.T > 0, tau, np.nan), pairs


def clustered(tau: NDArray[np.float64]) -> list[int]:
    """An order of the proxies in which like stand beside like."""
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    if len(tau) < 3:
        return list(range(len(tau)))
    distance = np.clip(1.0 - np.nan_to_num(tau), 0.0, 2.0)
    distance = (distance + distance.T) / 2
    np.fill_diagonal(distance, 0.0)
    condensed = squareform(distance, checks=False)
    tree = linkage(condensed, method="average")
    return [int(i) for i in leaves_list(optimal_leaf_ordering(tree, condensed))]
