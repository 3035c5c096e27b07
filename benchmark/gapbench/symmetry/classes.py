"""Tied variables: x_a = x_b, x_a = -x_b or x_a = 0, collected in bulk and resolved at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

Ids = NDArray[np.int64]


def distinct(values: NDArray[np.int64]) -> Ids:
    """The different values, in order; `np.unique` for long arrays of few whole numbers, but faster."""
    flat = np.sort(values, axis=None)
    kept = np.ones(len(flat), bool)
    np.not_equal(flat[1:], flat[:-1], out=kept[1:])
    return flat[kept]


class TiedVariables:
    """Variables by number; number 0 is the constant 0.

    Relations are only appended, so a caller can resolve at any time and go on adding.
    """

    def __init__(self) -> None:
        self.count = 1
        self._left: list[Ids] = []
        self._right: list[Ids] = []
        self._sign: list[NDArray[np.int8]] = []

    def new(self, count: int) -> Ids:
        """`count` fresh variables."""
        found = np.arange(self.count, self.count + count, dtype=np.int64)
        self.count += count
        return found

    def tie(self, left: Ids, right: Ids, sign: int = 1) -> None:
        """x_left = sign x_right, elementwise."""
        left, right = np.broadcast_arrays(np.asarray(left, np.int64), np.asarray(right, np.int64))
        left, right = left.ravel(), right.ravel()
        if sign == 1:
            differ = left != right
            left, right = left[differ], right[differ]
        codes = distinct(left * self.count + right)
        pairs = np.stack([codes // self.count, codes % self.count], axis=1)
        if len(pairs):
            self._left.append(pairs[:, 0])
            self._right.append(pairs[:, 1])
            self._sign.append(np.full(len(pairs), sign, np.int8))

    def fix(self, variables: Ids) -> None:
        """x = 0."""
        self.tie(variables, np.zeros(1, np.int64))

    def resolve(self) -> tuple[Ids, NDArray[np.int64]]:
        """Resolve all relations, on the double cover: nodes +x and -x; x = 0 where both fall together.

        Returns:
            (representative, sign) of each variable: x = sign * x_representative; representative 0 means x = 0.
        """
        n = self.count
        left = np.concatenate([*self._left, np.zeros(1, np.int64)])
        right = np.concatenate([*self._right, np.zeros(1, np.int64)])
        sign = np.concatenate([*self._sign, np.full(1, -1, np.int8)])  # x_0 = -x_0
        flip = np.where(sign > 0, 0, n)
        rows = np.concatenate([left, left + n])
        columns = np.concatenate([right + flip, (right + flip + n) % (2 * n)])
        graph = coo_matrix((np.ones(len(rows), np.int8), (rows, columns)), shape=(2 * n, 2 * n))
        _, component = connected_components(graph, directed=False)
        order = np.arange(n)
        first = np.full(component.max() + 1, n, np.int64)
        np.minimum.at(first, component[:n], order)
        np.minimum.at(first, component[n:], order)
        representative = first[component[:n]]
        signs = np.where(component[:n] == component[representative], 1, -1)
        zero = component[:n] == component[n : 2 * n]
        representative[zero] = 0
        return representative, np.where(zero, 0, signs)
