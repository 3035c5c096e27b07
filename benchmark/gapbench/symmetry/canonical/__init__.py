"""The balanced representative of a network's orbit: the same function, the smallest norm, all gauges fixed.

After Kempf and Ness: on a closed orbit of a reductive group the points of least norm form one orbit of its
orthogonal part, so Euclidean quantities there are invariants of the whole orbit.
"""

from gapbench.symmetry.canonical.balanced import balanced
from gapbench.symmetry.canonical.errors import CannotBalance

__all__ = ["CannotBalance", "balanced"]
