"""Least values of curvature over rescalings: of rows and columns of a layer, and of whole layers."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gapbench_base.errors import NotDefined

MOST_SWEEPS = 100_000
ACCURACY = 1e-12  # relative change of the value in one sweep at which it ends


def least_over_rows_and_columns(curvature: Tensor, squares: Tensor) -> float:
    """min over s (rows), t (columns) of sum_ij ( e^{s_i + t_j} curvature_ij + e^{-s_i - t_j} squares_ij ).

    Both (rows, columns) and not negative, so that the sum is convex in (s, t). Minimised over rows and over columns
    in turn, each in closed form. Rows and columns of which one of both vanishes can be made as small as one likes
    and are left out; so where the minimum is not attained it is the infimum.

    Returns:
        The least value.

    Raises:
        NotDefined: the sweeps do not converge.
    """
    a, b = _core(curvature.double(), squares.double())
    if not a.numel():
        return 0.0
    columns = torch.ones(a.shape[1], dtype=torch.float64, device=a.device)
    before = float("inf")
    for _ in range(MOST_SWEEPS):
        up, down = a @ columns, b @ columns.reciprocal()
        rows = (down / up).sqrt()
        value = float(2.0 * (up * down).sqrt().sum())
        if before - value <= ACCURACY * value:
            return value
        before = value
        columns = ((rows.reciprocal() @ b) / (rows @ a)).sqrt()
        columns = columns / columns.log().mean().exp()
    raise NotDefined("the least value over rows and columns was not found: it converges too slowly")


def _core(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Without the rows and columns in which one of both is zero, until there are none."""
    while a.numel():
        rows = (a.sum(1) > 0) & (b.sum(1) > 0)
        columns = (a.sum(0) > 0) & (b.sum(0) > 0)
        if bool(rows.all()) and bool(columns.all()):
            break
        a, b = a[rows][:, columns], b[rows][:, columns]
    return a, b


def least_over_layer_scales(weights: list[float], biases: list[float]) -> float:
    """min over alpha, prod_l alpha_l = 1, of sum_l weights_l / alpha_l^2 + biases_l / (alpha_1 ... alpha_l)^2.

    The traces of a homogeneous network's blocks: W_l becomes alpha_l W_l and b_l becomes alpha_1 ... alpha_l b_l.
    Convex in ln alpha; without biases D (prod_l weights_l)^(1/D) for D layers. By Newton's method.

    Returns:
        The least value.

    Raises:
        NotDefined: a weight's trace is not positive, or a bias's negative: there is no minimum.
    """
    if min(weights) <= 0 or min(biases) < 0:
        raise NotDefined("a layer's block of the Hessian has no positive trace, so that there is no minimum")
    depth = len(weights)
    if depth == 1:
        return weights[0] + biases[0]
    # Exponents -2 E u, u the logarithms of all alphas but the last.
    free = np.vstack([np.eye(depth - 1), -np.ones(depth - 1)])
    exponents = np.vstack([free, np.cumsum(free, axis=0)])
    logs = np.log(np.maximum(np.concatenate([weights, biases]), 1e-300))
    u = np.zeros(depth - 1)
    # Started where the weights alone are least.
    u[:] = 0.5 * (logs[: depth - 1] - logs[:depth].mean())

    def terms(at: np.ndarray) -> np.ndarray:
        values: np.ndarray = np.exp(np.clip(logs - 2.0 * exponents @ at, -700.0, 700.0))
        return values

    for _ in range(200):
        now = terms(u)
        gradient = -2.0 * exponents.T @ now
        hessian = 4.0 * (exponents.T * now) @ exponents
        step = np.linalg.solve(hessian, gradient)
        decrement = float(gradient @ step)
        if decrement <= 1e-14 * now.sum():
            break
        length = 1.0
        while terms(u - length * step).sum() > now.sum() - 0.25 * length * decrement and length > 1e-12:
            length *= 0.5
        u = u - length * step
    return float(terms(u).sum())
