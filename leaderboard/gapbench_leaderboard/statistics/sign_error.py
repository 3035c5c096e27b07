"""Robust sign error (Dziugaite et al. 2020): how often a measure orders a single change wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.configurations import (
    TableError,
    check_axes,
    gather,
    numeric,
    require_columns,
)
from gapbench_leaderboard.statistics.granulated import axis_cells

SMALLEST_EFFECTIVE_SIZE = 12.0
_CHUNK = 2_000_000


@dataclass(frozen=True)
class RobustSignError:
    """Summary over environments; each unordered pair of configurations counts twice (once per direction)."""

    mean: float
    p90: float
    maximum: float
    environments: int
    """Unordered pairs of configurations that are kept."""
    candidates: int
    """Unordered pairs of configurations that differ in one axis only."""
    per_axis: dict[str, float]
    """Mean over the environments in which this axis differs; NaN where none is kept."""
    losses: NDArray[np.float64]
    """Loss of each environment kept, shape (environments,)."""
    effective_sizes: NDArray[np.float64]
    """Effective sample size of each environment kept."""


@dataclass(frozen=True)
class Environments:
    """Environments kept, in the order of the axes: configurations, axis, loss, effective size."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    axis: NDArray[np.int64]
    loss: NDArray[np.float64]
    effective_size: NDArray[np.float64]
    candidates: int


def robust_sign_error(
    frame: pd.DataFrame,
    measure: str,
    target: str,
    axes: Sequence[str],
    seed_column: str | None = "seed",
    test_size: int = 10_000,
) -> RobustSignError:
    """Robust sign error of a measure (Dziugaite et al. 2020, section 4 and appendix).

    An environment is a pair of configurations that differ in one axis only. All pairs of seeds (r, s) enter
    with the weight w = max(0, max(0, 1 - phi(|g_r - g_s|))^2 - 1/2), phi(d) = 2 exp(-2 n (d/2)^2) with n =
    `test_size`: pairs whose order might be test noise do not count. error = (1 - sign(dc) sign(dg)) / 2, so
    a tie of the measure costs 1/2. An environment's loss is the weighted mean error; it is kept if its
    effective sample size (sum w)^2 / sum w^2 is at least 12 or `numpy.isclose` to it.

    `target` must be a fraction in [0, 1] or a difference of such. `seed_column` only guards against two
    rows of one seed; None takes all rows of a configuration as seeds.

    Returns:
        The summary over the environments that are kept; NaN without one.

    Raises:
        TableError: for missing columns, duplicated seeds, a test size below 1, or text for numbers.
    """
    check_axes(axes)
    if test_size < 1:
        raise TableError(f"test_size must be at least 1, not {test_size}")
    if seed_column is not None:
        require_columns(frame, [seed_column])
        _refuse_duplicates(frame, [*axes, seed_column])
    table = gather(frame, measure, target, axes)
    rows = frame.loc[table.kept] if table.kept.any() else frame.iloc[:0]
    found = environments(numeric(rows, measure), numeric(rows, target), table.row_of, table.codes, test_size)
    return summary(found, axes)


