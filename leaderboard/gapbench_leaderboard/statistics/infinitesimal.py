"""Infinitesimal-jackknife standard error: the part of bootstrap replicates that is linear in the multiplicities.

A cross-check of the jackknife of `intervals`, from replicates that are there anyway (Efron 2014, as a regression
on the multiplicities).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LEAST_REPLICATES = 2
"""Replicates per configuration from which the linear part is estimated; below, it is taken to be all."""
_SMALLEST_PART = 0.25


@dataclass(frozen=True)
class LinearPart:
    """Orthonormal basis of the centred multiplicities of all configurations drawn, shape (replicates, k)."""

    basis: NDArray[np.float64] | None
    freedom: int
    """Configurations less tasks."""

    @classmethod
    def of(cls, multiplicities: Sequence[NDArray[np.int64]]) -> LinearPart:
        """From the multiplicities of configurations, shape (replicates + 1, configurations) per task."""
        count = sum(matrix.shape[1] for matrix in multiplicities)
        freedom = count - sum(matrix.shape[1] > 0 for matrix in multiplicities)
        replicates = multiplicities[0].shape[0] - 1 if multiplicities else 0
        if not count or replicates < _LEAST_REPLICATES * count:
            return cls(None, freedom)
        independent = [
            matrix[1:, :-1] if np.ptp(matrix.sum(axis=1)) == 0 else matrix[1:] for matrix in multiplicities
        ]
        joined = np.concatenate(independent, axis=1).astype(np.float64)
        if not joined.shape[1]:
            return cls(None, freedom)
        basis, _ = np.linalg.qr(joined - joined.mean(axis=0))
        return cls(basis, freedom)

    def share(self, replicates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Share of the replicates' variance that is linear in the multiplicities (adjusted R^2).

        Args:
            replicates: shape (..., replicates); NaN counts as the mean.

        Returns:
            shape (...,).
        """
        if self.basis is None:
            return np.ones(replicates.shape[:-1])
        defined = np.isfinite(replicates)
        number = np.maximum(defined.sum(axis=-1, keepdims=True), 1)
        mean = np.where(defined, replicates, 0.0).sum(axis=-1, keepdims=True) / number
        centred = np.where(defined, replicates - mean, 0.0)
        total = (centred**2).sum(axis=-1)
        explained = ((centred @ self.basis) ** 2).sum(axis=-1)
        rows, columns = self.basis.shape
        part = np.divide(explained, total, out=np.ones_like(total), where=total > 0)
        adjusted = 1.0 - (1.0 - part) * (rows - 1) / (rows - 1 - columns)
        clipped: NDArray[np.float64] = np.clip(adjusted, _SMALLEST_PART, 1.0)
        return clipped

    def standard_error(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standard error of values of shape (..., 1 + replicates), original first; with n / (n - 1)."""
        drawn = values[..., 1:]
        defined = np.isfinite(drawn)
        number = defined.sum(axis=-1)
        total = np.where(defined, drawn, 0.0).sum(axis=-1, keepdims=True)
        mean = total / np.maximum(number, 1)[..., None]
        squares = np.where(defined, (drawn - mean) ** 2, 0.0).sum(axis=-1)
        variance = np.divide(squares, number - 1, out=np.full(squares.shape, np.nan), where=number > 1)
        small = (self.freedom + 1) / self.freedom if self.freedom > 0 else 1.0
        error: NDArray[np.float64] = np.sqrt(variance * small * self.share(drawn))
        return error
