"""Transport: a proxy calibrated on one domain (a task or a family), scored on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.statistics._compile import Floats, Integers, Whole, compiled
from gapbench_leaderboard.statistics.calibration import accuracy, isotonic_curve, neighbours, pool
from gapbench_leaderboard.statistics.pairs import order_of


@dataclass(frozen=True)
class Domain:
    """Networks of one task or family; arrays of shape (networks,)."""

    name: str
    proxy: NDArray[np.float64]
    target: NDArray[np.float64]
    weight: NDArray[np.float64]


@dataclass(frozen=True)
class Transport:
    """Accuracy on each domain of curves fitted on each other domain."""

    r_squared: dict[str, float]
    """For each domain scored, the mean over the domains that the curve was fitted on."""
    mean_absolute_error: dict[str, float]

    def mean(self) -> tuple[float, float]:
        """Mean over the domains scored of R^2 and of the mean absolute error."""
        return _mean(self.r_squared), _mean(self.mean_absolute_error)

    def worst(self) -> tuple[float, float]:
        """The smallest R^2 and the largest mean absolute error of a domain."""
        r = [value for value in self.r_squared.values() if np.isfinite(value)]
        error = [value for value in self.mean_absolute_error.values() if np.isfinite(value)]
        return (min(r) if r else float("nan")), (max(error) if error else float("nan"))


def transport(domains: Sequence[Domain]) -> Transport:
    """Fit an isotonic curve on each domain and score it on every other one.

    The curve is that of `calibration.isotonic_curve`: monotone, constant beyond the range it was fitted on.
    R^2 is relative to the spread within the domain scored: a proxy whose scale does not carry over falls
    below 0 even where it ranks every domain perfectly.

    Returns:
        Mean R^2 and mean absolute error of each domain, over the curves of the others.
    """
    curves = {domain.name: isotonic_curve(domain.proxy, domain.target, domain.weight) for domain in domains}
    r_squared: dict[str, float] = {}
    error: dict[str, float] = {}
    for domain in domains:
        found = [
            accuracy(curve.predict(domain.proxy), domain.target, domain.weight)
            for name, curve in curves.items()
            if name != domain.name
        ]
        r_squared[domain.name] = _mean({str(k): value[0] for k, value in enumerate(found)})
        error[domain.name] = _mean({str(k): value[1] for k, value in enumerate(found)})
    return Transport(r_squared, error)


def _mean(values: dict[str, float]) -> float:
    finite = [value for value in values.values() if np.isfinite(value)]
    return float(np.mean(finite)) if finite else float("nan")


def transport_replicates(
    domains: Sequence[Domain], weights: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Mean and worst R^2 and mean absolute error of `transport` in every sample, shape (4, samples).

    Args:
        domains: their own weights are not used.
        weights: for each domain the multiplicities in every sample, shape (samples, networks).

    Returns:
        rows mean R^2, mean error, smallest R^2, largest error.
    """
    orders = [order_of(domain.proxy) for domain in domains]
    levels = [np.unique(domain.proxy) for domain in domains]
    number, samples = len(domains), len(weights[0])
    scored = np.full((number, number, 2, samples), np.nan)  # fitted on, scored on
    for fitted in range(number):
        others = [other for other in range(number) if other != fitted]
        place = [np.searchsorted(levels[fitted], domains[k].proxy, side="right") - 1 for k in others]
        found = _transported(
            orders[fitted].rank,
            levels[fitted],
            domains[fitted].target,
            np.ascontiguousarray(weights[fitted]),
            np.concatenate([domains[k].proxy for k in others]),
            np.concatenate([domains[k].target for k in others]),
            np.concatenate(place).astype(np.int64),
            np.cumsum([0, *(len(domains[k].proxy) for k in others)]),
            np.ascontiguousarray(np.concatenate([weights[k] for k in others], axis=1)),
        )
        scored[fitted, others] = found
    by_domain = _mean_of_finite(scored, axis=0)  # (scored on, 2, samples)
    mean = _mean_of_finite(by_domain, axis=0)
    finite = np.isfinite(by_domain)
    worst = np.where(finite[:, 0], by_domain[:, 0], np.inf).min(axis=0)
    largest = np.where(finite[:, 1], by_domain[:, 1], -np.inf).max(axis=0)
    values = np.stack([mean[0], mean[1], worst, largest])
    return np.where(np.isfinite(values), values, np.nan)


def _mean_of_finite(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    finite = np.isfinite(values)
    total, number = np.where(finite, values, 0.0).sum(axis=axis), finite.sum(axis=axis)
    mean: NDArray[np.float64] = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    return mean


@compiled
def _predicted(
    x: float, at: int, levels: Floats, values: Floats, previous: Integers, following: Integers
) -> float:
    """The curve at x, which stands at or above level `at`: linear between fitted levels, constant beyond them."""
    low = previous[at] if at >= 0 else -1
    if low >= 0 and levels[low] == x:
        high = low
    else:
        high = following[at + 1] if at + 1 < levels.shape[0] else -1
    result: float = values[low]
    if low < 0:
        result = values[high]
    elif high >= 0 and low != high:
        slope = (values[high] - values[low]) / (levels[high] - levels[low])
        result = values[low] + slope * (x - levels[low])
    return result


@compiled
def _transported(
    rank: Whole,
    levels: Floats,
    target: Floats,
    weights: Floats,
    x: Floats,
    y: Floats,
    place: Integers,
    starts: Integers,
    other_weights: Floats,
) -> Floats:
    """Fit on one domain, score on the others laid end to end; shape (others, 2, samples)."""
    size = levels.shape[0]
    samples = weights.shape[0]
    others = starts.shape[0] - 1
    result = np.full((others, 2, samples), np.nan)
    mass = np.empty(size)
    moment = np.empty(size)
    values = np.zeros(size)
    previous = np.empty(size, dtype=np.int64)
    following = np.empty(size, dtype=np.int64)
    for sample in range(samples):
        mass[:] = 0.0
        moment[:] = 0.0
        for member in range(rank.shape[0]):
            w = weights[sample, member]
            mass[rank[member]] += w
            moment[rank[member]] += w * target[member]
        pool(mass, moment, values)
        if not neighbours(mass, previous, following):
            continue
        for other in range(others):
            total = 0.0
            first = 0.0
            squared = 0.0
            absolute = 0.0
            lowest = np.inf
            highest = -np.inf
            for member in range(starts[other], starts[other + 1]):
                w = other_weights[sample, member]
                if w <= 0:
                    continue
                prediction = _predicted(x[member], place[member], levels, values, previous, following)
                total += w
                first += w * y[member]
                squared += w * (y[member] - prediction) ** 2
                absolute += w * abs(y[member] - prediction)
                lowest = min(lowest, y[member])
                highest = max(highest, y[member])
            if total <= 0:
                continue
            mean = first / total
            spread = 0.0
            for member in range(starts[other], starts[other + 1]):
                spread += other_weights[sample, member] * (y[member] - mean) ** 2
            if highest > lowest and spread > 0:
                result[other, 0, sample] = 1.0 - squared / spread
            result[other, 1, sample] = absolute / total
    return result
