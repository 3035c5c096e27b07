"""All rows of one target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from gapbench_leaderboard.scoring.ceilings import CeilingTable
from gapbench_leaderboard.scoring.data import ScoringData, Tables
from gapbench_leaderboard.scoring.registry import row_makers
from gapbench_leaderboard.scoring.rows import Rows
from gapbench_leaderboard.scoring.scope import StudySet
from gapbench_leaderboard.scoring.settings import Settings


def score(
    studies: StudySet,
    proxies: Sequence[str],
    target: str,
    tables: Tables,
    settings: Settings,
    competing: Sequence[str],
) -> Rows:
    """Rows of all proxies, measured ones and the baselines made by the scorer; ranks of those competing."""
    made = (name for part in studies.parts for name in part.study.proxies)
    every = list(dict.fromkeys([*proxies, *made]))
    for part in studies.parts:  # what threads share is made before they start
        part.groups("problem", np.ones(part.study.size, dtype=bool))
    for scope in studies.scopes():
        studies.linear(scope)
        studies.sampling(scope)
    data = ScoringData(target, studies, CeilingTable(studies, settings), settings, tables, every, competing)
    makers = row_makers()

    def one(proxy: str) -> Rows:
        own = Rows(target)
        for maker in makers:
            if maker.of_proxy is not None:
                maker.of_proxy(own, data, proxy)
        return own

    rows = Rows(target)
    # With more threads a matrix product adds in another order: scores would differ in their last digits from one
    # machine to another.
    with threadpool_limits(limits=1, user_api="blas"):
        if studies.parts:
            rows.extend(in_threads(one, every, settings.workers))
        for maker in makers:
            if maker.of_all is not None:
                maker.of_all(rows, data)
    return rows


def in_threads(work: Callable[[str], Rows], names: Sequence[str], workers: int) -> list[Rows]:
    """The results of `work` in the order of `names`; the inner loops run without the interpreter's lock."""
    if workers == 1:
        return [work(name) for name in names]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, names))
