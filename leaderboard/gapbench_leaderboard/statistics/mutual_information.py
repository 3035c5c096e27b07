"""Conditional mutual information between the orders that a measure and the target give to pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.statistics.configurations import TableError, gather, group_codes

MutualInformationVariant = Literal["jiang", "pgdl"]

_EPSILON = 1e-12


@dataclass(frozen=True)
class ConditionalMutualInformation:
    """The smallest normalised conditional mutual information and where it is attained."""

    value: float
    """In [0, 1]; a fraction of the entropy of the target's order. NaN if no set of axes leaves entropy."""
    conditioning: tuple[str, ...]
    """The set of axes at which the minimum is attained; the first in the order of the axes given."""
    per_set: dict[tuple[str, ...], float]


def conditional_mutual_information(
    frame: pd.DataFrame,
    measure: str,
    target: str,
    axes: Sequence[str],
    variant: MutualInformationVariant = "jiang",
    self_pairs: bool | None = None,
) -> ConditionalMutualInformation:
    """Normalised conditional mutual information of the signs V_mu = [mu_1 > mu_2] and V_g = [g_1 > g_2].

    Rows of one configuration (its seeds) are averaged first. Pairs are ordered; a tie gives V = 0 both ways.
    For a set S of axes the pairs are divided into cells u by the values of S of *both* models.

    variant "jiang" (Jiang et al. 2020, section 2.2.3): pairs of different configurations; all sets of at most
    two axes; I = sum_u p(u) I_u, H = sum_u p(u) H_u(V_g); K = min over S of I / H.
    variant "pgdl" (the NeurIPS 2020 competition's program): sets of exactly two axes, single-valued ones
    included; cells are averaged uniformly; entropies are in bits with 1e-12 added to each probability. The
    competition prints 100 times the mean over its tasks.

    `self_pairs` pairs each configuration with itself as well. None follows the published programs: yes for
    "pgdl" on one network per configuration, as in the competition; no for "jiang", and no for "pgdl" where
    networks of several seeds were averaged. Give True or False to state it, for a table averaged beforehand
    above all.

    Sets that leave the target no entropy are passed over. A constant measure has the value 0.

    Returns:
        K, the set of axes that it is smallest for, and the values of all sets.

    Raises:
        TableError: for missing columns, too few axes (pgdl needs two), or text where numbers are needed.
        ValueError: for an unknown variant.
    """
    if variant not in ("jiang", "pgdl"):
        raise ValueError(f"variant must be 'jiang' or 'pgdl', not {variant!r}")
    if variant == "pgdl" and not isinstance(axes, str) and len(axes) < 2:
        raise TableError("the PGDL score conditions on two axes; fewer were given")
    table = gather(frame, measure, target, axes)
    if self_pairs is None:
        self_pairs = variant == "pgdl" and len(table.codes) == len(table.row_of)
    sizes = (2,) if variant == "pgdl" else (0, 1, 2)
    per_set: dict[tuple[str, ...], float] = {}
    signs = _pair_signs(table.measure, table.target)
    for size in sizes:
        for chosen in combinations(range(len(axes)), size):
            cell = group_codes(table.codes[:, list(chosen)])
            counts = _cell_counts(cell, signs, self_pairs=self_pairs)
            value = normalised_information(counts) if variant == "jiang" else _pgdl(counts)
            per_set[tuple(axes[position] for position in chosen)] = value
    defined = {chosen: value for chosen, value in per_set.items() if not np.isnan(value)}
    if not defined:
        constant = len(table.measure) > 1 and np.ptp(table.measure) == 0
        return ConditionalMutualInformation(0.0 if constant else float("nan"), (), per_set)
    smallest = min(defined, key=lambda chosen: defined[chosen])
    return ConditionalMutualInformation(defined[smallest], smallest, per_set)


def _pair_signs(measure: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.int8]:
    """2 V_mu + V_g for every ordered pair, shape (n, n)."""
    greater = (measure[:, None] > measure[None, :]).astype(np.int8)
    return 2 * greater + (target[:, None] > target[None, :]).astype(np.int8)


def _cell_counts(
    cell: NDArray[np.int64], signs: NDArray[np.int8], *, self_pairs: bool
) -> NDArray[np.float64]:
    """Joint counts of (V_mu, V_g) in every cell that has a pair, shape (cells, 2, 2)."""
    groups = int(cell.max()) + 1 if len(cell) else 0
    counts: NDArray[np.float64] = np.zeros((groups, groups * 4))
    for index, row in enumerate(signs):
        counts[cell[index]] += np.bincount(cell * 4 + row, minlength=groups * 4)
        if not self_pairs:
            counts[cell[index], cell[index] * 4] -= 1.0  # the sign code of a pair of equals is 0
    counts = counts.reshape(groups * groups, 4)
    counts = counts[counts.sum(axis=1) > 0]
    return counts.reshape(-1, 2, 2)


def normalised_information(counts: NDArray[np.float64]) -> float:
    """I / H of joint counts of shape (cells, 2, 2); NaN where the target has no entropy left."""
    size = counts.sum(axis=(1, 2))
    total = size.sum()
    if not total:
        return float("nan")
    joint = plogp(counts).sum(axis=(1, 2))
    of_measure = plogp(counts.sum(axis=2)).sum(axis=1)
    of_target = plogp(counts.sum(axis=1)).sum(axis=1)
    # with c counts of a cell of size s:  s I = sum c log c - row terms - column terms + s log s
    entropy = float((plogp(size) - of_target).sum())
    information = float((joint - of_measure - of_target + plogp(size)).sum())
    if entropy <= 1e-12 * float(total):
        return float("nan")
    informative = _varies(counts, axis=2) & _varies(counts, axis=1)
    return max(0.0, information / entropy) if informative.any() else 0.0


def _varies(counts: NDArray[np.float64], axis: int) -> NDArray[np.bool_]:
    varies: NDArray[np.bool_] = (counts.sum(axis=axis) > 0).all(axis=1)
    return varies


def plogp(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """p log p of each entry in nats, 0 for 0."""
    result = np.zeros_like(values)
    np.log(values, out=result, where=values > 0)
    return values * result


def _pgdl(counts: NDArray[np.float64]) -> float:
    if not len(counts):
        return float("nan")
    probability = counts / counts.sum(axis=(1, 2), keepdims=True)
    joint = -(probability * np.log2(probability + _EPSILON)).sum(axis=(1, 2))
    measure, target = probability.sum(axis=2), probability.sum(axis=1)
    entropy_measure = -(measure * np.log2(measure + _EPSILON)).sum(axis=1)
    entropy_target = -(target * np.log2(target + _EPSILON)).sum(axis=1)
    information = float((entropy_measure + entropy_target - joint).mean())
    entropy = float(entropy_target.mean())
    if not (target > 0).all(axis=1).any():
        return float("nan")
    if not (measure > 0).all(axis=1).any():
        return 0.0
    return information / entropy
