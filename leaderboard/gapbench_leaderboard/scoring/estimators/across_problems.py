"""tau between networks of different problems: what a proxy sees of the data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import (
    DIGITS,
    MARKDOWN,
    MIRROR,
    PAGE,
    RANKING,
    SCORE,
    TERMINAL,
    Estimator,
    for_each_proxy,
)
from gapbench_leaderboard.scoring.replicates import Replicates, mean_of
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope, family_slice
from gapbench_leaderboard.statistics.grouped import equal_mean
from gapbench_leaderboard.statistics.pairs import PairCounts
from gapbench_leaderboard.statistics.signs import Signs, between, weighted

ACROSS = Estimator(
    "tau_across_problems",
    "tau-b over the pairs of networks of one task and family that learned from different data (another training "
    "size, label noise or data seed); families equally, then tasks. What a proxy earns by noticing the data; "
    "not part of the headline, and not defined where every task is one problem.",
    interval="confidence",
    heading="across problems",
    headings={"terminal": "across", "score": "across"},
    shown_in=(TERMINAL, MARKDOWN, DIGITS, PAGE, MIRROR, RANKING, SCORE),
    note="over pairs of networks that learned from different data",
    column="across",
    order=15,
    optional=True,
    counted=True,
)


@for_each_proxy(ACROSS, position=25)
def across_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """tau across problems in every scope in which a family learned several."""
    studies = data.studies
    for scope in studies.scopes():
        tasks: list[NDArray[np.float64]] = []
        signs: list[Signs | None] = []
        for part in studies.having(proxy):
            if scope.task and part.study.task != scope.task:
                continue
            families = across(part, proxy)[family_slice(part, scope)]
            if np.isfinite(families[:, 0]).any():
                tasks.append(equal_mean(families))
                signs.append(_signs(part, proxy, scope))
        if tasks:
            values, sampling = mean_of(tasks), studies.sampling(scope)
            models = studies.models(proxy, scope)
            rows.add_coefficient(
                proxy, ACROSS.name, values, models, scope, sampling, signs=weighted(signs), counted=True
            )


def across(part: Replicates, proxy: str) -> NDArray[np.float64]:
    """tau-b of each family over its pairs of networks of different problems.

    Their counts are those of all pairs of the family less those within its problems. A family in which the proxy
    says the same of all such pairs counts 0.

    Returns:
        shape (families, entries); NaN for a family of one problem, or whose target is equal in all such pairs.
    """
    study, mask = part.study, part.measured(proxy)
    result = np.full((len(study.family_names), part.entries), np.nan)
    if study.problems < 2 or not mask.any():
        return result
    of_group = part.family_of("problem", mask)
    within = part.counts(proxy, "problem", mask)
    for number, every in zip(part.groups("family", mask).groups, part.counts(proxy, "family", mask)):
        own = [counts for counts, family in zip(within, of_group) if family == number]
        found = PairCounts(
            difference=every.difference - sum(counts.difference for counts in own),
            untied_x=every.untied_x - sum(counts.untied_x for counts in own),
            untied_y=every.untied_y - sum(counts.untied_y for counts in own),
            pairs=every.pairs - sum(counts.pairs for counts in own),
        )
        result[number] = np.where(found.untied_y > 0, np.nan_to_num(found.tau_b()), np.nan)
    return result


def _signs(part: Replicates, proxy: str, scope: Scope) -> Signs | None:
    """The signs of the mean over the families of a study that are in the scope."""
    study, mask = part.study, part.measured(proxy)
    parts = []
    for number, name in enumerate(study.family_names):
        own = mask & (study.family == number)
        target = study.target[own]
        if scope.family in ("", name) and len(target) and (target != target[0]).any():
            parts.append(between(study.problem[own], study.configuration[own]))
    return weighted(parts)
