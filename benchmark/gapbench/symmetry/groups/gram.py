"""The Gram matrix of the tangents of rescalings and shifts, which is sparse."""

from __future__ import annotations

from collections.abc import Sequence

import scipy.sparse as sp

from gapbench.symmetry.groups.columns import side_by_side
from gapbench.symmetry.groups.rescaling import Rescaling
from gapbench.symmetry.groups.shifts import Shifts


def gram(groups: Sequence[Rescaling | Shifts]) -> sp.csr_matrix:
    """T'T, sparse, of rescalings and shifts one after the other."""
    vectors = side_by_side([f.columns for f in groups]).matrix
    total, start = (vectors.T @ vectors).tocsr(), 0
    for group in groups:
        if isinstance(group, Rescaling):
            weights = group.gram_weights().tocoo()
            place = (weights.row + start, weights.col + start)
            total = total + sp.coo_matrix((weights.data, place), shape=total.shape).tocsr()
        start += group.size
    return total
