"""Incremental information: what a proxy adds to the hyper-parameters in predicting the target."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import ndtri

from gapbench_leaderboard.statistics.configurations import (
    axis_codes,
    check_axes,
    group_codes,
    numeric,
    require_columns,
)
from gapbench_leaderboard.statistics.pairs import order_of
from gapbench_leaderboard.statistics.rank import mid_ranks
from gapbench_leaderboard.statistics.regression import best_penalty, design, folds_of
from gapbench_leaderboard.statistics.resampling import generator

FOLDS = 5
_PROXY_PENALTY = 1e-3


def incremental_information(
    frame: pd.DataFrame, measure: str, target: str, axes: Sequence[str], seed: int = 0
) -> float:
    """Share of the error that hyper-parameters leave and a proxy removes: 1 - MSE(axes, proxy) / MSE(axes).

    Both are ridge regressions on main effects and pairwise products of the axes, cross-fitted in 5 folds
    blocked by configuration; the proxy adds the normal scores of its ranks and their squares. The value is
    about 0 for a proxy that only repeats the hyper-parameters (below 0 by the price of two coefficients), 1
    for one that gives the rest away.

    Returns:
        NaN with fewer than two configurations, or where the axes alone leave no error.

    Raises:
        TableError: for missing columns, no axes, or text where numbers are needed.
    """
    check_axes(axes)
    require_columns(frame, [measure, target, *axes])
    x, y = numeric(frame, measure), numeric(frame, target)
    kept = np.isfinite(x) & np.isfinite(y)
    rows = frame.loc[kept]
    if kept.sum() < 2:
        return float("nan")
    fold = folds_of(group_codes(axis_codes(rows, axes)), FOLDS, generator(seed, "incremental"))
    found = incremental_replicates(
        design(rows, axes), proxy_features(x[kept])[None], y[kept], fold, np.ones((1, int(kept.sum())))
    )
    return float(found[0, 0])


def proxy_features(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal scores of the mid-ranks and their squares, standardised, shape (n, 2); 0 if x is constant."""
    scores = ndtri((mid_ranks(order_of(x)) + 0.5) / len(x))
    features = np.stack([scores, scores**2], axis=1)
    features -= features.mean(axis=0)
    scale = features.std(axis=0)
    return np.where(scale > 1e-12, features / np.where(scale > 1e-12, scale, 1.0), 0.0)


def incremental_replicates(
    features: NDArray[np.float64],
    proxies: NDArray[np.float64],
    target: NDArray[np.float64],
    fold: NDArray[np.int64],
    multiplicities: NDArray[np.float64],
    workers: int = 1,
) -> NDArray[np.float64]:
    """The information of many proxies in every bootstrap replicate.

    The hyper-parameters' equations are solved once per replicate and fold; each proxy adds a small bordered
    system (Schur complement).

    Args:
        features: shape (n, p), standardised; their ridge penalty minimises GCV on the whole table.
        proxies: shape (proxies, n, q).
        multiplicities: shape (replicates, n).
        target: shape (n,).
        fold: of each member, shape (n,).
        workers: threads, each with replicates of its own; the numbers are the same with any.

    Returns:
        shape (replicates, proxies).
    """
    count, members, q = proxies.shape
    penalty = best_penalty(features, target)
    joined = proxies.transpose(1, 0, 2).reshape(members, count * q)
    # rows in one piece: they are chosen anew for each fold of each replicate
    base = np.ascontiguousarray(np.column_stack([np.ones(members), features]))
    ridge = np.full(base.shape[1], penalty)
    ridge[0] = 1e-9
    system = _System(base, np.diag(ridge), joined, q, target, fold)
    with ThreadPoolExecutor(workers) as pool:  # matrix products run without the interpreter's lock
        return np.array(list(pool.map(system.information, multiplicities))).reshape(
            len(multiplicities), count
        )


@dataclass(frozen=True)
class _System:
    """The equations of `incremental_replicates`: hyper-parameters `base`, all proxies side by side in `joined`."""

    base: NDArray[np.float64]
    ridge: NDArray[np.float64]
    joined: NDArray[np.float64]
    q: int
    target: NDArray[np.float64]
    fold: NDArray[np.int64]
    own: threading.local = field(default_factory=threading.local)

    def _spaces(self) -> NDArray[np.float64]:
        """Memory for two copies of the base, one for each thread: asking for it anew takes longer than copying."""
        if not hasattr(self.own, "spaces"):
            self.own.spaces = np.empty((2, *self.base.shape))
        spaces: NDArray[np.float64] = self.own.spaces
        return spaces

    def information(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of each proxy in one replicate, shape (proxies,); NaN where the axes alone leave no error."""
        count = self.joined.shape[1] // self.q
        plain, extended = 0.0, np.zeros(count)
        for number in np.unique(self.fold):
            inside = np.flatnonzero((self.fold != number) & (weight > 0))
            outside = np.flatnonzero((self.fold == number) & (weight > 0))
            if len(inside) and len(outside):
                plain += self._of_fold(inside, outside, weight, extended)
        return 1.0 - extended / plain if plain > 0 else np.full(count, np.nan)

    def _of_fold(
        self,
        inside: NDArray[np.intp],
        outside: NDArray[np.intp],
        weight: NDArray[np.float64],
        extended: NDArray[np.float64],
    ) -> float:
        """The squared error of hyper-parameters in a fold; adds those with each proxy to `extended`."""
        q = self.q
        d, weighted = (space[: len(inside)] for space in self._spaces())
        np.take(self.base, inside, axis=0, out=d, mode="clip")
        z, w, y = self.joined[inside], weight[inside], self.target[inside]
        np.multiply(d, w[:, None], out=weighted)
        factor = linalg.cho_factor(weighted.T @ d + self.ridge, lower=True, check_finite=False)
        cross = weighted.T @ z
        solved = linalg.cho_solve(factor, np.column_stack([weighted.T @ y, cross]), check_finite=False)
        alpha, carried = solved[:, 0], solved[:, 1:]
        beyond = self.base[outside]
        residual = self.target[outside] - beyond @ alpha
        free = self.joined[outside] - beyond @ carried
        right = z.T @ (w * y) - cross.T @ alpha
        v = weight[outside]
        for proxy in range(len(extended)):
            part = slice(proxy * q, (proxy + 1) * q)
            small = (z[:, part] * w[:, None]).T @ z[:, part] - cross[:, part].T @ carried[:, part]
            small += _PROXY_PENALTY * w.sum() * np.eye(q)
            gamma = np.linalg.solve(small, right[part])
            extended[proxy] += float((v * (residual - free[:, part] @ gamma) ** 2).sum())
        return float((v * residual**2).sum())
