"""The hard-margin linear classifier of a separable task: the limit direction of gradient descent.

Soudry et al. 2018 (The implicit bias of gradient descent on separable data): with logistic loss, w(t) =
w_hat log t + O(log log t), where w_hat is the hard-margin solution (margin scaled to 1), so that w(t) / log t
approaches w_hat and the angle between them falls like 1 / log t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapbench_base.errors import NotDefined, TaskError

Array = NDArray[np.float64]


class NoMaximumMargin(NotDefined, TaskError):
    """The maximum margin of this task is not defined, with the reason."""


@dataclass(frozen=True)
class MaxMargin:
    """`solution` is the minimum-norm w with every constraint w . z >= 1, `direction` the same at norm 1.

    Two classes: (d,), acting on w = w_1 - w_0, z = (2 y - 1) x. More (Crammer and Singer 2001): (classes, d)
    with constraints (w_y - w_j) . x >= 1 for every j != y. `margin` = 1 / |solution|. `support` counts the
    constraints with positive multiplier, `violation` is the largest relative breach of any constraint.
    """

    solution: Array
    direction: Array
    margin: float
    support: int
    violation: float


def hard_margin(inputs: Array, targets: NDArray[Any], num_classes: int, tolerance: float = 1e-9) -> MaxMargin:
    """Solve the hard-margin problem to `tolerance`.

    Liblinear's soft-margin solution with a large C (LinearSVC without intercept; Crammer-Singer
    for several classes) names the constraints that matter. On those the problem is solved exactly as
    non-negative least squares: for min_{a >= 0} |Z' a|^2 + (1' a - 1)^2 the vector Z' a / (1 - 1' a) meets
    the optimality conditions of min |w|^2 with Z w >= 1. Constraints it violates join until none is left.

    Args:
        inputs: (n, ...), flattened.
        targets: (n,) integer classes.
        num_classes: 2 or more.
        tolerance: by which a constraint w . z >= 1 may be violated.

    Returns:
        The direction and its margin.

    Raises:
        NoMaximumMargin: the data are not separable through the origin.
        TaskError: the solver did not get there.
    """
    inputs = np.asarray(inputs, dtype=np.float64).reshape(len(targets), -1)
    targets = np.asarray(targets)
    z = _constraints(inputs, targets, num_classes)
    working = np.argsort(z @ _soft_margin(inputs, targets, num_classes))[: 4 * num_classes]
    for _ in range(1000):
        w, weights = _least_norm(z[working])
        if w is None:
            raise NoMaximumMargin(
                "The training data are not linearly separable through the origin: no maximum margin exists."
            )
        slack = z @ w - 1.0
        violated = np.setdiff1d(np.flatnonzero(slack < -tolerance), working)
        if len(violated) == 0:
            break
        worst = violated[np.argsort(slack[violated])[: max(32, len(working) // 4)]]
        working = np.concatenate([working[weights > 0], worst])
    else:
        raise TaskError("The hard-margin problem did not converge within 1000 rounds of constraints.")
    norm = float(np.linalg.norm(w))
    shape = (inputs.shape[1],) if num_classes == 2 else (num_classes, inputs.shape[1])
    return MaxMargin(
        solution=w.reshape(shape),
        direction=(w / norm).reshape(shape),
        margin=1.0 / norm,
        support=int((weights > 0).sum()),
        violation=float(max(0.0, -slack.min())),
    )


def _constraints(inputs: Array, targets: NDArray[Any], num_classes: int) -> Array:
    if num_classes == 2:
        return inputs * (2.0 * targets - 1.0)[:, None]
    count, dimension = inputs.shape
    z = np.zeros((count, num_classes - 1, num_classes, dimension))
    for i, label in enumerate(targets):
        others = [k for k in range(num_classes) if k != label]
        z[i, :, label] = inputs[i]
        z[i, np.arange(num_classes - 1), others] = -inputs[i]
    return z.reshape(count * (num_classes - 1), num_classes * dimension)


def _soft_margin(inputs: Array, targets: NDArray[Any], num_classes: int) -> Array:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    kind: dict[str, Any] = {"loss": "hinge"} if num_classes == 2 else {"multi_class": "crammer_singer"}
    if len(np.unique(targets)) < num_classes:
        raise NoMaximumMargin("A class without training points: its maximum margin is not defined.")
    with warnings.catch_warnings():  # only the order of the margins is used here, so precision is not needed
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = LinearSVC(fit_intercept=False, C=1e4, max_iter=2000, random_state=0, **kind).fit(
            inputs, targets
        )
    return np.asarray(fit.coef_, dtype=np.float64).ravel()


def _least_norm(z: Array) -> tuple[Array | None, Array]:
    """Minimum-norm w with z w >= 1 and its multipliers, or None where there is none."""
    from scipy.optimize import nnls

    scale = float(np.sqrt(np.mean((z**2).sum(axis=1))))
    system = np.vstack([z.T / scale, np.ones((1, len(z)))])
    goal = np.zeros(len(system))
    goal[-1] = 1.0
    weights, _ = nnls(system, goal, maxiter=100 * len(z))
    rest = 1.0 - weights.sum()
    if rest <= 1e-12:
        return None, weights
    return (z.T @ weights) / scale / rest / scale, weights
