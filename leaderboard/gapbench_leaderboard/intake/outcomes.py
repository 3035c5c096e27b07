"""Columns of a table that hold what a measure is to predict: test errors, accuracies, gaps; and seeds.

A measure that is the target in other words would lead every ranking.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

UNSEEN = (
    "test", "val", "valid", "validation", "eval", "evaluation", "dev", "holdout", "heldout", "unseen", "ood",
    "generalization", "generalisation", "gen",
)  # fmt: skip
"""Words for data that a network did not learn from."""
RESULTS = (
    "error", "errors", "err", "accuracy", "acc", "loss", "ce", "nll", "crossentropy", "perplexity", "ppl", "gap",
    "risk", "top1", "top5", "score", "performance", "perf", "auc", "auroc", "f1", "mse", "rmse", "bleu", "size",
)  # fmt: skip
"""Words for how well it does there."""
ALONE = ("accuracy", "acc", "error", "err", "top1", "top5", "gap", "lossgap", "test", "val", "gapnoisy")
"""Names that mean the test set without saying so."""
SEEDS = (
    "seed",
    "seeds",
    "randomseed",
    "rngseed",
    "trial",
    "trials",
    "repeat",
    "replicate",
    "fold",
    "run",
    "runid",
)
SCALES = (1.0, 100.0, 0.01)
"""What the target may be multiplied by in other columns: fractions and percentages."""
EQUAL = 0.03
"""Columns give the target where nothing differs by more than so many of its standard deviations: rounding."""
FEWEST = 5
"""Values of a target from which on an exact relation is no accident."""
_UNITS = ("percent", "pct", "rate", "final", "last", "mean", "avg", "top", "1")
_GLUED = re.compile(rf"(?:{'|'.join(UNSEEN)})(?:{'|'.join(RESULTS)})")


def is_outcome(name: object) -> bool:
    """Whether a column is called as what is to be predicted is: `test_acc`, `valLoss`, `accuracy %`, `gen_gap`."""
    words = _words(name)
    if set(words) & set(UNSEEN) and set(words) & set(RESULTS):
        return True
    plain = "".join(word for word in words if word not in _UNITS) or "".join(words)
    return plain in ALONE or _GLUED.fullmatch("".join(words)) is not None


def is_seed(name: object) -> bool:
    """Whether a column is called as seeds are: a number that is no quantity."""
    return "".join(_words(name)) in SEEDS


def is_better_where_larger(name: object) -> bool:
    """Whether an outcome is called as accuracies and scores are, of which larger ones are better."""
    words = set(_words(name))
    return bool(words & {"accuracy", "acc", "auc", "auroc", "f1", "bleu", "score"}) and not words & {
        "gap",
        "error",
    }


def of_training(name: object) -> bool:
    """Whether a column is called as something on the training set is."""
    joined = "".join(_words(name))
    return joined.startswith(("train", "fit")) or bool({"train", "training"} & set(_words(name)))


def same_as_target(values: NDArray[np.float64], target: NDArray[np.float64]) -> bool:
    """Whether a column is a multiple of the target plus a constant, but for rounding.

    Args:
        values: shape (rows,).
        target: likewise.

    Returns:
        False where the target has too few values to tell.
    """
    known = np.isfinite(values) & np.isfinite(target)
    x, y = values[known], target[known]
    if len(np.unique(y)) < FEWEST or len(np.unique(x)) < FEWEST:
        return False
    slope = float(np.cov(x, y)[0, 1] / x.var(ddof=1))
    return bool(np.abs(y - y.mean() - slope * (x - x.mean())).max() <= EQUAL * y.std())


def differences(
    columns: Mapping[str, NDArray[np.float64]], target: NDArray[np.float64]
) -> list[tuple[str, str, float]]:
    """Pairs of columns whose difference is the target in every row, but for rounding.

    Args:
        columns: name -> values, shape (rows,).
        target: likewise.

    Returns:
        (first, second, scale) for each: first - second = scale * target.
    """
    found = []
    if len(np.unique(target[np.isfinite(target)])) < FEWEST:
        return []
    for (one, first), (other, second) in itertools.permutations(columns.items(), 2):
        known = np.isfinite(first) & np.isfinite(second) & np.isfinite(target)
        y = target[known]
        if len(np.unique(y)) < FEWEST:
            continue
        apart = first[known] - second[known]
        for scale in SCALES:
            if np.abs(apart[:FEWEST] - scale * y[:FEWEST]).max() > EQUAL * scale * y.std():
                continue
            if np.abs(apart - scale * y).max() <= EQUAL * scale * y.std():
                found.append((one, other, scale))
    return found


def _words(name: object) -> list[str]:
    """The words of a name, in lower case: `testAcc_%` is test, acc."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", str(name))
    return re.findall(r"[a-z]+[0-9]*|[0-9]+", spaced.lower())
