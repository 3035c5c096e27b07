"""The headline: tau within problem and family, with its error, coverage and reliability."""

from __future__ import annotations

from gapbench_leaderboard.scoring.data import ScoringData
from gapbench_leaderboard.scoring.registry import (
    BOARDS,
    HEADLINE,
    MIRROR,
    SCORE,
    Estimator,
    HeatMap,
    Mark,
    for_each_proxy,
)
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.statistics.intervals import two_sided_p
from gapbench_leaderboard.statistics.resampling import FEW_CONFIGURATIONS

LEAST_COVERAGE = 0.9
"""Share of the networks that a proxy must be measured on to have a rank."""

TAU = Estimator(
    HEADLINE,
    "The headline by which proxies are ranked: Kendall's tau-b between proxy and target among the networks "
    "of one problem (the same data: training size, label noise, data seed) and family, of all widths; by pairs "
    "over the problems of a family, families of a task equally, then tasks. No proxy earns points for noticing "
    "wrong labels or more data.",
    interval="confidence",
    heading="tau",
    shown_in=(*BOARDS, SCORE),
    order=5,
    counted=True,
    heat_maps=(
        HeatMap("task", "task: headline tau", "The headline within each task.", columns="task"),
        HeatMap(
            "family", "family: headline tau", "The headline within each family of networks.", columns="family"
        ),
    ),
)
STANDARD_ERROR = Estimator(
    "tau_standard_error", "Standard error of the headline, by the jackknife over configurations."
)
INFINITESIMAL = Estimator(
    "tau_standard_error_infinitesimal",
    "Standard error of the headline, by the infinitesimal jackknife, as a cross-check.",
)
P_RANDOM = Estimator(
    "p_random",
    "p-value of the headline against 0, what a random proxy scores.",
    shown_in=(MIRROR,),
)
COVERAGE = Estimator(
    "coverage",
    "Share of the networks that can be ranked that the proxy was measured on.",
    shown_in=(MIRROR,),
    mark=Mark(
        "c",
        "low coverage",
        f"unranked: measured on less than {100 * LEAST_COVERAGE:.0f} % of the networks",
        f"Measured on less than {100 * LEAST_COVERAGE:.0f} % of the networks, so it has no rank here.",
        below=LEAST_COVERAGE,
        of_baselines=False,
        score=f"no rank: measured on less than {100 * LEAST_COVERAGE:.0f} % of the networks",
        order=40,
    ),
)
UNRELIABLE = Estimator(
    "unreliable",
    f"1 where there are fewer than {FEW_CONFIGURATIONS} configurations, else 0.",
    shown_in=(MIRROR,),
    mark=Mark(
        "u",
        "unreliable",
        f"interval unreliable: fewer than {FEW_CONFIGURATIONS} configurations",
        f"Fewer than {FEW_CONFIGURATIONS} configurations: the interval is unreliable.",
        at_least=1,
        score=f"interval unreliable: fewer than {FEW_CONFIGURATIONS} configurations",
        order=20,
    ),
)


@for_each_proxy(TAU, STANDARD_ERROR, INFINITESIMAL, P_RANDOM, COVERAGE, UNRELIABLE, position=10)
def headline_rows(rows: Rows, data: ScoringData, proxy: str) -> None:
    """tau, its jackknife error, coverage, p-value against random and the mark of few configurations."""
    studies = data.studies
    for scope in studies.scopes():
        models = studies.models(proxy, scope)
        values, sampling = studies.headline(proxy, scope), studies.sampling(scope)
        signs = studies.signs(proxy, scope)
        rows.add_coefficient(proxy, "tau", values, models, scope, sampling, signs=signs, counted=True)
        rows.add(proxy, "tau_standard_error", float(sampling.standard_error(values)), models, scope)
        infinitesimal = studies.linear(scope).standard_error(values[: 1 + sampling.replicates])
        rows.add(proxy, "tau_standard_error_infinitesimal", float(infinitesimal), models, scope)
        rows.add(proxy, "p_random", float(two_sided_p(values, sampling, signs=signs)), models, scope)
        rows.add(proxy, "coverage", studies.coverage(proxy, scope), models, scope)
        few = studies.configurations(proxy, scope) < FEW_CONFIGURATIONS
        rows.add(proxy, "unreliable", float(few), models, scope)
