"""tau within strata, and the flag of a pooled correlation that comes from between them (Simpson)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.configurations import (
    TableError,
    axis_codes,
    group_codes,
    numeric,
    require_columns,
)
from gapbench_leaderboard.statistics.grouped import Groups
from gapbench_leaderboard.statistics.intervals import Sampling, interval
from gapbench_leaderboard.statistics.pairs import count_pairs, lay_out, order_of
from gapbench_leaderboard.statistics.rank import Variant, check_variant, tau
from gapbench_leaderboard.statistics.resampling import (
    FEW_CONFIGURATIONS,
    deletion_numbers,
    deletions,
    draw_configurations,
    generator,
)
from gapbench_leaderboard.statistics.signs import Signs, in_groups, signs_of


@dataclass(frozen=True)
class WithinStrata:
    """Pooled and within-stratum tau with bootstrap intervals over configurations."""

    pooled: float
    pooled_interval: tuple[float, float]
    within: float
    within_interval: tuple[float, float]
    difference: float
    difference_interval: tuple[float, float]
    simpson: bool
    unreliable: bool
    """Fewer than 30 configurations."""
    strata_used: int
    strata_skipped: int
    """Strata in which nothing can be ranked: a single row, or a constant target."""


def within_stratum_tau(
    frame: pd.DataFrame,
    measure: str,
    target: str,
    strata: Sequence[str],
    variant: Variant = "a",
    configuration: Sequence[str] | None = None,
    replicates: int = 1000,
    seed: int = 0,
) -> WithinStrata:
    """Pooled tau, its pair-weighted mean within strata, and the Simpson flag.

    Rows without a finite measure and target are left out.

    Args:
        frame: one row per network.
        measure: column to be scored.
        target: column to be predicted.
        strata: columns whose equal values make a stratum.
        variant: tau-a or tau-b.
        configuration: columns that identify a configuration, which is drawn as one; None draws single rows.
        replicates: bootstrap samples.
        seed: of the bootstrap.

    Returns:
        Both coefficients with their intervals, and the flag.

    Raises:
        TableError: for missing columns, no strata, or text where numbers are needed.
        ValueError: for an unknown variant.
    """
    check_variant(variant)
    if isinstance(strata, str) or not len(strata):
        raise TableError("strata must be a list of at least one column")
    require_columns(frame, [measure, target, *strata, *(configuration or [])])
    x, y = numeric(frame, measure), numeric(frame, target)
    kept = np.isfinite(x) & np.isfinite(y)
    x, y, frame = x[kept], y[kept], frame.loc[kept]
    group = group_codes(axis_codes(frame, strata))
    clusters = group_codes(axis_codes(frame, configuration)) if configuration else np.arange(len(frame))
    member = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    count = len(np.unique(clusters))
    random = generator(seed, "strata")
    draws = draw_configurations(count, replicates, random)
    numbers = deletion_numbers(count, random)
    deleted = deletions(numbers, int(numbers.max()) + 1 if count else 0)
    drawn = lay_out(np.concatenate([draws, deleted])[:, member])
    sampling = Sampling.of(replicates, [numbers])
    pooled = tau(count_pairs(order_of(x), order_of(y), drawn), variant)
    if len(frame):
        groups = Groups.of(group, y, drawn)
        grouped = groups.tau(x, variant)
        within, used = grouped.mean(), int((grouped.weight[:, 0] > 0).sum())
        signs = in_groups(groups.ranked(), member)
    else:
        within, used, signs = np.full(drawn.replicates, np.nan), 0, None
    pooled_signs = signs_of(member) if len(member) > 1 else None
    difference = pooled - within
    return WithinStrata(
        pooled=float(pooled[0]),
        pooled_interval=interval(pooled, sampling, signs=pooled_signs),
        within=float(within[0]),
        within_interval=interval(within, sampling, signs=signs),
        difference=float(difference[0]),
        difference_interval=interval(difference, sampling, bounded=False, signs=signs),
        simpson=simpson_flag(pooled, within, sampling, pooled_signs, signs),
        unreliable=count < FEW_CONFIGURATIONS,
        strata_used=used,
        strata_skipped=len(np.unique(group)) - used,
    )


def simpson_flag(
    pooled: NDArray[np.float64],
    within: NDArray[np.float64],
    sampling: Sampling | None = None,
    pooled_signs: Signs | None = None,
    within_signs: Signs | None = None,
) -> bool:
    """Whether a pooled correlation is not borne out within the strata.

    The pooled value is significant, and the within-stratum value has the opposite sign, or its interval
    contains 0 while that of the paired difference (pooled - within) does not.

    Args:
        pooled: entry 0 the original value, the others bootstrap replicates (and deletions).
        within: likewise, of the same replicates.
        sampling: how the arrays are laid out; see `interval`.
        pooled_signs: the signs that the pooled value rests on.
        within_signs: those of the value within, which the difference rests on as well.

    Returns:
        True where it is not.
    """
    if not (np.isfinite(pooled[0]) and np.isfinite(within[0])):
        return False
    if _contains_zero(interval(pooled, sampling, signs=pooled_signs)):
        return False
    if pooled[0] * within[0] < 0:
        return True
    difference = interval(pooled - within, sampling, bounded=False, signs=within_signs)
    return _contains_zero(interval(within, sampling, signs=within_signs)) and not _contains_zero(difference)


def _contains_zero(limits: tuple[float, float]) -> bool:
    return not (limits[0] > 0 or limits[1] < 0)
