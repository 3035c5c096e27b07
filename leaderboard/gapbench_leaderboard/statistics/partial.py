"""Partial tau: Kendall's coefficient over pairs that are matched on the columns to be held fixed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.configurations import axis_codes, group_codes, numeric, require_columns
from gapbench_leaderboard.statistics.dyads import Dyads
from gapbench_leaderboard.statistics.pair_lists import PairList, count_listed
from gapbench_leaderboard.statistics.pairs import once
from gapbench_leaderboard.statistics.rank import Variant, check_variant, tau

TOLERANCE = 0.2


def partial_tau(
    frame: pd.DataFrame,
    measure: str,
    target: str,
    given: Sequence[str],
    variant: Variant = "b",
    tolerance: float = TOLERANCE,
) -> float:
    """Kendall's tau over the pairs matched on `given` (Quade 1974, index of matched correlation).

    Columns of text, booleans and categories match if equal; numeric ones if they differ by at most
    `tolerance` standard deviations (population formula, over the rows used), 0 for equality. Kendall's own
    partial tau (1942) is not zero under conditional independence, a matched one is up to the width of the
    match. Rows without a finite measure, target or numeric column of `given` are left out.

    Returns:
        The coefficient over matched pairs, ties as in `kendall_tau`; NaN without a matched pair (for tau-b
        without one that differs).

    Raises:
        TableError: for missing columns or text where numbers are needed.
        ValueError: for an unknown variant or a negative tolerance.
    """
    check_variant(variant)
    require_columns(frame, [measure, target, *given])
    x, y = numeric(frame, measure), numeric(frame, target)
    kept = np.isfinite(x) & np.isfinite(y)
    for column in given:
        if is_quantity(frame[column]):
            kept &= np.isfinite(numeric(frame, column))
    pairs = matched_pairs(frame.loc[kept], given, tolerance)
    counts = count_listed(x[kept], y[kept], pairs, once(int(kept.sum())))
    return float(tau(counts, variant)[0])


def is_quantity(series: pd.Series) -> bool:
    """True for numbers other than booleans."""
    return pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_bool_dtype(series)


def matched_pairs(
    frame: pd.DataFrame,
    given: Sequence[str],
    tolerance: float = TOLERANCE,
    group: NDArray[np.int64] | None = None,
) -> PairList:
    """All unordered pairs of rows (by position) that are matched on `given`; all pairs if it is empty.

    With `group`, shape (rows,), only pairs within a group, one group after the other; standard deviations are those
    over all rows.

    Returns:
        The pairs.

    Raises:
        ValueError: for a negative tolerance.
    """
    if tolerance < 0:
        raise ValueError(f"tolerance must not be negative, not {tolerance}")
    quantities = [column for column in given if is_quantity(frame[column])]
    exact = [column for column in given if column not in quantities]
    blocks = np.zeros(0, dtype=np.int64)
    if len(frame):
        own = np.zeros(len(frame), dtype=np.int64) if group is None else group
        blocks = group_codes(np.column_stack([own, axis_codes(frame, exact)]))
    values = [numeric(frame, column) for column in quantities]
    reach = [tolerance * float(value.std()) * (1 + 1e-12) if len(value) else 0.0 for value in values]
    first: list[NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)]
    second: list[NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)]
    for block in np.unique(blocks):
        rows = np.flatnonzero(blocks == block)
        if values:
            rows = rows[np.argsort(values[0][rows], kind="stable")]
            ends = np.searchsorted(values[0][rows], values[0][rows] + reach[0], side="right")
        else:
            ends = np.full(len(rows), len(rows))
        counts = np.maximum(ends - np.arange(len(rows)) - 1, 0)
        i = np.repeat(np.arange(len(rows)), counts)
        j = i + 1 + np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)
        near = np.ones(len(i), dtype=bool)
        for value, most in zip(values[1:], reach[1:]):
            near &= np.abs(value[rows[i]] - value[rows[j]]) <= most
        first.append(rows[i[near]].astype(np.int32))
        second.append(rows[j[near]].astype(np.int32))
    return PairList(np.concatenate(first), np.concatenate(second))


def tau_b_influence(
    x: NDArray[np.float64], y: NDArray[np.float64], pairs: PairList
) -> tuple[float, NDArray[np.float64]]:
    """tau-b over the listed pairs, and the derivative of it by the weight of each pair, shape (pairs,).

    Of D / sqrt(U_x U_y), where D sums sign(dx) sign(dy) and U counts the pairs untied in x, in y.

    Returns:
        Value and influences; NaN and zeros if undefined.
    """
    dx = np.sign(x[pairs.first] - x[pairs.second])
    dy = np.sign(y[pairs.first] - y[pairs.second])
    in_x, in_y = float(np.abs(dx).sum()), float(np.abs(dy).sum())
    if in_x == 0 or in_y == 0:
        return float("nan"), np.zeros(len(dx))
    scale = np.sqrt(in_x * in_y)
    value = float(dx @ dy) / scale
    return value, dx * dy / scale - 0.5 * value * (np.abs(dx) / in_x + np.abs(dy) / in_y)


def tau_b_error(x: NDArray[np.float64], y: NDArray[np.float64], pairs: PairList, dyads: Dyads) -> float:
    """Standard error of tau-b over the listed pairs, whose configurations `dyads` holds; NaN if undefined."""
    value, influence = tau_b_influence(x, y, pairs)
    return dyads.standard_error(influence) if np.isfinite(value) else float("nan")
