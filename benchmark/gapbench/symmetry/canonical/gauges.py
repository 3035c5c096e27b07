"""Fix what moves along straight lines: shifts, null directions, units without weights on one side."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gapbench.symmetry.canonical.errors import CannotBalance
from gapbench.symmetry.groups.rescaling import Rescaling
from gapbench.symmetry.orbit import Orbit

LARGEST_GAUGE = 6000


def fix_shifts(orbit: Orbit) -> Tensor:
    """Biases that shift freely become zero; where only a common shift is free, their sum does.

    The conditions are chosen from the structure alone, whole layers at a time, so that every network of an
    orbit gets the same ones and mixings and rotations leave them true.

    Returns:
        The parameters (d,) of the same function for which all conditions hold.

    Raises:
        CannotBalance: too many free shifts, or some that no condition fixes.
    """
    shifts, theta = orbit.bound.shifts, orbit.bound.theta
    k = shifts.size
    if not k:
        return theta
    if k > LARGEST_GAUGE:
        raise CannotBalance(f"{k} free shifts are more than the {LARGEST_GAUGE} that can be fixed")
    moved = shifts.columns
    basis = np.zeros((k, 0))
    chosen: list[sp.csr_matrix] = []
    for conditions, columns in _shift_conditions(orbit):
        left = 1.0 - (basis**2).sum(axis=1) > 1e-8  # shifts that nothing fixes yet
        open_ = np.array([bool(left[c].any()) for c in columns])
        if not open_.any():
            continue
        conditions = conditions[np.flatnonzero(open_)]
        rows = (conditions[:, moved.rows] @ moved.matrix).toarray()
        size = np.linalg.norm(rows, axis=1, keepdims=True)
        if (size == 0).any() or (len(chosen) and basis.shape[1] == k):
            continue
        rows = rows / size
        rest = rows - (rows @ basis) @ basis.T
        rest = rest - (rest @ basis) @ basis.T
        q, r = np.linalg.qr(rest.T)
        if rest.shape[0] > k or (np.abs(np.diag(r)) < 1e-8).any():
            continue
        basis = np.concatenate([basis, q], axis=1)
        chosen.append(conditions)
    if basis.shape[1] < k:
        raise CannotBalance(f"{k - basis.shape[1]} free shifts could not be fixed")
    conditions = sp.vstack(chosen).tocsr()
    numbers = theta.numpy(force=True)
    step = np.linalg.solve((conditions[:, moved.rows] @ moved.matrix).toarray(), -(conditions @ numbers))
    return theta + shifts.tangent(torch.from_numpy(step).to(theta))


def _shift_conditions(orbit: Orbit) -> list[tuple[sp.csr_matrix, list[np.ndarray]]]:
    """Sets of linear conditions on the parameters, each with the free shifts that it may fix.

    For each layer its single biases, then the sums of biases that a free shift moves together.

    Returns:
        (conditions (m, d), for each of them the numbers of the free shifts) in the order in which they are tried.
    """
    values, found, d = orbit.solution.values, orbit.findings, orbit.bound.shifts.d
    pairs: list[tuple[np.ndarray, np.ndarray]] = [(use.bias, use.shift_out) for use in found.linear]
    pairs += [(b.bias, b.shift_out) for b in found.batch_norms]
    pairs += [(n.bias, n.shift_out) for n in found.norms]
    pairs += [(a.parameters, a.shifts) for a in found.additive]
    singles, sums, totals = [], [], []
    for parameters, variables in pairs:
        kept = parameters >= 0
        if not kept.any():
            continue
        place = sp.csr_matrix(
            (np.ones(int(kept.sum())), (np.arange(int(kept.sum())), parameters[kept])), (int(kept.sum()), d)
        )
        patterns = values[variables[kept]].T.tocsr()
        counts = np.diff(patterns.indptr)
        single = np.flatnonzero(counts == 1)
        coordinate = patterns[single].indices
        moved = np.unique(coordinate)
        if len(moved):
            of_coordinate = [single[coordinate == i] for i in moved]
            singles.append((place[moved], of_coordinate))
            totals.append((sp.csr_matrix(np.ones((1, len(moved)))) @ place[moved], [single]))
        several = np.flatnonzero(counts > 1)
        if len(several):
            sums.append(((patterns[several] @ place).tocsr(), [np.array([i]) for i in several]))
            totals += [((patterns[[i]] @ place).tocsr(), [np.array([i])]) for i in several]
    return [*singles, *sums, *totals]


def fix_nulls(orbit: Orbit, theta: Tensor) -> Tensor:
    """Writers of normalised streams centred, readers orthogonal to 1, both up to the scales in between."""
    for writer in orbit.bound.writer_nulls:
        direction = writer.direction_at(theta)
        c = -((1.0 / direction) @ theta[writer.index]) / len(direction)
        theta = writer.finite(theta, c)
    for reader in orbit.bound.reader_nulls:
        inverse, _ = reader.direction_at(theta)
        c = -(theta[reader.index] @ (1.0 / inverse)) / len(inverse)
        theta = reader.finite(theta, c)
    return theta


def drop_dead(orbit: Orbit, theta: Tensor) -> Tensor:
    """Units without incoming or without outgoing weights: both sides become zero."""
    theta = theta.clone()
    while True:
        rescaling = Rescaling(theta, orbit.findings, orbit.detected)
        rows, columns = _sides(rescaling, theta)
        dead = (rows == 0) != (columns == 0)
        if not bool(dead.any()):
            return theta
        for w in rescaling.weights:
            outs = _dead_of(rescaling, dead, w.outs)
            ins = _dead_of(rescaling, dead, w.ins)
            part = theta[w.where].reshape(w.shape)
            gone = outs[:, :, None, None] | ins[:, None, :, None]
            theta[w.where] = torch.where(gone, 0.0, part).reshape(-1)
        p, v, _ = rescaling.exponents
        gone = _dead_of(rescaling, dead, torch.from_numpy(v))
        theta[torch.from_numpy(p)[gone]] = 0.0


def _sides(rescaling: Rescaling, theta: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of squares that grow and that shrink with each log scale."""
    grow = torch.zeros(rescaling.raw, dtype=torch.float64)
    shrink = torch.zeros_like(grow)
    for w in rescaling.weights:
        square = theta[w.where].reshape(w.shape).pow(2).sum(dim=3)
        grow.index_add_(0, w.outs.reshape(-1), square.sum(dim=2).reshape(-1))
        shrink.index_add_(0, w.ins.reshape(-1), square.sum(dim=1).reshape(-1))
    p, v, f = rescaling.exponents
    square = theta[torch.from_numpy(p)].pow(2)
    positive = torch.from_numpy(f > 0)
    index = torch.from_numpy(v)
    grow.index_add_(0, index[positive], square[positive])
    shrink.index_add_(0, index[~positive], square[~positive])
    up = torch.zeros(rescaling.size, dtype=torch.float64)
    down = torch.zeros_like(up)
    which, sign = torch.from_numpy(rescaling.compact), torch.from_numpy(rescaling.sign)
    for raw, target, other in ((grow, up, down), (shrink, down, up)):
        target.index_add_(0, which[sign > 0], raw[sign > 0])
        other.index_add_(0, which[sign < 0], raw[sign < 0])
    return up, down


def _dead_of(rescaling: Rescaling, dead: Tensor, raw: Tensor) -> Tensor:
    which, sign = torch.from_numpy(rescaling.compact), torch.from_numpy(rescaling.sign)
    return dead[which[raw]] & (sign[raw] != 0) if len(dead) else torch.zeros_like(raw, dtype=torch.bool)
