"""All rows of one target."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from gapbench_base.errors import TableError
from gapbench_leaderboard.scoring.ceilings import CeilingTable
from gapbench_leaderboard.scoring.data import ScoringData, Tables
from gapbench_leaderboard.scoring.registry import ForAllProxies, ForEachProxy, RowMaker, row_makers
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
    tell = _Told(len(every) + sum(maker.of_all is not None for maker in makers), settings.said)

    def one(proxy: str) -> Rows:
        own = Rows(target)
        for maker in makers:
            if (make := maker.of_proxy) is not None:
                own.extend([rows_made(maker, target, partial(_of_one, make, data, proxy))])
        tell.more()
        return own

    rows = Rows(target)
    # With more threads a matrix product adds in another order: scores would differ in their last digits from one
    # machine to another.
    with threadpool_limits(limits=1, user_api="blas"):
        if studies.parts:
            rows.extend(in_threads(one, every, settings.workers))
        for maker in makers:
            if (make := maker.of_all) is not None:
                rows.extend([rows_made(maker, target, partial(_of_all, make, data))])
                tell.more()
    return rows


class _Told:
    """Counts what is done, from any thread, and says which share of all it is."""

    def __init__(self, parts: int, said: Callable[[float], None] | None):
        self.parts, self.said, self.done, self.lock = parts, said, 0, threading.Lock()

    def more(self) -> None:
        """One part more is done."""
        with self.lock:
            self.done += 1
            if self.said is not None:
                self.said(self.done / self.parts)


def _of_one(make: ForEachProxy, data: ScoringData, proxy: str, rows: Rows) -> None:
    make(rows, data, proxy)


def _of_all(make: ForAllProxies, data: ScoringData, rows: Rows) -> None:
    make(rows, data)


def rows_made(maker: RowMaker, target: str, make: Callable[[Rows], None]) -> Rows:
    """The rows that `make` adds; none, with a warning, where a plug-in's maker fails or adds another's rows."""
    rows = Rows(target)
    if not maker.plugin:
        make(rows)
        return rows
    names = {estimator.name for estimator in maker.estimators}
    try:
        make(rows)
        strange = [row[4] for row in rows.rows if not names & set(row[4].split(":", 1))]
        if strange:
            raise TableError(f"its rows bear {strange[0]!r}, which it does not declare")
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        warnings.warn(f"{min(names)} of the plug-in {maker.module} is left out: {text}", stacklevel=2)
        return Rows(target)
    return rows


def in_threads(work: Callable[[str], Rows], names: Sequence[str], workers: int) -> list[Rows]:
    """The results of `work` in the order of `names`; the inner loops run without the interpreter's lock."""
    if workers == 1:
        return [work(name) for name in names]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, names))
