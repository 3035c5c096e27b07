"""The rank of the orbit's tangent space, group by group, from the structure and the ranks of weight matrices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from gapbench.symmetry.classes import distinct
from gapbench.symmetry.detection.records import Detected
from gapbench.symmetry.groups.bound import Bound
from gapbench.symmetry.groups.rescaling import Rescaling
from gapbench.symmetry.groups.shifts import Shifts
from gapbench.symmetry.mixing_kernels import kernels
from gapbench.symmetry.shift_solution import ShiftSolution
from gapbench.symmetry.structure import BatchNormUse, Findings, LinearUse, NormUse, ScaleUse


@dataclass(frozen=True)
class GroupSize:
    """One group of symmetries: its `kind`, where it acts, and its dimension."""

    kind: str
    name: str
    size: int


def structural_ranks(
    theta: Tensor, found: Findings, detected: Detected, solution: ShiftSolution, bound: Bound
) -> list[GroupSize]:
    """Sizes of the groups such that they add up to the rank of all tangents together.

    Groups are independent for generic weights but for the cases counted here: rescalings of units without
    weights, mixings of more channels than their neighbours can tell apart, and the one direction that the
    null directions of a layer between two normalisations share.

    Returns:
        The groups that have a dimension, kinds of rescalings and shifts each as one.
    """
    sizes = [
        GroupSize(kind, "", count)
        for kind, count in sorted(rescaling_kinds(bound.rescaling, detected).items())
    ]
    floating = _floating(theta, found, bound.rescaling)
    if floating:
        sizes.append(GroupSize("rescaling of units", "without weights", -floating))
    sizes += [
        GroupSize(kind, "", count)
        for kind, count in sorted(Counter(shift_kinds(bound.shifts, found)).items())
    ]
    readers = {null.node: null for null in detected.reader_nulls}
    for writer in detected.writer_nulls:
        shared = writer.taps if writer.node in readers else 0
        sizes.append(GroupSize(writer.kind, writer.name, writer.index.shape[1] - shared))
    for reader in detected.reader_nulls:
        sizes.append(GroupSize("null direction of readers", reader.name, len(reader.index)))
    writers = {null.node: null for null in detected.writer_nulls}
    void = {f"reader_null:{n}": r.taps for n, r in readers.items()}
    void |= {f"writer_null:{n}": w.taps for n, w in writers.items()}
    free = free_biases(len(theta), found, solution)
    for mixing, kernel in zip(bound.mixings, kernels(bound.mixings, void, free)):
        sizes.append(GroupSize(mixing.space.kind, mixing.space.name, mixing.size - kernel))
    return [s for s in sizes if s.size]


def rescaling_kinds(rescaling: Rescaling, detected: Detected) -> Counter[str]:
    """How many free rescalings there are of each kind."""
    return Counter(detected.kinds[int(v)] for v in rescaling.variables)


def shift_kinds(shifts: Shifts, found: Findings) -> list[str]:
    """A kind for each free shift, by the biases that it moves."""
    if not shifts.size:
        return []
    if shifts.kinds is None:
        shifts.kinds = _shift_kinds(shifts, found)
    return shifts.kinds


def _shift_kinds(shifts: Shifts, found: Findings) -> list[str]:
    code = np.zeros(shifts.d, np.int64)
    for use in found.linear:
        code[use.bias[use.bias >= 0]] = 1
    for additive in found.additive:
        code[additive.parameters] = 2
    for norm in found.norms:
        code[norm.bias[norm.bias >= 0]] = 4
    for batch in found.batch_norms:
        code[batch.bias[batch.bias >= 0]] = 8
    matrix, moved = shifts.columns.matrix.tocsc(), shifts.columns.rows
    kinds = []
    for column in range(shifts.size):
        rows = moved[matrix.indices[matrix.indptr[column] : matrix.indptr[column + 1]]]
        seen = int(np.bitwise_or.reduce(code[rows])) if len(rows) else 0
        if seen & 8:
            kinds.append("shift around batch normalisations")
        elif seen & 4:
            kinds.append("shift of normalisation outputs")
        else:
            kinds.append("shift between biases" if len(rows) > 1 else "void bias")
    return kinds


def free_biases(d: int, found: Findings, solution: ShiftSolution) -> np.ndarray:
    """(d,) whether a bias moves along a shift of its own output: then a mixing of biases alone is one of those."""
    free = np.zeros(d, bool)
    moves = np.diff(solution.values.indptr) > 0
    uses: list[LinearUse | BatchNormUse | NormUse] = [*found.linear, *found.batch_norms, *found.norms]
    for use in uses:
        kept = use.bias >= 0
        free[use.bias[kept]] = moves[use.shift_out[kept]]
    for additive in found.additive:
        free[additive.parameters] = moves[additive.shifts]
    return free


def _floating(theta: Tensor, found: Findings, rescaling: Rescaling) -> int:
    """Number of independent rescalings that move no weight (all their weights are zero)."""
    n = rescaling.size
    if not n:
        return 0
    numbers = theta.cpu().numpy()
    ground = n
    left, right, flips = [], [], []

    def edges(a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> None:
        a, b = np.broadcast_arrays(a, b)
        kept = np.broadcast_to(weights != 0, a.shape)
        a, b = a[kept], b[kept]
        va = np.where(rescaling.sign[a] != 0, rescaling.compact[a], ground)
        vb = np.where(rescaling.sign[b] != 0, rescaling.compact[b], ground)
        flip = (rescaling.sign[a] * rescaling.sign[b]) < 0
        codes = distinct((va * (n + 1) + vb) * 2 + flip)
        left.append(codes // 2 // (n + 1))
        right.append(codes // 2 % (n + 1))
        flips.append(codes % 2)

    for use in found.linear:
        nonzero = (use.values(numbers) != 0).any(axis=3)
        full = nonzero.all(axis=2)
        if full.any(axis=1).all() and nonzero.any(axis=2).all():
            # All channels of a group are joined: by one output that reads all, and one input of each output.
            groups = np.arange(len(full))[:, None]
            ones = np.ones(1)
            edges(use.writes[groups, full.argmax(axis=1)[:, None]], use.reads, ones)
            edges(use.writes, use.reads[groups, nonzero.argmax(axis=2)], ones)
        else:
            edges(use.writes[:, :, None], use.reads[:, None, :], nonzero)
    diagonal: list[ScaleUse | BatchNormUse] = [*found.scales, *found.batch_norms]
    for scale in diagonal:
        if (scale.weight >= 0).all():
            edges(scale.writes, scale.reads, numbers[scale.weight])
    zero = np.zeros(1, np.int64)
    for norm in found.norms:
        if (norm.weight >= 0).all():
            edges(norm.writes, zero, numbers[norm.weight])
    for additive in found.additive:
        edges(additive.writes, zero, numbers[additive.parameters])
    size = n + 1
    a, b, f = (np.concatenate([*part, np.zeros(0, np.int64)]) for part in (left, right, flips))
    rows = np.concatenate([a, a + size, [ground]])
    columns = np.concatenate([b + size * f, b + size * (1 - f), [ground + size]])
    graph = coo_matrix((np.ones(len(rows), np.int8), (rows, columns)), shape=(2 * size, 2 * size))
    _, component = connected_components(graph, directed=False)
    grounded = component[:n] == component[size : size + n]
    return len(distinct(component[:n][~grounded]))
