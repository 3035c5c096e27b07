"""Scores of proxies on a population of networks, in the long form, and their ranking."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from gapbench_leaderboard.scoring.baselines import MEASURED as MEASURED_BASELINES
from gapbench_leaderboard.scoring.baselines import NAMES as BASELINES
from gapbench_leaderboard.scoring.baselines import baselines as baselines_of
from gapbench_leaderboard.scoring.data import Tables
from gapbench_leaderboard.scoring.engine import score
from gapbench_leaderboard.scoring.noise import noise_of
from gapbench_leaderboard.scoring.rows import COLUMNS
from gapbench_leaderboard.scoring.scope import StudySet
from gapbench_leaderboard.scoring.settings import Settings
from gapbench_leaderboard.scoring.study import check_tables, measured, split_repeats, studies
from gapbench_leaderboard.statistics.configurations import TableError, require_columns

RANKED_STATUS = ("converged",)


def score_population(
    population: pd.DataFrame,
    measurements: pd.DataFrame,
    *,
    targets: Sequence[str] = ("gap",),
    axes: Sequence[str],
    problem: Sequence[str] = (),
    seed_column: str = "seed",
    replicates: int = 1000,
    seed: int = 0,
    correctness: Mapping[str, object] | None = None,
    higher_means: Mapping[str, str] | None = None,
    ranked_status: Collection[str] = RANKED_STATUS,
    strata: Sequence[str] | None = None,
    given: Sequence[str] | None = None,
    baselines: Collection[str] = MEASURED_BASELINES,
    pair_replicates: int = 200,
    prediction_replicates: int = 50,
    workers: int | None = None,
    noise_slopes: Mapping[str, Mapping[str, float]] | None = None,
    test_groups: Mapping[str, object] | None = None,
    progress: Callable[[float], None] | None = None,
) -> pd.DataFrame:
    """Score every proxy by every target.

    Only networks whose status is in `ranked_status`, and measurements with status `ok` and a finite value,
    are ranked. Nothing is imputed; everything left out is counted (estimators `left_out:<reason>`). All
    estimators are described in docs/statistics.md.

    Args:
        population: one row per network: `cell`, `task`, `status`, the targets, the axes; also, where the
            table has them, `family`, `width`, `parameters`, `test_error`, `test_size` and the seed. Networks
            of a task with the same family, width and axes are seeds of one configuration.
        measurements: one row per network and proxy: `cell`, `proxy`, `value`, `status`; `seconds` where they
            are known; with a column `repeat`, rows of `repeat` 1 are second, independent measurements, which
            only the estimator `repeatability` uses.
        targets: columns to be predicted.
        axes: hyper-parameters of the grid; `family` and `width` identify configurations as well.
        problem: those of the axes that change the data learned from (training size, label noise, data seed).
            Networks of a task that agree on them are of one problem; the headline and all estimators within
            families compare only such. None: each task is one problem.
        seed_column: the network's seed; two networks of one configuration must not share it.
        replicates: bootstrap samples of configurations for rank coefficients.
        seed: of the bootstrap; the same tables and seed give the same scores.
        correctness: for each cell its test correctness, a bool array of shape (test_size,), or the pair
            (packed train bits, packed test bits) of `numpy.packbits`, whose test size the population's
            `test_size` gives. Test examples then are resampled jointly for all networks of a task. All
            ranked networks need it, or none; without it test errors are independent binomials.
        higher_means: the direction of each proxy, "worse" (a larger value predicts a larger target; the
            default) or "better" (the value is negated before it is scored).
        strata: columns of the within-stratum tau, beside problem and family; the width if not given.
        given: columns held fixed by partial tau, beside problem and family; log(parameters) if not given.
        baselines: measured proxies that are set apart from the others: they have no rank, and are not counted
            among the proxies that are better than another.
        pair_replicates: of mutual information, sign error, ceilings, calibration, precision and regret.
        prediction_replicates: of incremental information and transport.
        workers: threads; the number of usable processors if not given.
        noise_slopes: for a target that does not change one to one with the test error, cell -> by how much it does:
            1 - rho k / (k - 1) for `gap_noisy`.
        test_groups: for cells whose test examples are not independent, the image that each of them shows, whole
            numbers of shape (test_size,). Images are then resampled, each with all its examples.
        ranked_status: statuses of the networks that are ranked.
        progress: hears, between 0 and 1, which share is done.

    Returns:
        The long form: `task`, `family`, `target`, `proxy`, `estimator`, `value`, `low`, `high`, `models`. An
        empty task means the mean over tasks, an empty family all families, an empty proxy a number of the
        population itself (ceilings). Intervals are 95 % bootstrap intervals over configurations in which
        seeds stay with theirs and copies never pair; NaN where an estimator has none.

    Raises:
        TableError: for missing columns, duplicated cells, seeds or measurements, measurements of unknown
            cells, text where numbers are needed, or an unknown direction.
    """
    check_tables(population, measurements, targets, axes, problem)
    require_columns(population, [*(strata or ()), *(given or ())])
    _refuse_shared_seeds(population, axes, seed_column)
    settings = Settings(
        replicates=replicates,
        pair_replicates=pair_replicates,
        prediction_replicates=prediction_replicates,
        seed=seed,
        workers=workers if workers is not None else max(1, len(os.sched_getaffinity(0))),
    )
    proxies = sorted(map(str, measurements["proxy"].unique()))
    first, second = split_repeats(measurements)
    values = measured(population, first, proxies, higher_means)
    repeats = measured(population, second, sorted(map(str, second["proxy"].unique())), higher_means)
    tables = Tables(population, first, values, axes, ranked_status, problem)
    frames = []
    about = (axes, ranked_status, strata, given, seed_column or "", problem)
    for number, target in enumerate(targets):
        found = []
        for study in studies(population, values, repeats, target, *about):
            slopes = (noise_slopes or {}).get(target)
            noise, test_size = noise_of(study, correctness, slopes, test_groups)
            made = study.with_proxies(baselines_of(study, seed))
            found.append(replace(made, noise=noise, test_size=test_size))
        competing = [proxy for proxy in proxies if proxy not in set(map(str, baselines))]
        said = None if progress is None else partial(_of_target, progress, number, len(targets))
        own = replace(settings, said=said)
        rows = score(StudySet.of(found, replicates, seed), proxies, target, tables, own, competing)
        frames.append(rows.frame())
    return pd.concat(frames, ignore_index=True)


def _of_target(progress: Callable[[float], None], number: int, targets: int, share: float) -> None:
    progress((number + share) / targets)


def ranking(
    scores: pd.DataFrame, *, target: str = "gap", task: str = "", family: str = "", estimator: str = "tau"
) -> pd.DataFrame:
    """The proxies in the order of the board: by rank, then by the headline; unranked rows last.

    Returns:
        Columns `rank` (1 + number of proxies that are better, baselines not counted; NaN for baselines and for
        proxies that cover less than 90 % of the networks), `rank_low` and `rank_high` (the ranks that it may have:
        a simultaneous confidence set of 95 %; those of `rank_low` 1 may be the best), `proxy`, `value`, `low`,
        `high`, `models`, `coverage`, `p_random`, `unreliable`, `baseline`.

    Raises:
        TableError: if columns are missing or the scores hold no such target, task or family.
    """
    require_columns(scores, COLUMNS)
    text = scores[["task", "family", "proxy"]].fillna("").astype(str)
    chosen = scores[(scores["target"] == target) & (text["task"] == task) & (text["family"] == family)]
    chosen = chosen[text.loc[chosen.index, "proxy"] != ""]
    head = chosen[chosen["estimator"] == estimator].set_index("proxy")[["value", "low", "high", "models"]]
    if head.empty:
        raise TableError(
            f"the scores hold no {estimator!r} of target {target!r}, task {task!r}, family {family!r}"
        )
    for name in ("rank", "rank_low", "rank_high", "coverage", "p_random", "unreliable"):
        column = chosen[chosen["estimator"] == name].set_index("proxy")["value"]
        head[name] = column.reindex(head.index)
    head["unreliable"] = head["unreliable"].fillna(0).astype(bool)
    head["baseline"] = head.index.isin(BASELINES) & head["rank"].isna()  # a table may have a measure "width"
    table: pd.DataFrame = head.reset_index().sort_values(
        ["rank", "value", "proxy"], ascending=[True, False, True], na_position="last", kind="stable"
    )
    numbers = ["value", "low", "high", "models", "coverage", "p_random", "unreliable", "baseline"]
    return table.reindex(columns=["rank", "rank_low", "rank_high", "proxy", *numbers]).reset_index(drop=True)


def _refuse_shared_seeds(population: pd.DataFrame, axes: Sequence[str], seed_column: str) -> None:
    if seed_column not in population.columns:
        return
    key = [c for c in ("task", "family", "width") if c in population.columns]
    key = list(dict.fromkeys([*key, *axes, seed_column]))
    shared = population[population.duplicated(key)]
    if len(shared):
        shown = ", ".join(f"{name}={value}" for name, value in shared.iloc[0][key].items())
        raise TableError(
            f"{len(shared)} networks share their configuration and {seed_column!r} with another, "
            f"first: {shown}"
        )
