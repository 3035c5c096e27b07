"""The largest algebraic eigenvalue of a symmetric operator by Lanczos with full reorthogonalisation."""

from __future__ import annotations

import time
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


class Lanczos:
    """An orthonormal basis of the Krylov space of a symmetric operator, which grows as more is asked of it.

    `seconds` lists what each product took, so that whoever uses it again can be charged.
    """

    def __init__(self, product: Callable[[Tensor], Tensor], start: Tensor):
        """`product`: v (d,) -> A v, A symmetric. `start` (d,), not zero, fixes type and device of the products.

        The basis is kept in float64.
        """
        self.product, self.start = product, start
        self.alphas: list[float] = []
        self.betas: list[float] = []
        self.seconds: list[float] = []
        self.exhausted = False
        # Filled row by row; a stack of all rows anew for each product would cost more than the product.
        rows = min(BLOCK, len(start))
        self._room = torch.empty(rows, len(start), dtype=torch.float64, device=start.device)
        self._room[0] = start.double() / torch.linalg.vector_norm(start.double())

    @property
    def products(self) -> int:
        """How many products were taken."""
        return len(self.alphas)

    def advance(self) -> None:
        """One more product, with full reorthogonalisation; nothing where the space is exhausted."""
        if self.exhausted:
            return
        started = time.perf_counter()
        current = self._room[len(self.alphas)]
        image = self.product(current.to(self.start.dtype)).double()
        self.alphas.append(float(current @ image))
        for _ in range(2):  # twice is enough (Parlett)
            q = self._room[: len(self.alphas)]
            image = image - q.T @ (q @ image)
        beta = float(torch.linalg.vector_norm(image))
        self.betas.append(beta)
        scale = max(float(np.abs(self._ritz(len(self.alphas))[0]).max()), np.finfo(np.float64).tiny)
        self.exhausted = beta <= 1e-13 * scale or len(self.alphas) >= len(self.start)
        if not self.exhausted:
            if len(self.alphas) == len(self._room):
                self._room = torch.cat([self._room, torch.empty_like(self._room)])
            self._room[len(self.alphas)] = image / beta
        self.seconds.append(time.perf_counter() - started)

    def _ritz(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = scipy.linalg.eigh_tridiagonal(
            np.array(self.alphas[:count]), np.array(self.betas[: count - 1])
        )
        return values, vectors

    def largest(self, tolerance: float, max_products: int) -> Eigenpair:
        """Until the residual is at most `tolerance` times the largest Ritz modulus, or for `max_products`.

        It does not depend on how many products were taken before.

        Returns:
            The largest eigenvalue, its residual and the number of products that it needs.
        """
        count = 0
        while True:
            count += 1
            if count > self.products:
                self.advance()
            values, vectors = self._ritz(count)
            scale = max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
            residual = self.betas[count - 1] * abs(float(vectors[-1, -1]))
            last = self.exhausted and count == self.products
            if last or residual <= tolerance * scale or count >= max_products:
                return Eigenpair(float(values[-1]), 0.0 if last else residual, count)

    def form(self, count: int) -> tuple[Tensor, Tensor]:
        """The basis (m, d) after at most `count` products and the operator within it (m, m), both float64."""
        while self.products < count and not self.exhausted:
            self.advance()
        m = min(count, self.products)
        matrix = torch.diag(torch.tensor(self.alphas[:m], dtype=torch.float64))
        beside = torch.tensor(self.betas[: m - 1], dtype=torch.float64)
        matrix = matrix + torch.diag(beside, 1) + torch.diag(beside, -1)
        return self._room[:m], matrix.to(self._room.device)


def largest_eigenvalue(
    product: Callable[[Tensor], Tensor], start: Tensor, tolerance: float, max_products: int
) -> Eigenpair:
    """`Lanczos.largest` of a new basis.

    Args:
        product: v (d,) -> A v, A symmetric.
        start: (d,), not zero; it fixes type and device of the products, the basis is kept in float64.
        tolerance: relative residual.
        max_products: products at most.

    Returns:
        The largest eigenvalue, its residual and the number of products.
    """
    return Lanczos(product, start).largest(tolerance, max_products)
