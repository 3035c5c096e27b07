"""Calibration: how well a proxy, through a monotone curve fitted elsewhere, predicts the target's value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapbench_leaderboard.statistics._compile import Floats, Integers, Whole, compiled
from gapbench_leaderboard.statistics.pairs import Order, order_of
from gapbench_leaderboard.statistics.rank import paired_vectors


@dataclass(frozen=True)
class Calibration:
    """Accuracy of cross-fitted predictions."""

    r_squared: float
    """1 - squared error / spread of the target; below 0 where the mean would have been better."""
    mean_absolute_error: float
    """In the target's unit."""


def cross_fitted_calibration(x: ArrayLike, y: ArrayLike, fold: ArrayLike) -> Calibration:
    """R^2 and mean absolute error of a cross-fitted isotonic regression of y on x.

    In each fold y is predicted by the non-decreasing least-squares fit to the other folds (pool adjacent
    violators; Barlow et al. 1972), linear between the fitted points and constant beyond them. A monotone
    transformation of the proxy changes the result only through that interpolation, and a proxy of the wrong
    direction predicts no better than a constant.

    Args:
        x: the proxy, larger predicts larger; shape (n,).
        y: the target; shape (n,).
        fold: the number of each member's fold; networks of one configuration belong in one fold.

    Returns:
        NaN for both if there are fewer than two folds, NaN R^2 if y is constant.

    Raises:
        ValueError: for different lengths or values that are not finite.
    """
    proxy, target = paired_vectors(x, y)
    folds = np.asarray(fold, dtype=np.int64)
    if folds.shape != proxy.shape:
        raise ValueError(f"fold has the shape {folds.shape}, the vectors {proxy.shape}")
    found = calibration_replicates(proxy, target, folds, np.ones((1, len(proxy)), dtype=np.int64))
    return Calibration(float(found[0, 0]), float(found[0, 1]))


def calibration_replicates(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    fold: NDArray[np.int64],
    multiplicities: NDArray[np.int64],
) -> NDArray[np.float64]:
    """R^2 and mean absolute error in each bootstrap replicate.

    The curves are fitted anew in each replicate; a fold without training members leaves its members out.

    Returns:
        shape (replicates, 2).
    """
    numbers, dense = np.unique(fold, return_inverse=True)
    order = order_of(x)
    levels = np.sort(np.unique(x))
    return _calibrate(
        order.members, order.rank, levels, y, dense.reshape(-1).astype(np.int64), len(numbers), multiplicities
    )


def isotonic_curve(x: NDArray[np.float64], y: NDArray[np.float64], weight: NDArray[np.float64]) -> Curve:
    """The non-decreasing least-squares fit of y on x, members weighted."""
    order = order_of(x)
    return Curve(np.unique(x), *_fit(order, y, weight))


