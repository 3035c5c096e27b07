"""Granulated Kendall coefficient (Jiang et al. 2020): one hyper-parameter varies at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics._compile import Floats, Whole, compiled
from gapbench_leaderboard.statistics.configurations import gather, group_codes
from gapbench_leaderboard.statistics.dyads import Dyads
from gapbench_leaderboard.statistics.pairs import LANES, Multiplicities
from gapbench_leaderboard.statistics.rank import Variant, check_variant
from gapbench_leaderboard.statistics.signs import Signs, sharing


@dataclass(frozen=True)
class Granulated:
    """Granulated coefficient; a cell is a set of configurations that agree on all axes but one."""

    overall: float
    """Mean of the axes that have a cell; NaN if none has."""
    per_axis: dict[str, float]
    """NaN for an axis without a cell (a single value, or nothing to compare)."""
    cells_used: dict[str, int]
    cells_skipped: dict[str, int]
    """Cells with a single configuration, where nothing can be compared."""
    rows_left_out: int
    """Rows without a finite measure and target."""


def granulated_kendall(
    frame: pd.DataFrame, measure: str, target: str, axes: Sequence[str], variant: Variant = "a"
) -> Granulated:
    """Granulated Kendall coefficient Psi (Jiang et al. 2020, eqs. 4 and 5).

    For each axis the configurations that agree on all other axes form a cell; tau is taken in each cell of
    two or more, averaged over the cells to psi_axis, and Psi is the mean over the axes that have a cell.
    Rows of one configuration (its seeds) are averaged first. Ties count 0, and a cell in which the measure
    or the target is constant counts 0 with either variant: ranking nothing gains nothing.

    Returns:
        Psi and psi of each axis; NaN without a cell.

    Raises:
        TableError: for missing columns, no axes, or text where numbers are needed.
        ValueError: for an unknown variant.
    """
    check_variant(variant)
    table = gather(frame, measure, target, axes)
    per_axis: dict[str, float] = {}
    used: dict[str, int] = {}
    skipped: dict[str, int] = {}
    for position, axis in enumerate(axes):
        cells = axis_cells(table.codes, position)
        per_axis[axis] = cell_mean(table.measure, table.target, cells, variant)
        used[axis] = cells.count
        skipped[axis] = cells.single
    present = [value for value in per_axis.values() if not np.isnan(value)]
    return Granulated(
        overall=float(np.mean(present)) if present else float("nan"),
        per_axis=per_axis,
        cells_used=used,
        cells_skipped=skipped,
        rows_left_out=int(len(table.kept) - table.kept.sum()),
    )


@dataclass(frozen=True)
class Cells:
    """All pairs of configurations within the cells of one axis, sorted by cell."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    starts: NDArray[np.int64]
    """Shape (cells + 1,): the pairs of cell c are starts[c] .. starts[c + 1]."""
    single: int
    """Number of cells with one configuration only."""

    @property
    def count(self) -> int:
        """Number of cells."""
        return len(self.starts) - 1

    def signs(self) -> Signs | None:
        """The signs of the mean over cells; None without a cell."""
        pairs = np.diff(self.starts)
        if not len(pairs):
            return None
        sizes = np.round((1 + np.sqrt(1 + 8 * pairs)) / 2)
        cells = float(len(pairs))  # which weigh equally
        return Signs(
            pairs=cells**2 / float((1 / pairs).sum()),
            disjoint=cells**2 / float((1 / (sizes // 2)).sum()),
            total=int(pairs.sum()),
        )


def axis_cells(codes: NDArray[np.int64], position: int) -> Cells:
    """The cells of axis `position` for configurations with the levels `codes`, shape (configurations, axes).

    Configurations that agree on all axes (of different strata, say) must be told apart by another column.

    Returns:
        The cells that have two configurations or more.
    """
    cell = group_codes(np.delete(codes, position, axis=1))
    return cells_of(cell)


def cells_of(cell: NDArray[np.int64]) -> Cells:
    """All pairs within groups; `cell`, shape (configurations,), is the number of each one's group."""
    order = np.argsort(cell, kind="stable")
    sizes = np.bincount(cell[order]) if len(cell) else np.zeros(0, dtype=np.int64)
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    first: list[NDArray[np.int64]] = []
    second: list[NDArray[np.int64]] = []
    starts = [0]
    for low, high in pairwise(bounds):
        if high - low < 2:
            continue
        i, j = np.triu_indices(high - low, 1)
        first.append(order[low + i])
        second.append(order[low + j])
        starts.append(starts[-1] + len(i))
    none = np.zeros(0, dtype=np.int64)
    return Cells(
        first=np.concatenate(first) if first else none,
        second=np.concatenate(second) if second else none,
        starts=np.asarray(starts, dtype=np.int64),
        single=int((sizes == 1).sum()),
    )


def cell_mean(
    measure: NDArray[np.float64], target: NDArray[np.float64], cells: Cells, variant: Variant
) -> float:
    """Mean over cells of tau within the cell; NaN without a cell."""
    if not cells.count:
        return float("nan")
    dx = np.sign(measure[cells.first] - measure[cells.second])
    dy = np.sign(target[cells.first] - target[cells.second])
    total = np.add.reduceat(dx * dy, cells.starts[:-1])
    if variant == "a":
        scale = np.diff(cells.starts).astype(np.float64)
    else:
        untied_x = np.add.reduceat(np.abs(dx), cells.starts[:-1])
        untied_y = np.add.reduceat(np.abs(dy), cells.starts[:-1])
        scale = np.sqrt(untied_x * untied_y)
    return float(np.mean(np.divide(total, scale, out=np.zeros_like(total), where=scale > 0)))


def cell_mean_error(
    measure: NDArray[np.float64], target: NDArray[np.float64], axes: Sequence[Cells]
) -> float:
    """Standard error of the mean over axes of the mean over cells of tau-a.

    A pair's influence is its weight times the difference of sign(dx) sign(dy) from the mean of its axis.

    Returns:
        The error; NaN without a cell.
    """
    used = [cells for cells in axes if cells.count]
    if not used:
        return float("nan")
    influences = []
    for cells in used:
        size = np.diff(cells.starts)
        weight = np.repeat(1.0 / (len(used) * cells.count * size), size)
        sign = np.sign(measure[cells.first] - measure[cells.second])
        sign = sign * np.sign(target[cells.first] - target[cells.second])
        alike = (sign == sign[0]).all()  # then there is no error, not even one of rounding
        influences.append(weight * (sign - (sign[0] if alike else len(used) * float(weight @ sign))))
    first = np.concatenate([cells.first for cells in used])
    second = np.concatenate([cells.second for cells in used])
    return Dyads.of(first, second, len(measure)).standard_error(np.concatenate(influences))


def signs_over_axes(axes: Sequence[Cells]) -> Signs | None:
    """The signs of the mean over axes, whose cells share configurations."""
    return sharing([signs for cells in axes if (signs := cells.signs()) is not None])


def cell_mean_replicates(
    measure: NDArray[np.float64], target: NDArray[np.float64], cells: Cells, multiplicities: Multiplicities
) -> NDArray[np.float64]:
    """Mean over cells of tau-a in every bootstrap replicate.

    A pair weighs m_i m_j; a cell with fewer than two distinct configurations drops out of that replicate.

    Returns:
        shape (replicates,).
    """
    if not cells.count:
        return np.full(multiplicities.replicates, np.nan)
    dx = np.sign(measure[cells.first] - measure[cells.second])
    dy = np.sign(target[cells.first] - target[cells.second])
    sign = (dx * dy).astype(np.int8)
    kind = multiplicities.blocks.dtype  # in which sums over pairs are exact
    workspace = np.zeros((2, LANES), dtype=kind)
    result = _cell_means(cells.first, cells.second, cells.starts, sign, multiplicities.narrow, workspace)
    return result.reshape(-1)[: multiplicities.replicates]


@compiled
def _cell_means(
    first: Whole, second: Whole, starts: Whole, sign: Whole, weights: Whole, workspace: Whole
) -> Floats:
    result = np.full((weights.shape[0], LANES), np.nan)
    total = workspace[0]
    weight = workspace[1]
    for block in range(weights.shape[0]):
        sums = np.zeros(LANES)
        present = np.zeros(LANES)
        for cell in range(starts.shape[0] - 1):
            total[:] = 0
            weight[:] = 0
            for pair in range(starts[cell], starts[cell + 1]):
                s = workspace.dtype.type(sign[pair])
                one = weights[block, first[pair]]
                other = weights[block, second[pair]]
                for lane in range(LANES):
                    w = workspace.dtype.type(one[lane]) * workspace.dtype.type(other[lane])
                    weight[lane] += w
                    total[lane] += s * w
            for lane in range(LANES):
                if weight[lane] > 0:
                    sums[lane] += total[lane] / weight[lane]
                    present[lane] += 1.0
        for lane in range(LANES):
            if present[lane] > 0:
                result[block, lane] = sums[lane] / present[lane]
    return result
