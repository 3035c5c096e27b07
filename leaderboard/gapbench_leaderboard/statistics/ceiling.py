"""Ceilings: the tau that perfect knowledge would reach, given test noise and given seeds.

Measured targets are y = mu (configuration) + s (seed) + e (test noise). The spread of the true targets is
estimated by taking the variance of the noise off the variance of the measured ones (empirical Bayes), the
measured targets are shrunk to that spread, and new noise is drawn on top.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .pairs import Multiplicities, Order, count_pairs, lay_out, order_of


@dataclass(frozen=True)
class Ceilings:
    """tau-b of two oracles with the measured target, shape (replicates + 1,), the original sample first."""

    network: NDArray[np.float64]
    """Of a predictor that knows each network's true target: only test sampling is lost."""
    configuration: NDArray[np.float64]
    """Of one that knows each configuration's mean: seeds are lost too. NaN without two seeds of one."""


@dataclass(frozen=True)
class Spread:
    """Variance components of the true target."""

    total: float
    """Among networks."""
    seeds: float
    """Among the seeds of one configuration; NaN without two seeds of one."""

    @property
    def configurations(self) -> float:
        return max(0.0, self.total - self.seeds)


def spread(
    target: NDArray[np.float64],
    configuration: NDArray[np.int64],
    noise: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> Spread:
    """Variance of the true target: that of the measured one less that of the noise, not below 0.

    Args:
        target, configuration, weight: shape (networks,); weight is the bootstrap multiplicity.
        noise: draws of the test noise, shape (draws, networks). Only its spread *among* networks counts: an
            error that all networks share ranks nothing.
    """
    measured, within = _components(target[None, :], configuration, weight)
    noise_total, noise_within = _components(noise, configuration, weight)
    return Spread(
        total=max(0.0, float(measured[0] - noise_total.mean())),
        seeds=max(0.0, float(within[0] - noise_within.mean())) if np.isfinite(within[0]) else float("nan"),
    )


def reliability(
    target: NDArray[np.float64], noise: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of the variance among measured targets that is the true targets', in [0, 1]; shape (samples,).

    Args:
        target: shape (networks,).
        noise: draws of the test noise, shape (draws, networks).
        weight: multiplicities of the networks in several samples, shape (samples, networks).

    Returns:
        NaN for samples of fewer than two networks or of constant targets.
    """
    total = weight.sum(axis=1)
    pairs = total**2 - (weight**2).sum(axis=1)

    def variance(values: NDArray[np.float64]) -> NDArray[np.float64]:
        centred = values - values.mean(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            second = (centred**2) @ weight.T / total - (centred @ weight.T / total) ** 2
            return np.where(pairs > 0, np.maximum(second, 0.0) * total**2 / pairs, np.nan)

    measured, of_noise = variance(target[None, :])[0], variance(noise).mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(measured > 0, np.clip(1.0 - of_noise / measured, 0.0, 1.0), np.nan)


def ceilings(
    target: NDArray[np.float64],
    configuration: NDArray[np.int64],
    noise: NDArray[np.float64] | None,
    multiplicities: NDArray[np.int64],
    random: np.random.Generator,
    inner: int = 64,
) -> Ceilings:
    """Both ceilings of one group of networks.

    Args:
        noise: draws of the test noise, shape (draws, networks); None where it is unknown: the network ceiling
            then is NaN, and the configuration ceiling takes all that a seed changes for the seed's.
        multiplicities: shape (replicates + 1, networks), row 0 all ones.
        inner: simulated populations that the ceilings of the original sample are averaged over; the
            replicates, of which there are many, take two each.
    """
    codes = np.unique(configuration, return_inverse=True)[1].reshape(-1)
    known = noise is not None
    draws = noise if noise is not None else np.zeros((1, len(target)))
    network = np.full(len(multiplicities), np.nan)
    by_configuration = np.full(len(multiplicities), np.nan)
    for replicate, row in enumerate(multiplicities):
        present = row > 0
        weight = row[present].astype(np.float64)
        if present.sum() < 2:
            continue
        values = _simulate(
            target[present], codes[present], draws[:, present], weight, inner if replicate == 0 else 2, random
        )
        network[replicate] = values[0] if known else np.nan
        by_configuration[replicate] = values[1]
    return Ceilings(network, by_configuration)


def _simulate(
    target: NDArray[np.float64],
    codes: NDArray[np.int64],
    noise: NDArray[np.float64],
    weight: NDArray[np.float64],
    inner: int,
    random: np.random.Generator,
) -> tuple[float, float]:
    found = spread(target, codes, noise, weight)
    drawn = lay_out(weight[None, :].astype(np.int64))
    _, member = np.unique(codes, return_inverse=True)
    member = member.reshape(-1)
    size = np.bincount(member)
    mean = np.bincount(member, target) / size
    has_seeds = np.isfinite(found.seeds)
    between = found.configurations if has_seeds else found.total
    centre = np.average(mean[member], weights=weight)
    variance = _unbiased(mean[member][None, :], weight)[0]
    mu = centre + (mean - centre) * np.sqrt(between / variance if variance > 0 else 0.0)
    pool = _seed_pool(target, member, size, found.seeds) if has_seeds else np.zeros(1)
    by_mean = order_of(mu[member])
    tau = np.empty((inner, 2))
    for draw in range(inner):
        true = mu[member] + random.choice(pool, size=len(target))
        measured = true + noise[random.integers(len(noise))]
        order = order_of(measured)
        tau[draw, 0] = _tau_b(order_of(true), order, drawn)
        tau[draw, 1] = _tau_b(by_mean, order, drawn) if has_seeds else np.nan
    return float(tau[:, 0].mean()), float(tau[:, 1].mean())


def _seed_pool(
    target: NDArray[np.float64], member: NDArray[np.int64], size: NDArray[np.int64], variance: float
) -> NDArray[np.float64]:
    """Deviations from the configuration's mean, of configurations with two seeds or more, at `variance`."""
    mean = np.bincount(member, target) / size
    several = size[member] > 1
    deviation = (target - mean[member])[several]
    scale = np.sqrt(np.mean(deviation**2)) if len(deviation) else 0.0
    return deviation * (np.sqrt(variance) / scale) if scale > 0 else np.zeros(1)


def _components(
    values: NDArray[np.float64], codes: NDArray[np.int64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Variance among networks, and within configurations, of each row of `values`, shape (rows, networks)."""
    _, member = np.unique(codes, return_inverse=True)
    member = member.reshape(-1)
    indicator = np.zeros((len(member), member.max() + 1))
    indicator[np.arange(len(member)), member] = 1.0
    size = indicator.sum(axis=0)
    freedom = float((weight * (1.0 - 1.0 / size[member])).sum())
    total = _unbiased(values, weight)
    if freedom <= 0:
        return total, np.full(len(values), np.nan)
    mean = (values @ indicator) / size
    deviation = values - mean[:, member]
    return total, (weight * deviation**2).sum(axis=1) / freedom


def _unbiased(values: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted mean of half squared differences over pairs of different members, for each row of `values`."""
    total, square = weight.sum(), (weight**2).sum()
    mean = (values * weight).sum(axis=1, keepdims=True) / total
    second = (weight * (values - mean) ** 2).sum(axis=1)
    return second * total / (total**2 - square)


def _tau_b(x: Order, y: Order, multiplicities: Multiplicities) -> float:
    return float(np.nan_to_num(count_pairs(x, y, multiplicities).tau_b()[0]))