def environments(
    measure: NDArray[np.float64],
    target: NDArray[np.float64],
    row_of: NDArray[np.int64],
    codes: NDArray[np.int64],
    test_size: int,
) -> Environments:
    """The environments kept among configurations with the levels `codes`, shape (configurations, axes).

    `measure` and `target` hold single runs, shape (rows,); `row_of` is the configuration of each.

    Returns:
        Losses and weights of the environments, and the configurations of each.
    """
    seeds_x, seeds_y = (
        _by_configuration(measure, row_of, len(codes)),
        _by_configuration(target, row_of, len(codes)),
    )
    first: list[NDArray[np.int64]] = []
    second: list[NDArray[np.int64]] = []
    axis: list[NDArray[np.int64]] = []
    loss: list[NDArray[np.float64]] = []
    size: list[NDArray[np.float64]] = []
    candidates = 0
    for position in range(codes.shape[1]):
        cells = axis_cells(codes, position)
        candidates += len(cells.first)
        step = max(1, _CHUNK // max(1, seeds_x.shape[1] ** 2))
        for start in range(0, len(cells.first), step):
            i, j = cells.first[start : start + step], cells.second[start : start + step]
            losses, sizes = _losses(seeds_x, seeds_y, i, j, test_size)
            keep = (sizes >= SMALLEST_EFFECTIVE_SIZE) | np.isclose(sizes, SMALLEST_EFFECTIVE_SIZE)
            first.append(i[keep])
            second.append(j[keep])
            axis.append(np.full(int(keep.sum()), position, dtype=np.int64))
            loss.append(losses[keep])
            size.append(sizes[keep])
    whole, real = np.zeros(0, dtype=np.int64), np.zeros(0)
    return Environments(
        first=np.concatenate([whole, *first]),
        second=np.concatenate([whole, *second]),
        axis=np.concatenate([whole, *axis]),
        loss=np.concatenate([real, *loss]),
        effective_size=np.concatenate([real, *size]),
        candidates=candidates,
    )


def summary(found: Environments, axes: Sequence[str]) -> RobustSignError:
    """Mean, 90th percentile and maximum over environments, and the mean per axis."""
    doubled = np.repeat(found.loss, 2)
    some = len(doubled) > 0
    nan = float("nan")
    per_axis = {}
    for position, axis in enumerate(axes):
        chosen = found.loss[found.axis == position]
        per_axis[axis] = float(chosen.mean()) if len(chosen) else nan
    return RobustSignError(
        mean=float(doubled.mean()) if some else nan,
        p90=float(np.percentile(doubled, 90)) if some else nan,
        maximum=float(doubled.max()) if some else nan,
        environments=len(found.loss),
        candidates=found.candidates,
        per_axis=per_axis,
        losses=found.loss,
        effective_sizes=found.effective_size,
    )


def _losses(
    x: NDArray[np.float64], y: NDArray[np.float64], i: NDArray[np.int64], j: NDArray[np.int64], test_size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    dy = y[i][:, :, None] - y[j][:, None, :]
    dx = x[i][:, :, None] - x[j][:, None, :]
    present = ~np.isnan(dy)
    dy, dx = np.where(present, dy, 0.0), np.where(present, dx, 0.0)
    certainty = np.maximum(0.0, 1.0 - 2.0 * np.exp(-2.0 * test_size * (np.abs(dy) / 2.0) ** 2)) ** 2
    weight = np.where(present, np.maximum(0.0, certainty - 0.5), 0.0)
    error = (1.0 - np.sign(dx) * np.sign(dy)) / 2.0
    total = weight.sum(axis=(1, 2))
    square = (weight**2).sum(axis=(1, 2))
    loss = np.divide(
        (weight * error).sum(axis=(1, 2)), total, out=np.full(len(total), np.nan), where=total > 0
    )
    size = np.divide(total**2, square, out=np.zeros(len(total)), where=square > 0)
    return loss, size


def _by_configuration(
    values: NDArray[np.float64], row_of: NDArray[np.int64], configurations: int
) -> NDArray[np.float64]:
    """Single runs as a table of shape (configurations, most seeds), filled up with NaN."""
    sizes = (
        np.bincount(row_of, minlength=configurations) if len(row_of) else np.zeros(configurations, dtype=int)
    )
    table = np.full((configurations, int(sizes.max()) if len(sizes) else 0), np.nan)
    order = np.argsort(row_of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    slot = np.arange(len(row_of)) - np.repeat(starts, sizes)
    table[row_of[order], slot] = values[order]
    return table


def _refuse_duplicates(frame: pd.DataFrame, key: Sequence[str]) -> None:
    duplicated = frame.duplicated(list(key), keep=False)
    if duplicated.any():
        row = frame.loc[duplicated, list(key)].iloc[0]
        shown = ", ".join(f"{name}={value}" for name, value in row.items())
        raise TableError(f"{int(duplicated.sum())} rows share their configuration and seed, first: {shown}")


def summary_replicates(
    found: Environments, multiplicities: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """Mean, 90th percentile and maximum in every bootstrap replicate.

    An environment weighs m_i m_j; which environments are kept and their losses do not change, because the
    seeds stay with their configuration.

    Args:
        found: the environments.
        multiplicities: of configurations, shape (replicates, configurations).

    Returns:
        `mean`, `p90`, `maximum` -> shape (replicates,).
    """
    order = np.argsort(found.loss, kind="stable")
    loss = found.loss[order]
    weight = multiplicities[:, found.first[order]] * multiplicities[:, found.second[order]]
    cumulative = 2 * np.cumsum(weight, axis=1)
    result = {name: np.full(len(weight), np.nan) for name in ("mean", "p90", "maximum")}
    for row in range(len(weight)):
        total = int(cumulative[row, -1]) if len(loss) else 0
        if not total:
            continue
        result["mean"][row] = 2 * float(weight[row] @ loss) / total
        position = 0.9 * (total - 1)
        low, high = np.searchsorted(cumulative[row], [int(position), int(np.ceil(position))], side="right")
        part = position - int(position)
        result["p90"][row] = loss[low] + part * (loss[high] - loss[low])
        result["maximum"][row] = loss[np.flatnonzero(weight[row])[-1]]
    return result
