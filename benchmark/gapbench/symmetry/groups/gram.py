"""The Gram matrix of the tangents of rescalings and shifts, which is sparse."""

from __future__ import annotations

from collections.abc import Sequence

import scipy.sparse as sp

from gapbench.symmetry.groups.rescaling import Rescaling
from gapbench.symmetry.groups.shifts import Shifts


def gram(groups: Sequence[Rescaling | Shifts]) -> sp.csr_matrix:
    """T'T, sparse, of rescalings and shifts one after the other."""
    vectors = sp.hstack([f.vector if isinstance(f, Rescaling) else f.matrix for f in groups]).tocsr()
    total, start = (vectors.T @ vectors).tocsr(), 0
    for group in groups:
        if isinstance(group, Rescaling):
            weights = group.gram_weights().tocoo()
            place = (weights.row + start, weights.col + start)
            total = total + sp.coo_matrix((weights.data, place), shape=total.shape).tocsr()
        start += group.size
    return total
