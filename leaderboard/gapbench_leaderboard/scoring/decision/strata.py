"""The target within every task, problem and family: its spread, its noise, and what explains it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.decision.tree import NAN, Stratum
from gapbench_leaderboard.scoring.noise import noise_of
from gapbench_leaderboard.scoring.study import Study, identifying, studies
from gapbench_leaderboard.statistics.configurations import group_codes, means
from gapbench_leaderboard.statistics.levels_of_axes import EMPTY, in_words, levels_of_axis
from gapbench_leaderboard.statistics.noise import TestNoise
from gapbench_leaderboard.statistics.variance_shares import variance_shares


def strata_of(
    population: pd.DataFrame,
    target: str,
    axes: Sequence[str],
    problem: Sequence[str],
    ranked_status: Collection[str],
    labels: Mapping[str, str] | None = None,
    correctness: Mapping[str, object] | None = None,
    test_groups: Mapping[str, object] | None = None,
) -> tuple[Stratum, ...]:
    """Every task, problem and family with networks that are ranked.

    Args:
        population: one row per network.
        target: a column of it.
        axes: of the grid, columns of the table.
        problem: those of the axes that change the data.
        ranked_status: statuses of the networks that are ranked.
        labels: of columns and tasks that are called otherwise in words.
        correctness: test correctness by cell, see `score_population`.
        test_groups: see `score_population`.

    Returns:
        The strata, by task.
    """
    nothing = pd.DataFrame(index=population.index)
    found: list[Stratum] = []
    for study in studies(
        population, nothing, nothing, target, axes, ranked_status, seed_column="seed", problem=problem
    ):
        noise, _ = noise_of(study, correctness, None, test_groups)
        group = group_codes(np.column_stack([study.problem, study.family]))
        for number in range(int(group.max()) + 1):
            found.append(_stratum(study, np.flatnonzero(group == number), noise, problem, labels or {}))
    return tuple(found)


def _stratum(
    study: Study,
    members: NDArray[np.intp],
    noise: TestNoise | None,
    problem: Sequence[str],
    labels: Mapping[str, str],
) -> Stratum:
    networks = study.networks.iloc[members].reset_index(drop=True)
    target, configuration = study.target[members], group_codes(study.configuration[members][:, None])
    number = int(configuration.max()) + 1
    mean = means(target, configuration, number)
    freedom = len(target) - number
    between = float(((target - mean[configuration]) ** 2).sum()) / freedom if freedom else NAN
    columns = [c for c in identifying(study.networks, study.axes) if c != "family"]
    axes = {c: levels_of_axis(networks, c) for c in columns}
    free = {c: own for c, own in axes.items() if own.distinct > 1}
    levels = np.column_stack([np.zeros((len(members), 0), dtype=np.int64), *(o.codes for o in free.values())])
    combinations = float(np.prod([float(own.distinct) for own in free.values()]))
    shares = variance_shares(target, configuration, levels, number / combinations)
    return Stratum(
        task=labels.get(study.task, study.task),
        problem=", ".join(
            f"{labels.get(axis, axis)} {value}"
            for axis in problem
            if (value := in_words(networks[axis].iloc[0])) != EMPTY  # an option that the task does not have
        ),
        family=study.family_names[study.family[members[0]]],
        networks=len(members),
        configurations=number,
        spread=float(mean.std(ddof=1)) if number > 1 else NAN,
        noise=NAN if noise is None else float(np.sqrt(np.mean(noise.deviation()[members] ** 2))),
        between_seeds=float(np.sqrt(between)),
        seeds=shares.seeds,
        shares={labels.get(axis, axis): share for axis, share in zip(free, shares.axes)},
    )
