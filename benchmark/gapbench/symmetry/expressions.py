"""Linear expressions in unknown shifts, interned so that labels of whole activations stay integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gapbench.symmetry.classes import Ids, TiedVariables


@dataclass(frozen=True)
class Relation:
    """sum_i coefficients_i x_variables_i = 0."""

    variables: Ids
    coefficients: np.ndarray


class Expressions:
    """Every expression is a variable; sums and multiples are new variables with a defining row.

    Variable 0 is zero. Equal sums of equal terms are the same variable.
    """

    def __init__(self) -> None:
        self.tied = TiedVariables()
        self.sums: list[np.ndarray] = []  # (m, 3): x_0 = x_1 + x_2
        self.rows: list[Relation] = []
        self.weighted = False  # a relation has parameters as coefficients
        self._interned: dict[tuple[object, ...], int] = {}

    def new(self, count: int) -> Ids:
        """`count` free variables."""
        return self.tied.new(count)

    def _intern(self, keys: list[tuple[object, ...]]) -> tuple[Ids, list[int]]:
        """Variables of the keys, and the positions of those that are new."""
        fresh = [i for i, key in enumerate(keys) if key not in self._interned]
        for variable, i in zip(self.new(len(fresh)), fresh):
            self._interned[keys[i]] = int(variable)
        return np.array([self._interned[key] for key in keys], np.int64), fresh

    def add(self, left: Ids, right: Ids) -> Ids:
        """left + right, elementwise on arrays of one shape."""
        low, high = np.minimum(left, right), np.maximum(left, right)
        pairs, back = _unique_pairs(low, high)
        result = pairs[:, 1].copy()  # 0 + x = x
        open_ = np.flatnonzero(pairs[:, 0] != 0)
        found, fresh = self._intern([("sum", int(a), int(b)) for a, b in pairs[open_]])
        result[open_] = found
        if fresh:
            chosen = pairs[open_][fresh]
            self.sums.append(np.stack([found[fresh], chosen[:, 0], chosen[:, 1]], axis=1))
        total: Ids = result[back].reshape(left.shape)
        return total

    def scale(self, expressions: Ids, factor: float) -> Ids:
        """factor * x, elementwise."""
        if factor == 1.0:
            return expressions
        unique, back = np.unique(expressions, return_inverse=True)
        result = np.zeros_like(unique)
        open_ = np.flatnonzero(unique)
        found, fresh = self._intern([("times", factor, int(a)) for a in unique[open_]])
        result[open_] = found
        for i in fresh:
            self.rows.append(Relation(np.array([found[i], unique[open_][i]]), np.array([1.0, -factor])))
        return result[back].reshape(expressions.shape)

    def mean(self, expressions: Ids) -> Ids:
        """Mean over the last axis of (m, n); the common value where all are equal."""
        result = expressions[:, 0].copy()
        mixed = np.flatnonzero((expressions != expressions[:, :1]).any(axis=1))
        if len(mixed):
            chosen = np.sort(expressions[mixed], axis=1)
            keys: list[tuple[object, ...]] = [("mean", row.tobytes()) for row in chosen]
            found, fresh = self._intern(keys)
            result[mixed] = found
            for i in fresh:
                variables, counts = np.unique(chosen[i], return_counts=True)
                kept = variables != 0
                self.rows.append(
                    Relation(
                        np.concatenate([found[i : i + 1], variables[kept]]),
                        np.concatenate([[1.0], -counts[kept] / expressions.shape[1]]),
                    )
                )
        return result

    def combine(self, key: tuple[object, ...], variables: Ids, coefficients: np.ndarray) -> int:
        """A variable equal to sum_i coefficients_i x_variables_i, with weights as coefficients."""
        found, fresh = self._intern([key])
        if fresh:
            kept = (variables != 0) & (coefficients != 0)
            self.weighted = self.weighted or bool(kept.any())
            self.rows.append(
                Relation(
                    np.concatenate([found, variables[kept]]), np.concatenate([[1.0], -coefficients[kept]])
                )
            )
        return int(found[0])


def _unique_pairs(low: Ids, high: Ids) -> tuple[np.ndarray, np.ndarray]:
    scale = int(high.max(initial=0)) + 1
    codes, back = np.unique(low.ravel() * scale + high.ravel(), return_inverse=True)
    return np.stack([codes // scale, codes % scale], axis=1), back
