"""What a board's population can decide, as its document says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pandas as pd

from gapbench_leaderboard.board.content import DecisionSaid
from gapbench_leaderboard.board.numbers import plain_members
from gapbench_leaderboard.scores import PopulationDecision, decide, planned_to_rank
from gapbench_leaderboard.scoring.decision.words import decision_values
from gapbench_leaderboard.statistics.configurations import numeric


def decision_of(
    population: pd.DataFrame,
    scores: pd.DataFrame,
    axes: Sequence[str],
    problem: Sequence[str],
    suite: Mapping[str, object],
    known: PopulationDecision | None = None,
) -> DecisionSaid:
    """What the population can decide about the first target, as plain values; `known` if that is given.

    Networks under distribution shift have no place in it. Where the suite plans more networks than there are, it is
    extrapolated to them.

    Returns:
        See `scoring.decision.tree.PopulationDecision`.
    """
    if known is not None:
        return cast(DecisionSaid, plain_members(decision_values(known)))
    rankable = population
    if "shift" in population.columns:
        rankable = population[~(numeric(population, "shift") > 0)].reset_index(drop=True)
    planned = suite.get("planned")
    known_plan = (
        planned_to_rank(planned, len(population), len(rankable)) if isinstance(planned, int) else None
    )
    found = decide(rankable, scores, axes, problem, planned=known_plan)
    return cast(DecisionSaid, plain_members(decision_values(found)))
