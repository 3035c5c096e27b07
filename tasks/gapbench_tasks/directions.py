"""Random directions in the space of inputs, with a spectrum of variances.

The directions are the columns of a random orthogonal matrix, so that they are no pixels. It is a product of
rotations in planes, applied number by number: unlike a product of matrices, whose sums each machine takes in an
order of its own, this gives the same bits, and so the same fingerprint, everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Directions:
    """An orthogonal matrix R (d, d), as layers of rotations in disjoint planes of two coordinates.

    Attributes:
        dimension: d.
        layers: for each the planes' coordinates (d // 2,), (d // 2,), and cosines and sines (d // 2, 1).
    """

    dimension: int
    layers: tuple[tuple[NDArray[np.int64], NDArray[np.int64], Array, Array], ...]

    def place(self, coordinates: Array) -> Array:
        """Points (n, d) given by their coordinates along the directions: each row c becomes R c.

        Returns:
            The points (n, d).
        """
        moved = np.ascontiguousarray(coordinates.T)
        for first, second, cosine, sine in self.layers:
            a, b = moved[first], moved[second]
            moved[first], moved[second] = cosine * a - sine * b, sine * a + cosine * b
        return np.ascontiguousarray(moved.T)


def random_directions(dimension: int, generator: np.random.Generator) -> Directions:
    """Layers that pair all coordinates at random, twice as many as it takes for each to meet every other."""
    layers = []
    for _ in range(2 * (dimension - 1).bit_length()):
        order, half = generator.permutation(dimension), dimension // 2
        pairs = generator.standard_normal((2, half, 1))
        cosine, sine = pairs / np.sqrt(pairs[0] * pairs[0] + pairs[1] * pairs[1])
        layers.append((order[:half], order[half : 2 * half], cosine, sine))
    return Directions(dimension, tuple(layers))


def deviations(dimension: int, power: float) -> Array:
    """Standard deviations (d,) of the coordinates: variances i^-power for i = 1, 2, ..., scaled to a mean of 1.

    Rounded to single precision, so that the last bits of a machine's powers do not matter.

    Returns:
        The deviations, falling.
    """
    variances = np.arange(1, dimension + 1, dtype=np.float64) ** -power
    found: Array = np.sqrt(variances / variances.mean()).astype(np.float32).astype(np.float64)
    return found
