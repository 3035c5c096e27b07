"""Ceilings: the tau that perfect knowledge would reach, given test noise and given seeds.

Measured targets are y = mu (configuration) + s (seed) + e (test noise). The spread of the true targets is
estimated by taking the variance of the noise off the variance of the measured ones (empirical Bayes), the
measured targets are shrunk to that spread, and new noise is drawn on top.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.weighted_tau import tau_b_rows


@dataclass(frozen=True)
class Ceilings:
    """tau-b of two oracles with the measured target, shape (replicates + 1,), the original sample first."""

    network: NDArray[np.float64]
    """Of a predictor that knows each network's true target: only test sampling is lost."""
    configuration: NDArray[np.float64]
    """Of one that knows each configuration's mean: seeds are lost too. NaN without two seeds of one."""


def reliability(
    target: NDArray[np.float64],
    noise: NDArray[np.float64],
    weight: NDArray[np.float64],
    group: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Share of the variance among measured targets that is the true targets', in [0, 1]; shape (samples,).

    Args:
        target: shape (networks,).
        noise: draws of the test noise, shape (draws, networks).
        weight: multiplicities of the networks in several samples, shape (samples, networks).
        group: of each network, shape (networks,): variances then are those within groups, pooled by pairs.

    Returns:
        NaN for samples of fewer than two networks (in each group) or of constant targets.
    """
    groups = np.zeros(len(target), dtype=np.int64) if group is None else group
    measured, of_noise = np.zeros(len(weight)), np.zeros(len(weight))
    for number in np.unique(groups):
        own = groups == number
        total = weight[:, own].sum(axis=1)
        pairs = total**2 - (weight[:, own] ** 2).sum(axis=1)
        some = pairs > 0
        measured[some] += (pairs * _unbiased(target[None, own], weight[:, own])[0])[some]
        of_noise[some] += (pairs * _unbiased(noise[:, own], weight[:, own]).mean(axis=0))[some]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(measured > 0, np.clip(1.0 - of_noise / measured, 0.0, 1.0), np.nan)


def ceilings(
    target: NDArray[np.float64],
    configuration: NDArray[np.int64],
    noise: NDArray[np.float64] | None,
    multiplicities: NDArray[np.int64],
    random: np.random.Generator,
    inner: int | None = None,
) -> Ceilings:
    """Both ceilings of one group of networks.

    Args:
        target: as measured, shape (networks,).
        configuration: number of each network's configuration, shape (networks,).
        random: draws the simulated populations.
        noise: draws of the test noise, shape (draws, networks); None where it is unknown: the network ceiling
            then is NaN, and the configuration ceiling takes all that a seed changes for the seed's.
        multiplicities: shape (replicates + 1, networks), row 0 all ones; seeds of a configuration share theirs.
        inner: simulated populations that the ceilings of the original sample are averaged over; by default
            so many that their mean is known to about 0.002 in a group of any size (2,000 up to 100 networks,
            64 from 3,000 on). The replicates, of which there are many, take two each.

    Returns:
        Arrays of shape (replicates + 1,).
    """
    _, code = np.unique(configuration, return_inverse=True)
    code = code.reshape(-1)
    known = noise is not None
    draws = noise if noise is not None else np.zeros((1, len(target)))
    network = np.full(len(multiplicities), np.nan)
    by_configuration = np.full(len(multiplicities), np.nan)
    weight = multiplicities.astype(np.float64)
    some = np.flatnonzero((weight > 0).sum(axis=1) >= 2)
    total, seeds = _spreads(target, code, draws, weight[some])
    has_seeds = np.isfinite(seeds)
    between = np.where(has_seeds, np.maximum(0.0, total - np.nan_to_num(seeds)), total)
    mean = (np.bincount(code, target) / np.bincount(code))[code]
    centre = weight[some] @ mean / weight[some].sum(axis=1)
    variance = _unbiased(mean[None, :], weight[some])[0]
    several = np.bincount(code)[code] > 1
    deviation = target - mean
    simulated = inner if inner is not None else max(64, min(2000, 200_000 // max(1, len(target))))
    for position, replicate in enumerate(some):
        present = np.flatnonzero(weight[replicate] > 0)
        share = between[position] / variance[position] if variance[position] > 0 else 0.0
        mu = centre[position] + (mean[present] - centre[position]) * np.sqrt(share)
        pool = np.zeros(1)
        if has_seeds[position]:
            pool = _seed_pool(deviation[present][several[present]], float(seeds[position]))
        number = simulated if replicate == 0 else 2
        true = mu + random.choice(pool, size=(number, len(present)))
        measured = true + draws[random.integers(len(draws), size=number)][:, present]
        own = multiplicities[replicate, present].astype(np.int64)
        if known:
            network[replicate] = np.nan_to_num(tau_b_rows(true, measured, own)).mean()
        if has_seeds[position]:
            order = np.nan_to_num(tau_b_rows(np.broadcast_to(mu, true.shape), measured, own))
            by_configuration[replicate] = order.mean()
    return Ceilings(network, by_configuration)


def _spreads(
    target: NDArray[np.float64],
    code: NDArray[np.int64],
    noise: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variance of the true target among networks, and among the seeds of a configuration, in each sample.

    The variance of the measured target less that of the noise, not below 0. Only the noise's spread *among*
    networks counts: an error that all networks share ranks nothing.

    Args:
        target: shape (networks,).
        code: the number of each network's configuration, 0.. without gaps, shape (networks,).
        noise: draws of the test noise, shape (draws, networks).
        weight: multiplicities, shape (samples, networks), equal for the seeds of a configuration.

    Returns:
        two arrays of shape (samples,); NaN among seeds where no configuration has two.
    """
    size = np.bincount(code)
    freedom = weight @ (1.0 - 1.0 / size[code])

    def within(values: NDArray[np.float64]) -> NDArray[np.float64]:
        mean = np.stack([np.bincount(code, row) / size for row in values])
        squares = (values - mean[:, code]) ** 2
        found: NDArray[np.float64] = np.full(len(weight), np.nan)
        np.divide(squares.mean(axis=0) @ weight.T, freedom, out=found, where=freedom > 0)
        return found

    measured, of_noise = _unbiased(target[None, :], weight)[0], _unbiased(noise, weight).mean(axis=0)
    total = np.maximum(0.0, measured - of_noise)
    return total, np.maximum(0.0, within(target[None, :]) - within(noise))


def _seed_pool(deviation: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """Deviations from the mean, of configurations with two seeds or more, scaled to `variance`."""
    scale = np.sqrt(np.mean(deviation**2)) if len(deviation) else 0.0
    return deviation * (np.sqrt(variance) / scale) if scale > 0 else np.zeros(1)


def _unbiased(values: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted mean of half squared differences over pairs of different members; shape (rows, samples).

    Args:
        values: shape (rows, members).
        weight: shape (samples, members).

    Returns:
        NaN for samples of fewer than two members.
    """
    total = weight.sum(axis=1)
    pairs = total**2 - (weight**2).sum(axis=1)
    centred = values - values.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        second = (centred**2) @ weight.T - (centred @ weight.T) ** 2 / total
        return np.where(pairs > 0, np.maximum(second, 0.0) * total / pairs, np.nan)
