"""Columns of a table that hold what a measure is to predict: test errors, accuracies, gaps; and seeds.

A measure that is the target in other words would lead every ranking.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

UNSEEN = frozenset(
    "test testing te testset val valid validation eval evaluation evaluate dev holdout heldout unseen ood oos "
    "generalization generalisation gen".split()
)
"""Words for data that a network did not learn from."""
RESULTS = frozenset(
    "error errors err errs accuracy accuracies acc accs loss losses ce nll xent crossentropy perplexity ppl gap "
    "risk precision prec top auc auroc f mse rmse mae r bleu wer miou iou".split()
)
"""Words for how well it does there."""
SCORES = frozenset("score scores performance perf size".split())
"""Words that mean it only beside the plain ones for a test set."""
PLAIN = frozenset("test testset val valid validation".split())
ALONE = frozenset(
    "error errors err errs accuracy accuracies acc accs gap prec wer miou risk top generalization".split()
)
"""Words that mean the test set without saying so."""
OTHERS = frozenset(
    "percent pct rate final last mean avg average median top best max min at balanced noisy cross entropy excess "
    "population k the on set of out sample".split()
)
"""Words that add nothing. With any other word (sharpness, flatness, time, batch) it is no outcome."""
DATA_SETS = frozenset("cifar imagenet mnist svhn tiny x ori".split())
BETTER = frozenset("accuracy accuracies acc accs auc auroc f bleu score precision prec miou r".split())
"""Results of which a larger one is better."""
TRAINING = frozenset("train training trn fit".split())
SEEDS = frozenset("seed seeds randomseed rngseed trial trials repeat replicate fold run runid".split())
SCALES = (1.0, 100.0, 0.01)
"""What the target may be multiplied by in other columns: fractions and percentages."""
EQUAL = 0.03
"""Columns give the target where nothing differs by more than so many of its standard deviations: rounding."""
AGREEING = 0.9
"""And where they order rows as it does, by tau-b: one that diverged, or two clusters, decide nothing."""
FEWEST = 5
"""Values of a target from which on an exact relation is no accident."""
_GLUED = re.compile(
    rf"(?:{'|'.join(sorted(PLAIN))})(?:{'|'.join(sorted(RESULTS - {'f', 'r'}))})|(?:loss|gen|acc|error)gap"
)


def is_outcome(name: object) -> bool:
    """Whether a column is called as what is to be predicted is: `test_acc`, `valLoss`, `accuracy %`, `gen_gap`."""
    words = _words(name)
    if not words or _GLUED.fullmatch("".join(words)):
        return bool(words)
    kinds = set(words)
    unseen, results = kinds & UNSEEN, kinds & RESULTS
    if kinds & TRAINING and not (unseen and "gap" in kinds):
        return False
    if kinds - UNSEEN - RESULTS - OTHERS - DATA_SETS - TRAINING - (SCORES if kinds & PLAIN else set()):
        return False
    if unseen:
        plain = bool(results) or bool(kinds & SCORES) or words[-1] in PLAIN
        return plain and kinds != {"gen"}
    return bool(kinds & ALONE) and not kinds & DATA_SETS


def is_seed(name: object) -> bool:
    """Whether a column is called as seeds are: a number that is no quantity."""
    return "".join(_words(name)) in SEEDS


def is_better_where_larger(name: object) -> bool:
    """Whether an outcome is called as accuracies and scores are, of which larger ones are better."""
    words = set(_words(name))
    better = words & BETTER
    return bool(better or words == {"top"}) and not words & set("gap error err loss drop decrease".split())


def of_training(name: object) -> bool:
    """Whether a column is called as something on the training set is."""
    joined = "".join(_words(name))
    return joined.startswith(("train", "fit")) or bool(TRAINING & set(_words(name)))


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
    return _equal(slope * (x - np.median(x)), y - np.median(y), y)


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
    found: list[tuple[str, str, float]] = []
    rows = np.isfinite(target)
    if len(np.unique(target[rows])) < FEWEST:
        return found
    near = EQUAL * _spread(target[rows])
    for (one, first), (other, second) in itertools.permutations(columns.items(), 2):
        for scale in SCALES:
            few = np.abs(first[:FEWEST] - second[:FEWEST] - scale * target[:FEWEST])
            if np.isfinite(few).any() and np.nanmax(few) > scale * near:
                continue
            known = rows & np.isfinite(first) & np.isfinite(second)
            y = target[known]
            if len(np.unique(y)) >= FEWEST and _equal((first[known] - second[known]) / scale, y, y):
                found.append((one, other, scale))
    return found


def _equal(x: NDArray[np.float64], y: NDArray[np.float64], target: NDArray[np.float64]) -> bool:
    if np.abs(x - y).max() > EQUAL * _spread(target):
        return False
    return bool(kendalltau(x, y).statistic >= AGREEING)


def _spread(y: NDArray[np.float64]) -> float:
    """The standard deviation, or that of the middle half where it is smaller: a row that diverged is no measure."""
    low, high = np.percentile(y, [25, 75])
    middle = float(high - low) / 1.349
    return min(float(y.std()), middle) if middle > 0 else float(y.std())


def _words(name: object) -> list[str]:
    """The words of a name, in lower case and without numbers: `testAcc1_%` is test, acc."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", str(name))
    return re.findall(r"[a-z]+", spaced.lower())
