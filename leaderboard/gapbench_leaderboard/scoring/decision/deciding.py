"""From the tables of a population and its scores to what it can decide."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from gapbench_leaderboard.scoring.decision.convergence import is_kept, kept_by_level
from gapbench_leaderboard.scoring.decision.gates import gates_of
from gapbench_leaderboard.scoring.decision.resolution import overall, resolution_of, survivorship_of
from gapbench_leaderboard.scoring.decision.strata import strata_of
from gapbench_leaderboard.scoring.decision.tree import PopulationDecision
from gapbench_leaderboard.scoring.population_scores import RANKED_STATUS
from gapbench_leaderboard.statistics.configurations import require_columns


def planned_to_rank(planned: int, trained: int, rankable: int) -> int:
    """How many of the planned networks can be ranked: all but those of tasks under distribution shift.

    Args:
        planned: networks of the suite.
        trained: those that there are; every beginning of a run is balanced over tasks.
        rankable: those of them that are of a task without shift.

    Returns:
        The number; of a complete run that of the rankable ones.
    """
    return round(planned * rankable / trained) if trained else planned


def decide(
    population: pd.DataFrame,
    scores: pd.DataFrame,
    axes: Sequence[str],
    problem: Sequence[str] = (),
    *,
    target: str | None = None,
    ranked_status: Collection[str] = RANKED_STATUS,
    planned: int | None = None,
    correctness: Mapping[str, object] | None = None,
    test_groups: Mapping[str, object] | None = None,
    labels: Mapping[str, str] | None = None,
) -> PopulationDecision:
    """What a population can decide about a target.

    Everything is defined in docs/statistics.md. What the tables do not tell is NaN, and its verdict `not known`.

    Args:
        population: one row per network: `cell`, `task`, `status`, the target; `family`, `width`, `seed`,
            `test_size`, `test_error` and axes as far as there are some.
        scores: the long form of `score_population` on the same networks.
        axes: hyper-parameters of the grid; those that the table lacks are left out.
        problem: those of the axes that change the data.
        target: `gap` if not given, or the first of the scores without such.
        ranked_status: statuses of the networks that are ranked.
        planned: networks that there are to be, for an extrapolation where that is more.
        correctness: test correctness by cell, see `score_population`; without it test errors are binomial.
        test_groups: see `score_population`.
        labels: of columns and tasks that are called otherwise in words.

    Returns:
        The decision, with its verdicts.
    """
    require_columns(population, ["cell", "task", "status"])
    if target is None:
        known = list(map(str, scores["target"].unique()))
        target = "gap" if "gap" in known or not known else known[0]
    require_columns(population, [target])
    present = [axis for axis in dict.fromkeys(axes) if axis in population.columns]
    data = [axis for axis in problem if axis in present]
    kept = is_kept(population, target, ranked_status)
    called = labels or {}
    levels = kept_by_level(population, kept, present, called)
    strata = strata_of(population, target, present, data, ranked_status, called, correctness, test_groups)
    rows = overall(scores, target)
    resolution = resolution_of(rows, len(population), planned)
    number = int(kept.sum())
    return PopulationDecision(
        target=called.get(target, target),
        networks=len(population),
        kept=number,
        levels=levels,
        strata=strata,
        resolution=resolution,
        survivorship=survivorship_of(rows, len(population) - number),
        gates=gates_of(number, len(population), levels, strata, resolution),
    )
