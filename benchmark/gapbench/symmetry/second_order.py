"""How the tangents of rescalings and shifts change along each other."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from gapbench.symmetry.classes import Ids
from gapbench.symmetry.groups.bound import Bound
from gapbench.symmetry.groups.columns import side_by_side
from gapbench.symmetry.groups.rescaling import Rescaling
from gapbench.symmetry.shift_solution import ShiftSolution
from gapbench.symmetry.structure import Findings


def second_derivatives(
    bound: Bound, found: Findings, solution: ShiftSolution, gradient: np.ndarray
) -> sp.csr_matrix:
    """The derivative of g' t_l(theta), g fixed, along the tangent t_k: g' (D t_l) t_k.

    For rescalings followed by shifts whose relations do not depend on theta.

    Args:
        bound: the groups at theta.
        found: how parameters meet the channels.
        solution: the free shifts.
        gradient: g (d,).

    Returns:
        (n, n), l by row, n rescalings and shifts.
    """
    rescaling, shifts = bound.rescaling, bound.shifts
    theta, n = bound.theta.cpu().numpy(), rescaling.size + shifts.size
    vectors = side_by_side([rescaling.columns, shifts.columns])
    log_scales = _log_scales(rescaling)
    # Weights are multiplied, and so are vectors but for what a batch normalisation's bias makes up for.
    product = torch.from_numpy(gradient * theta).to(bound.theta.device)
    total = _rows(rescaling.laplacian(product), 0, n)
    parameters, raws, factors = rescaling.exponents
    exponents = sp.coo_matrix(
        (
            factors * rescaling.sign[raws] * gradient[parameters],
            (rescaling.compact[raws], np.arange(len(raws))),
        ),
        shape=(rescaling.size, len(raws)),
    )
    total = total + _rows(exponents @ vectors.at(parameters), 0, n)
    for batch in found.batch_norms:
        if not ((batch.bias >= 0).all() and (batch.weight >= 0).all()):
            continue
        gain = sp.diags(gradient[batch.bias] / batch.sigma) @ vectors.at(batch.weight)
        reads = log_scales[batch.reads]
        total = total - _rows(reads.T @ sp.diags(batch.mean) @ gain, 0, n)
        total = total - _rows(solution.values[batch.shift_in].T @ gain, rescaling.size, n)
    for use in found.linear:
        for weight, bias, writes, reads, shift in zip(
            use.weight, use.bias, use.writes, use.reads, use.shift_in
        ):
            kept = bias >= 0
            if not (kept.any() and shift.any()):
                continue
            taps = gradient[bias[kept]][:, None] * theta[weight[kept]].sum(axis=2)
            change = sp.csr_matrix(taps.T) @ log_scales[writes[kept]]
            change = change - sp.diags(taps.sum(axis=0)) @ log_scales[reads]
            block = solution.values[shift].T @ change
            total = total - _rows(block, rescaling.size, n)
    return total.tocsr()


def _log_scales(rescaling: Rescaling) -> sp.csr_matrix:
    """Raw log-scale variables in terms of the free ones."""
    raws = np.flatnonzero(rescaling.sign)
    return sp.coo_matrix(
        (rescaling.sign[raws].astype(float), (raws, rescaling.compact[raws])),
        shape=(rescaling.raw, rescaling.size),
    ).tocsr()


def _rows(matrix: sp.spmatrix, start: int, n: int) -> sp.csr_matrix:
    """The matrix in the rows from `start` and the first columns of zeros (n, n)."""
    entries = matrix.tocoo()
    rows: Ids = entries.row + start
    return sp.coo_matrix((entries.data, (rows, entries.col)), shape=(n, n)).tocsr()
