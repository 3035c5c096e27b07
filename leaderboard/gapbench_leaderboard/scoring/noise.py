"""The test noise of a study, as far as its tables tell."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gapbench_leaderboard.scoring.study import FRACTIONS, Study
from gapbench_leaderboard.statistics.configurations import numeric
from gapbench_leaderboard.statistics.noise import (
    BinomialNoise,
    ScaledNoise,
    TestNoise,
    joint_noise,
    noise_by_size,
)


def noise_of(
    study: Study,
    correctness: Mapping[str, object] | None,
    slopes: Mapping[str, float] | None = None,
    groups: Mapping[str, object] | None = None,
) -> tuple[TestNoise | None, int | None]:
    """Test noise of a study and its smallest test size, where the tables tell them.

    `slopes`: cell -> by how much its target changes with its test error, where that is not 1. `groups`: cell -> the
    image that each of its test examples shows; images then count, not examples.

    Returns:
        The noise and the size; None for what the tables do not tell.
    """
    noise, size = _of_test_error(study, correctness, groups)
    if noise is not None and slopes:
        factor = np.array([slopes.get(str(cell), 1.0) for cell in study.networks["cell"]])
        noise = ScaledNoise(noise, factor)
    return noise, size


def _of_test_error(
    study: Study, correctness: Mapping[str, object] | None, groups: Mapping[str, object] | None
) -> tuple[TestNoise | None, int | None]:
    """Noise of the test errors.

    With per-example correctness test examples are drawn jointly for all networks with as many of them. Without
    it test errors are independent binomials of `test_size`: around `test_error` where the table has it, around
    the target (clipped to [0, 1], as if the training error were 0) where it has not.

    Returns:
        The noise and the size; None for what the tables do not tell.
    """
    networks = study.networks
    sizes = numeric(networks, "test_size") if "test_size" in networks.columns else np.full(study.size, np.nan)
    known = np.isfinite(sizes).all() and study.size > 0
    smallest = int(sizes.min()) if known else None
    if study.target_name not in FRACTIONS:
        return None, None
    if correctness:
        expected = [int(size) if np.isfinite(size) else None for size in sizes]
        cells = [str(cell) for cell in networks["cell"]]
        make = joint_noise if smallest is None else noise_by_size
        joint = make(cells, _by_text(correctness), expected, _by_text(groups or {}))
        return joint, joint.independent
    if not known or smallest is None or smallest < 1:
        return None, None
    error = numeric(networks, "test_error") if "test_error" in networks.columns else study.target
    error = np.where(np.isfinite(error), error, study.target)
    return BinomialNoise(np.clip(error, 0.0, 1.0), np.round(sizes).astype(np.int64)), smallest


def _by_text(correctness: Mapping[str, object]) -> Mapping[str, object]:
    return {str(cell): entry for cell, entry in correctness.items()}
