"""tau within strata of equal problem, family and width, and the flag of Simpson's paradox."""

from __future__ import annotations

import numpy as np

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.over_tasks import Counted, mean_counted
from gapbench_leaderboard.scoring.registry import (
    BOARDS,
    MIRROR,
    SCORE,
    SUBMIT,
    Estimator,
    HeatMap,
    Mark,
    for_each_proxy,
)
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import Scope, StudySet
from gapbench_leaderboard.statistics.grouped import equal_mean
from gapbench_leaderboard.statistics.strata import simpson_flag

WITHIN = Estimator(
    "tau_within",
    "The same among networks of equal problem, family and width, where knowing the width does not help. If "
    "this vanishes, the proxy may only have seen the width.",
    interval="confidence",
    heading="within width",
    headings={
        "terminal": "within",
        "digits": "tau within width",
        "score": "within",
        "submit": "tau within width",
    },
    shown_in=(*BOARDS, SCORE, SUBMIT),
    note="among networks of equal problem, family and width",
    notes={"score": "among rows of equal problem and strata"},
    column="within",
    order=10,
    each="axis",
    counted=True,
    heat_maps=(
        HeatMap(
            "fixed",
            "axis held fixed: tau",
            "tau among the networks of a problem and family with an equal value of the axis. Against the "
            "headline it says how much of a proxy's success that axis carries.",
            columns="axis",
            single_tasks=True,
        ),
    ),
)
DIFFERENCE = Estimator(
    "tau_pooled_minus_within",
    "Paired difference of the pooled tau-b and that within strata.",
    interval="confidence",
    each="axis",
)
SIMPSON = Estimator(
    "simpson",
    "1 where the pooled value is significant, and that within strata has the opposite sign, or its interval"
    " contains 0 while that of the difference does not; else 0.",
    shown_in=(MIRROR,),
    order=80,
    each="axis",
    mark=Mark(
        "S",
        "Simpson",
        "Simpson: the pooled association is not borne out within problem, family and width",
        "The pooled association is not borne out among networks of equal problem, family and width: what the "
        "proxy sees may be the width, or the data.",
        at_least=1,
        score="Simpson: not borne out within the strata",
        order=10,
        order_in={"score": 25},
    ),
)


@for_each_proxy(WITHIN, DIFFERENCE, SIMPSON, position=40)
def within_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """tau-b within strata, its paired difference from the pooled value, and the Simpson flag.

    Strata lie within (problem, family); by pairs over those of a family, families equally. The same for each
    single axis held fixed, as far as a value of it has networks to be compared.
    """
    studies = data.studies
    within_all, pooled_all = [], []
    _axis_rows(rows, studies, proxy)
    for part in studies.having(proxy):
        mask = part.measured(proxy)
        if not mask.any() or not part.study.strata:
            continue
        by_family = part.within(proxy, "stratum", mask)
        pooled = (part.grouped(proxy, "task", "b").tau[0], part.signs("task", mask))
        within = (equal_mean(by_family), part.signs_within("stratum", mask))
        _within_row(rows, studies, proxy, Scope(part.study.task), pooled, within)
        within_all.append(within)
        pooled_all.append(pooled)
        if part.study.family_names == ("",):
            continue
        families = part.grouped(proxy, "family", "b")
        for row, number in enumerate(map(int, families.groups)):
            scope = Scope(part.study.task, part.study.family_names[number])
            of_family = (by_family[number], part.signs_within("stratum", mask, number))
            all_of_family = (families.tau[row], part.signs("family", mask, number))
            _within_row(rows, studies, proxy, scope, all_of_family, of_family)
    if within_all:
        _within_row(rows, studies, proxy, Scope(), mean_counted(pooled_all), mean_counted(within_all))


def _axis_rows(rows: Rows, studies: StudySet, proxy: str) -> None:
    for part in studies.having(proxy):
        mask = part.measured(proxy)
        if not mask.any():
            continue
        for axis in part.grid_axes:
            within = equal_mean(part.within(proxy, f"axis:{axis}", mask))
            if np.isfinite(within[0]):
                pooled = (part.grouped(proxy, "task", "b").tau[0], part.signs("task", mask))
                own = (within, part.signs_within(f"axis:{axis}", mask))
                _within_row(rows, studies, proxy, Scope(part.study.task), pooled, own, f":{axis}")


def _within_row(
    rows: Rows,
    studies: StudySet,
    proxy: str,
    scope: Scope,
    pooled: Counted,
    within: Counted,
    suffix: str = "",
) -> None:
    """`tau_within`, its difference from the pooled value, which rests on its signs, and the flag."""
    sampling, models = studies.sampling(scope), studies.models(proxy, scope)
    name, (values, signs) = f"tau_within{suffix}", within
    rows.add_coefficient(proxy, name, values, models, scope, sampling, signs=signs, counted=True)
    name, difference = f"tau_pooled_minus_within{suffix}", pooled[0] - values
    rows.add_coefficient(proxy, name, difference, models, scope, sampling, bounded=False, signs=signs)
    flag = simpson_flag(pooled[0], values, sampling, pooled[1], signs)
    rows.add(proxy, f"simpson{suffix}", float(flag), models, scope)
