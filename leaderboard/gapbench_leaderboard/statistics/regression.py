"""Cross-fitted ridge regression on hyper-parameters: every prediction is made without its configuration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_FEW_LEVELS = 12
_PRODUCT_SCALE = 1 / 3
_PENALTIES = 10.0 ** np.arange(-3, 3.5, 0.5)


def folds_of(configuration: NDArray[np.int64], folds: int, random: np.random.Generator) -> NDArray[np.int64]:
    """A fold for each network, shape (networks,); the networks of one configuration share theirs."""
    codes, member = np.unique(configuration, return_inverse=True)
    count = max(1, min(folds, len(codes)))
    return random.permutation(np.arange(len(codes)) % count)[member.reshape(-1)]


def design(frame: pd.DataFrame, axes: Sequence[str]) -> NDArray[np.float64]:
    """Main effects and pairwise products of the axes, standardised.

    A numeric axis with more than 12 levels enters as its standardised value and square, every other axis as
    one indicator per level. Products are scaled by 1/3: a ridge penalty then shrinks them more than main effects.

    Returns:
        shape (rows, features).
    """
    blocks = [_axis(frame[axis]) for axis in axes]
    blocks = [block for block in blocks if block.shape[1]]
    products = [
        (first[:, :, None] * second[:, None, :]).reshape(len(frame), -1)
        for first, second in combinations(blocks, 2)
    ]
    if not blocks:
        return np.zeros((len(frame), 0))
    main = _standardised(np.concatenate(blocks, axis=1))
    if not products:
        return main
    return np.concatenate([main, _standardised(np.concatenate(products, axis=1)) * _PRODUCT_SCALE], axis=1)


def _standardised(features: NDArray[np.float64]) -> NDArray[np.float64]:
    centred: NDArray[np.float64] = features - features.mean(axis=0)
    scale: NDArray[np.float64] = centred.std(axis=0)
    return centred[:, scale > 1e-12] / scale[scale > 1e-12]


def cross_fitted(
    features: NDArray[np.float64], target: NDArray[np.float64], fold: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Out-of-fold ridge predictions, shape (rows,); the penalty of each fold minimises its own GCV."""
    prediction = np.full(len(target), np.nan)
    for number in np.unique(fold):
        inside = fold != number
        if not inside.any():
            continue
        centre = target[inside].mean()
        mean = features[inside].mean(axis=0)
        weights = _ridge(features[inside] - mean, target[inside] - centre)
        prediction[~inside] = centre + (features[~inside] - mean) @ weights
    return prediction


def _ridge(features: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ridge weights; the penalty minimises generalised cross-validation (Golub, Heath, Wahba 1979)."""
    if not features.shape[1]:
        return np.zeros(0)
    u, s, vt = np.linalg.svd(features, full_matrices=False)
    projected = u.T @ target
    penalty = _smallest_gcv(s, projected, float(target @ target), len(target))
    return vt.T @ (s / (s**2 + penalty) * projected)


def best_penalty(features: NDArray[np.float64], target: NDArray[np.float64]) -> float:
    """The ridge penalty that minimises generalised cross-validation on the whole table."""
    if not features.shape[1]:
        return 1.0
    centred = features - features.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    y = target - target.mean()
    return _smallest_gcv(s, u.T @ y, float(y @ y), len(y))


def _smallest_gcv(s: NDArray[np.float64], projected: NDArray[np.float64], total: float, rows: int) -> float:
    """The penalty for singular values s of centred features and the target's projections on them."""
    # scikit-learn's RidgeCV minimises the leave-one-out error instead: it chooses other penalties, so that scores
    # that were published would change
    rest = max(0.0, total - float(projected @ projected))
    best, chosen = np.inf, float(_PENALTIES[-1] * rows)
    for penalty in _PENALTIES * rows / 10:
        shrink = s**2 / (s**2 + penalty)
        freedom = 1.0 - (1.0 + shrink.sum()) / rows
        if freedom <= 0:
            continue
        score = (rest + float((((1 - shrink) * projected) ** 2).sum())) / freedom**2
        if score < best:
            best, chosen = score, float(penalty)
    return chosen


def _axis(series: pd.Series) -> NDArray[np.float64]:
    if pd.api.types.is_numeric_dtype(series) and series.nunique() > _FEW_LEVELS:
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        values = np.where(np.isfinite(values), values, np.nanmean(values))
        standard = (values - values.mean()) / values.std()
        return np.stack([standard, standard**2], axis=1)
    codes, levels = pd.factorize(series, use_na_sentinel=False)
    if len(levels) < 2:
        return np.zeros((len(series), 0))
    indicators: NDArray[np.float64] = (codes[:, None] == np.arange(len(levels))).astype(np.float64)
    return indicators
