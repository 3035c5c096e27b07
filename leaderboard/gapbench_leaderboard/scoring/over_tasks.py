"""Rows of means over tasks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.replicates import ReplicatedEstimate, mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope, StudySet
from gapbench_leaderboard.statistics.signs import Signs, weighted

Counted = tuple[NDArray[np.float64], Signs | None]
"""A coefficient under all multiplicities, shape (entries,), and the signs that it rests on."""


def estimate_row(
    rows: Rows,
    studies: StudySet,
    proxy: str,
    name: str,
    estimate: ReplicatedEstimate,
    scope: Scope,
    counted: bool = False,
) -> None:
    """An estimate with a standard error of its own."""
    models = studies.models(proxy, scope) if estimate.models is None else estimate.models
    sampling = studies.sampling(scope)
    rows.add_coefficient(
        proxy,
        name,
        estimate.values,
        models,
        scope,
        sampling,
        error=estimate.error,
        signs=estimate.signs,
        counted=counted,
    )


def mean_row(
    rows: Rows,
    studies: StudySet,
    proxy: str,
    name: str,
    tasks: list[Counted],
) -> None:
    """The mean over tasks of a coefficient, where any task has it."""
    if tasks:
        scope, (values, signs) = Scope(), mean_counted(tasks)
        models, sampling = studies.models(proxy, scope), studies.sampling(scope)
        rows.add_coefficient(proxy, name, values, models, scope, sampling, signs=signs)


def mean_counted(tasks: list[Counted]) -> Counted:
    """The mean over tasks of those that are defined, and its signs."""
    signs = weighted([signs for values, signs in tasks if np.isfinite(values[0])])
    return mean_of([values for values, _ in tasks]), signs
