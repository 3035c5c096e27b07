"""Noise by which a proxy made from the target has the tau that is wanted.

x = y + c e with normal e ranks two networks as y does with probability Phi(|dy| / sd(c de)). So the expected tau-b
of x and y in a group is the mean of 2 Phi - 1 over the pairs whose targets differ, times the root of their share
among all pairs (x has no ties): a decreasing function of c, which is solved for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

MOST_PAIRS = 200_000
"""Of larger groups so many pairs are drawn at random."""
_HALVINGS = 60
_REACH = 1e6


def expected_tau(
    target: NDArray[np.float64], configuration: NDArray[np.int64], scale: float, common: float
) -> float:
    """tau-b of the target with itself plus noise, in expectation over the noise.

    Args:
        target: of a group of networks, shape (networks,).
        configuration: of each, shape (networks,).
        scale: standard deviation of the noise.
        common: share of the noise's variance that the seeds of a configuration share, in [0, 1].

    Returns:
        The expectation; NaN where no two targets differ.
    """
    return _tau(*_pairs(target, configuration), scale, common)


def noise_scale(
    target: NDArray[np.float64], configuration: NDArray[np.int64], tau: float, common: float
) -> float:
    """The standard deviation of the noise at which the expected tau-b is `tau`.

    Args:
        target: of a group of networks, shape (networks,).
        configuration: of each, shape (networks,).
        tau: wanted, above 0.
        common: see `expected_tau`.

    Returns:
        The nearest that there is: 0 where ties of the target keep tau-b below it, and where no two targets differ.
    """
    apart, alike, share = _pairs(target, configuration)
    if not share > 0 or np.sqrt(share) <= tau:
        return 0.0
    low, high = np.log(apart.min() / _REACH), np.log(apart.max() * _REACH)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _tau(apart, alike, share, float(np.exp(middle)), common) > tau:
            low = middle
        else:
            high = middle
    return float(np.exp(0.5 * (low + high)))


def planted(
    target: NDArray[np.float64],
    configuration: NDArray[np.int64],
    scale: NDArray[np.float64],
    common: float,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """The target plus noise of the standard deviation `scale`, of which seeds of a configuration share `common`."""
    own = random.standard_normal(len(target))
    shared = random.standard_normal(int(configuration.max(initial=-1)) + 1)
    noise: NDArray[np.float64] = np.sqrt(1 - common) * own + np.sqrt(common) * shared[configuration]
    return target + scale * noise


def _pairs(
    target: NDArray[np.float64], configuration: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], float]:
    """Distances of the pairs that differ, whether they are of one configuration, and their share of all pairs."""
    number = len(target)
    if number * (number - 1) // 2 > MOST_PAIRS:
        random = np.random.default_rng(number)
        first = random.integers(0, number, MOST_PAIRS)
        second = (first + random.integers(1, number, MOST_PAIRS)) % number
    else:
        first, second = np.triu_indices(number, 1)
    apart = np.abs(target[first] - target[second])
    differ = apart > 0
    share = float(differ.mean()) if len(differ) else 0.0
    return apart[differ], (configuration[first] == configuration[second])[differ], share


def _tau(
    apart: NDArray[np.float64], alike: NDArray[np.bool_], share: float, scale: float, common: float
) -> float:
    if not share > 0:
        return float("nan")
    spread = scale * np.sqrt(2 * np.where(alike, 1 - common, 1.0))
    with np.errstate(divide="ignore"):
        return float(special.erf(apart / spread / np.sqrt(2)).mean() * np.sqrt(share))
