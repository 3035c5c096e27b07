"""Which training examples are used, and which of their labels are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapbench_base.errors import TaskError
from gapbench_base.seeds import named_generator


def stratified_subset(labels: NDArray[Any], size: int, *names: object) -> NDArray[np.int64]:
    """Choose a seeded subset in which every class keeps its share to within one example.

    Subsets of the same seed are nested: a larger one contains a smaller one.

    Returns:
        Indices (size,), ascending.

    Raises:
        TaskError: `size` is not between the number of classes and the number of examples.
    """
    count, classes = len(labels), np.unique(labels)
    if not len(classes) <= size <= count:
        raise TaskError(
            f"train_size = {size} is not possible: it must lie between {len(classes)} (one example a class) "
            f"and {count} (all there are)."
        )
    generator = named_generator("stratified_subset", *names)
    # Each example gets its quantile within its class; taking the smallest quantiles takes every class evenly.
    quantile = np.empty(count)
    for label in classes:
        members = np.flatnonzero(labels == label)
        order = generator.permutation(len(members))
        quantile[members[order]] = (np.arange(len(members)) + 0.5) / len(members)
    ties = generator.permutation(count)  # classes of equal size tie: broken at random, not by class number
    return np.sort(np.lexsort((ties, quantile))[:size]).astype(np.int64)


def further_subset(
    labels: NDArray[Any], chosen: NDArray[np.int64], size: int, *names: object
) -> NDArray[np.int64]:
    """Up to `size` examples that follow those of a `stratified_subset` of the same names, every class evenly.

    Args:
        labels: of all examples (n,).
        chosen: what `stratified_subset` gave.
        size: how many more.
        names: as there.

    Returns:
        Indices, ascending, none of them chosen; empty where all examples are chosen.
    """
    everything = stratified_subset(labels, min(len(labels), len(chosen) + size), *names)
    return np.setdiff1d(everything, chosen)


def noisy_labels(
    labels: NDArray[np.int64], share: float, num_classes: int, *names: object
) -> NDArray[np.int64]:
    """Replace exactly round(share * n) labels, drawn without replacement, by another class drawn uniformly.

    So `share` is the fraction of wrong labels. The wrong labels of a smaller share are among those of a
    larger one.

    Returns:
        New labels (n,).

    Raises:
        TaskError: unless 0 <= share <= 1.
    """
    if not 0.0 <= share <= 1.0:
        raise TaskError(f"label_noise = {share} is not a fraction: give the share of wrong labels, 0 to 1.")
    generator = named_generator("label_noise", *names)
    order = generator.permutation(len(labels))
    shift = generator.integers(1, num_classes, size=len(labels))
    result = labels.copy()
    wrong = order[: round(share * len(labels))]
    result[wrong] = (labels[wrong] + shift[wrong]) % num_classes
    return result


def wrong_share(share: float, size: int) -> float:
    """The share of wrong labels that `noisy_labels` gives to `size` examples: a whole number of them."""
    return round(share * size) / size


def noisy_error_slope(share: float, num_classes: int) -> float:
    """By how much the expected error on noisy test labels grows with that on clean ones: see `noisy_test_error`."""
    return 1.0 - share * num_classes / (num_classes - 1)


def noisy_test_error(error: float, share: float, num_classes: int) -> float:
    """Expected error on test labels as noisy as those of `noisy_labels`: rho + e (1 - rho k / (k - 1)).

    A test label is wrong with probability rho, and then another of the k classes drawn uniformly, never the right
    one. A right prediction then counts as an error with probability rho; a wrong one as none with probability
    rho / (k - 1), where the label became the class predicted: (1 - e) rho + e (1 - rho / (k - 1)).

    Args:
        error: on clean test labels, e.
        share: of wrong labels, rho.
        num_classes: k, at least 2.

    Returns:
        The expectation over the noise.
    """
    return share + error * noisy_error_slope(share, num_classes)
