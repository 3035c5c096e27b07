"""Standard errors of coefficients over sparse lists of pairs, where the jackknife is too wide.

A pair is a dyad of two configurations, and pairs that share a configuration are correlated (Aronow, Samii,
Assenova 2015). Deleting a configuration takes all its pairs out, so that the jackknife counts the part of the
variance that belongs to single pairs twice (Efron and Stein 1981), and small cells vanish with it. Where every
configuration has many pairs that part is negligible; in the cells of a grid and among matched pairs it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PAIR_PART = 0.5
"""Share of the twice-counted part that is taken off. All of it would be right on average, but for few
configurations its estimate is so uncertain that intervals would cover too seldom (docs/statistics.md)."""


@dataclass(frozen=True)
class Dyads:
    """Pairs of members as pairs of their configurations; each array of shape (dyads,) but the last."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    """Not smaller than `first`; equal for pairs of seeds of one configuration."""
    dyad: NDArray[np.int64]
    """The dyad of each pair, shape (pairs,)."""
    configurations: int

    @classmethod
    def of(cls, first: NDArray[np.int64], second: NDArray[np.int64], configurations: int) -> Dyads:
        """From the configurations of both members of each pair, of `configurations` in all."""
        low, high = np.minimum(first, second), np.maximum(first, second)
        keys, dyad = np.unique(low.astype(np.int64) * max(1, configurations) + high, return_inverse=True)
        return cls(
            keys // max(1, configurations),
            keys % max(1, configurations),
            dyad.reshape(-1).astype(np.int64),
            configurations,
        )

    @classmethod
    def joined(cls, parts: Sequence[Dyads], configurations: int) -> tuple[Dyads, NDArray[np.intp]] | None:
        """Parts as one, of which only dyads and not all pairs have to be sorted.

        Returns:
            The dyads without their pairs, and the place of each in the parts; None if two parts share a dyad.
        """
        first, second = (
            np.concatenate([getattr(own, name) for own in parts]) for name in ("first", "second")
        )
        keys = first * max(1, configurations) + second
        order = np.argsort(keys, kind="stable")
        if (np.diff(keys[order]) == 0).any():
            return None
        return cls(first[order], second[order], np.zeros(0, dtype=np.int64), configurations), order

    def standard_error(self, influence: NDArray[np.float64]) -> float:
        """Standard error of a sum over pairs whose influences, shape (pairs,), are centred (sum to 0)."""
        if self.configurations < 2 or not len(influence):
            return float("nan")
        return self.error_of_sums(np.bincount(self.dyad, influence, len(self.first)))

    def error_of_sums(self, of_dyad: NDArray[np.number]) -> float:
        """The same from the sums of the influences of each dyad, shape (dyads,)."""
        if self.configurations < 2 or not len(of_dyad):
            return float("nan")
        apart = self.first != self.second
        total = np.bincount(self.first, of_dyad, self.configurations)
        total = total + np.bincount(self.second[apart], of_dyad[apart], self.configurations)
        variance = (total**2).sum() - PAIR_PART * (of_dyad[apart] ** 2).sum()
        small = self.configurations / (self.configurations - 1)
        return float(np.sqrt(max(0.0, float(variance)) * small))