@dataclass(frozen=True)
class Curve:
    """A fitted monotone curve: values at the distinct proxies, and which of them had weight."""

    levels: NDArray[np.float64]
    values: NDArray[np.float64]
    present: NDArray[np.bool_]

    def predict(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Linear between fitted points, constant beyond them; NaN if nothing was fitted."""
        if not self.present.any():
            return np.full(len(x), np.nan)
        return np.interp(x, self.levels[self.present], self.values[self.present])


def accuracy(
    prediction: NDArray[np.float64], target: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[float, float]:
    """R^2 and mean absolute error of predictions, members weighted; members without a prediction left out."""
    used = np.isfinite(prediction) & (weight > 0)
    if not used.any():
        return float("nan"), float("nan")
    w, y, error = weight[used], target[used], target[used] - prediction[used]
    spread = float((w * (y - np.average(y, weights=w)) ** 2).sum()) if np.ptp(y) > 0 else 0.0
    squared = float((w * error**2).sum())
    return (1.0 - squared / spread if spread > 0 else float("nan")), float(
        (w * np.abs(error)).sum() / w.sum()
    )


def _fit(
    order: Order, y: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    mass: Floats = np.bincount(order.rank, weight, minlength=order.levels).astype(np.float64)
    moment: Floats = np.bincount(order.rank, weight * y, minlength=order.levels).astype(np.float64)
    values = np.zeros(order.levels)
    pool(mass, moment, values)
    return values, mass > 0


@compiled
def pool(mass: Floats, moment: Floats, values: Floats) -> None:
    """Pool adjacent violators over levels with positive mass; writes the fit into `values`."""
    size = mass.shape[0]
    heavy = np.empty(size)
    height = np.empty(size)
    last = np.empty(size, dtype=np.int64)
    count = 0
    for level in range(size):
        if mass[level] <= 0:
            continue
        w = mass[level]
        h = moment[level] / mass[level]
        while count > 0 and height[count - 1] >= h:
            h = (heavy[count - 1] * height[count - 1] + w * h) / (heavy[count - 1] + w)
            w += heavy[count - 1]
            count -= 1
        heavy[count] = w
        height[count] = h
        last[count] = level
        count += 1
    start = 0
    for block in range(count):
        for level in range(start, last[block] + 1):
            values[level] = height[block]
        start = last[block] + 1


@compiled
def neighbours(mass: Floats, previous: Integers, following: Integers) -> bool:
    """Find for each level the nearest ones at or before and at or after it that have mass; -1 for none.

    Args:
        mass: of the levels, shape (levels,).
        previous: where the levels at or before are written.
        following: where the levels at or after are written.

    Returns:
        Whether any level has mass; else `following` is not written.
    """
    size = mass.shape[0]
    seen = -1
    for level in range(size):
        if mass[level] > 0:
            seen = level
        previous[level] = seen
    if seen < 0:
        return False
    seen = -1
    for level in range(size - 1, -1, -1):
        if mass[level] > 0:
            seen = level
        following[level] = seen
    return True


@compiled
def _calibrate(
    members: Whole, rank: Whole, levels: Floats, y: Floats, fold: Integers, folds: int, multiplicities: Whole
) -> Floats:
    size = levels.shape[0]
    result = np.full((multiplicities.shape[0], 2), np.nan)
    mass = np.empty(size)
    moment = np.empty(size)
    values = np.empty(size)
    previous = np.empty(size, dtype=np.int64)
    following = np.empty(size, dtype=np.int64)
    for replicate in range(multiplicities.shape[0]):
        weight = multiplicities[replicate]
        total = 0.0
        first = 0.0
        squared = 0.0
        absolute = 0.0
        lowest = np.inf
        highest = -np.inf
        for number in range(folds):
            mass[:] = 0.0
            moment[:] = 0.0
            for member in members:
                if fold[member] != number:
                    mass[rank[member]] += weight[member]
                    moment[rank[member]] += weight[member] * y[member]
            pool(mass, moment, values)
            if not neighbours(mass, previous, following):
                continue
            for member in members:
                if fold[member] != number or weight[member] == 0:
                    continue
                low = previous[rank[member]]
                high = following[rank[member]]
                if low < 0:
                    prediction = values[high]
                elif high < 0 or low == high:
                    prediction = values[low]
                else:
                    part = (levels[rank[member]] - levels[low]) / (levels[high] - levels[low])
                    prediction = values[low] + part * (values[high] - values[low])
                w = weight[member]
                total += w
                first += w * y[member]
                squared += w * (y[member] - prediction) ** 2
                absolute += w * abs(y[member] - prediction)
                lowest = min(lowest, y[member])
                highest = max(highest, y[member])
        if total > 0:
            mean = first / total
            spread = 0.0
            for member in members:
                spread += weight[member] * (y[member] - mean) ** 2
            if spread > 0 and highest > lowest:  # the mean of equals may differ from them in the last digit
                result[replicate, 0] = 1.0 - squared / spread
            result[replicate, 1] = absolute / total
    return result
