"""The largest algebraic eigenvalue of a symmetric operator by Lanczos with full reorthogonalisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

BLOCK = 4  # vectors for which there is room at first


@dataclass(frozen=True)
class Eigenpair:
    """`residual` = |A v - value v| for the unit Ritz vector, which bounds the distance to an eigenvalue."""

    value: float
    residual: float
    products: int


def largest_eigenvalue(
    product: Callable[[Tensor], Tensor], start: Tensor, tolerance: float, max_products: int
) -> Eigenpair:
    """Run until the residual is at most `tolerance` times the largest Ritz modulus, or `max_products`.

    Args:
        product: v (d,) -> A v, A symmetric.
        start: (d,), not zero; it fixes type and device of the products, the basis is kept in float64.
        tolerance: relative residual.
        max_products: products at most.

    Returns:
        The largest eigenvalue, its vector and the residual.
    """
    dimension = len(start)
    # Filled row by row; a stack of all rows anew for each product would cost more than the product.
    room = torch.empty(
        min(BLOCK, max_products, dimension), dimension, dtype=torch.float64, device=start.device
    )
    room[0] = start.double() / torch.linalg.vector_norm(start.double())
    alphas: list[float] = []
    betas: list[float] = []
    while True:
        current = room[len(alphas)]
        image = product(current.to(start.dtype)).double()
        alphas.append(float(current @ image))
        for _ in range(2):  # twice is enough (Parlett)
            q = room[: len(alphas)]
            image = image - q.T @ (q @ image)
        beta = float(torch.linalg.vector_norm(image))
        values, vectors = scipy.linalg.eigh_tridiagonal(np.array(alphas), np.array(betas))
        scale = max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
        residual = beta * abs(float(vectors[-1, -1]))
        exhausted = beta <= 1e-13 * scale or len(alphas) >= dimension
        if exhausted or residual <= tolerance * scale or len(alphas) >= max_products:
            return Eigenpair(float(values[-1]), 0.0 if exhausted else residual, len(alphas))
        betas.append(beta)
        if len(alphas) == len(room):
            room = torch.cat([room, torch.empty_like(room)])
        room[len(alphas)] = image / beta
