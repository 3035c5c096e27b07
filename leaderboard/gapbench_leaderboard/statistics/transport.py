"""Transport: a proxy calibrated on one domain (a task or a family), scored on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .calibration import accuracy, isotonic_curve


@dataclass(frozen=True)
class Domain:
    """Networks of one task or family; arrays of shape (networks,)."""

    name: str
    proxy: NDArray[np.float64]
    target: NDArray[np.float64]
    weight: NDArray[np.float64]


@dataclass(frozen=True)
class Transport:
    """Accuracy on each domain of curves fitted on each other domain."""

    r_squared: dict[str, float]
    """For each domain scored, the mean over the domains that the curve was fitted on."""
    mean_absolute_error: dict[str, float]

    def mean(self) -> tuple[float, float]:
        """Mean over the domains scored of R^2 and of the mean absolute error."""
        return _mean(self.r_squared), _mean(self.mean_absolute_error)

    def worst(self) -> tuple[float, float]:
        """The smallest R^2 and the largest mean absolute error of a domain."""
        r = [value for value in self.r_squared.values() if np.isfinite(value)]
        error = [value for value in self.mean_absolute_error.values() if np.isfinite(value)]
        return (min(r) if r else float("nan")), (max(error) if error else float("nan"))


def transport(domains: Sequence[Domain]) -> Transport:
    """Fit an isotonic curve on each domain and score it on every other one.

    The curve is that of `calibration.isotonic_curve`: monotone, constant beyond the range it was fitted on.
    R^2 is relative to the spread within the domain scored: a proxy whose scale does not carry over falls
    below 0 even where it ranks every domain perfectly.
    """
    curves = {domain.name: isotonic_curve(domain.proxy, domain.target, domain.weight) for domain in domains}
    r_squared: dict[str, float] = {}
    error: dict[str, float] = {}
    for domain in domains:
        found = [
            accuracy(curve.predict(domain.proxy), domain.target, domain.weight)
            for name, curve in curves.items()
            if name != domain.name
        ]
        r_squared[domain.name] = _mean({str(k): value[0] for k, value in enumerate(found)})
        error[domain.name] = _mean({str(k): value[1] for k, value in enumerate(found)})
    return Transport(r_squared, error)


def _mean(values: dict[str, float]) -> float:
    finite = [value for value in values.values() if np.isfinite(value)]
    return float(np.mean(finite)) if finite else float("nan")
