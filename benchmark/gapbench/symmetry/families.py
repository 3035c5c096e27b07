"""Tangents, their transposes and finite transformations of each family of symmetries, on a flat theta (d,).

A family has `size` coordinates. `tangent(c)` is the derivative of `finite` along c at theta = 0 strength;
`cotangent(z)` is its transpose. All in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gapbench.symmetry.classes import distinct
from gapbench.symmetry.detection import Detected, ReaderNull, Slot, Space, WriterNull
from gapbench.symmetry.shifts import ShiftSolution
from gapbench.symmetry.structure import Findings


class Family(Protocol):
    """What every family can do."""

    size: int

    def tangent(self, c: Tensor) -> Tensor: ...
    def cotangent(self, z: Tensor) -> Tensor: ...


def _ids(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)


@dataclass(frozen=True)
class _Weights:
    """One layer's weights: where they are in theta and which raw variables they lie between."""

    where: slice | Tensor
    shape: tuple[int, int, int, int]
    outs: Tensor
    ins: Tensor


class Rescaling:
    """All free log scales at once: weights get exp(s_out - s_in), biases exp(s_out), and so on."""

    def __init__(self, theta: Tensor, found: Findings, detected: Detected):
        self.theta, self.d = theta, len(theta)
        device = theta.device
        representative, sign = detected.representative, detected.sign
        free = distinct(representative)
        self.variables = free[free != 0]
        self.size = len(self.variables)
        compact = np.zeros(len(representative), np.int64)
        compact[self.variables] = np.arange(self.size)
        active = representative != 0
        self.compact = compact[representative]
        self.sign = np.where(active, sign, 0)
        self._which = _ids(self.compact, device)
        self._signs = _ids(self.sign.astype(np.float64), device)
        self.raw = len(representative)
        self.weights = [
            _Weights(
                _place(use.weight, device),
                use.weight.shape,
                _ids(use.writes, device),
                _ids(use.reads, device),
            )
            for use in found.linear
            if active[use.writes].any() or active[use.reads].any()
        ]
        # (parameter, raw variable, coefficient): multiplicative except for biases of batch normalisations.
        multiplied: list[tuple[np.ndarray, np.ndarray, float]] = []
        for use in found.linear:
            multiplied.append((use.bias, use.writes, 1.0))
        for scale in found.scales:
            multiplied += [(scale.weight, scale.writes, 1.0), (scale.weight, scale.reads, -1.0)]
        for norm in found.norms:
            multiplied += [(norm.weight, norm.writes, 1.0), (norm.bias, norm.writes, 1.0)]
        for batch in found.batch_norms:
            multiplied += [(batch.weight, batch.writes, 1.0), (batch.weight, batch.reads, -1.0)]
            multiplied.append((batch.bias, batch.writes, 1.0))
        for additive in found.additive:
            multiplied.append((additive.parameters, additive.writes, 1.0))
        parameters = np.concatenate([p.reshape(-1) for p, _, _ in multiplied] + [np.zeros(0, np.int64)])
        raws = np.concatenate([v.reshape(-1) for _, v, _ in multiplied] + [np.zeros(0, np.int64)])
        factors = np.concatenate([np.full(p.size, f) for p, _, f in multiplied] + [np.zeros(0)])
        kept = (parameters >= 0) & active[raws]
        self.exponents = (parameters[kept], raws[kept], factors[kept])
        self.batch_norms = [b for b in found.batch_norms if (b.bias >= 0).all()]
        self.vector = self._vector_matrix()
        rows = np.flatnonzero(np.diff(self.vector.indptr))
        self.vector_rows = _ids(rows, device)
        self._sparse = _to_torch(self.vector[rows], device)
        self._sparse_t = _to_torch(self.vector[rows].T.tocsr(), device)

    def _vector_matrix(self) -> sp.csr_matrix:
        """Tangents of all vector parameters (d, size), sparse."""
        theta = self.theta.cpu().numpy()
        p, v, f = self.exponents
        rows, columns, data = [p], [self.compact[v]], [theta[p] * f * self.sign[v]]
        for b in self.batch_norms:
            kept = self.sign[b.reads] != 0
            rows.append(b.bias[kept])
            columns.append(self.compact[b.reads[kept]])
            data.append(-(b.gain(theta) * b.mean * self.sign[b.reads])[kept])
        matrix = sp.coo_matrix(
            (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))), shape=(self.d, self.size)
        )
        return matrix.tocsr()

    def _raw(self, c: Tensor) -> Tensor:
        if not self.size:
            return torch.zeros(self.raw, dtype=torch.float64, device=self.theta.device)
        return c[self._which] * self._signs

    def tangent(self, c: Tensor) -> Tensor:
        s = self._raw(c)
        out = torch.zeros_like(self.theta)
        for w in self.weights:
            part = self.theta[w.where].reshape(w.shape)
            change = part * (s[w.outs][:, :, None, None] - s[w.ins][:, None, :, None])
            out[w.where] += change.reshape(-1)
        if self.size:
            out[self.vector_rows] += self._sparse @ c
        return out

    def cotangent(self, z: Tensor) -> Tensor:
        raw = torch.zeros(self.raw, dtype=torch.float64, device=z.device)
        for w in self.weights:
            product = (self.theta[w.where] * z[w.where]).reshape(w.shape).sum(dim=3)
            raw.index_add_(0, w.outs.reshape(-1), product.sum(dim=2).reshape(-1))
            raw.index_add_(0, w.ins.reshape(-1), -product.sum(dim=1).reshape(-1))
        out = torch.zeros(self.size, dtype=torch.float64, device=z.device)
        if self.size:
            out.index_add_(0, self._which, raw * self._signs)
            out += self._sparse_t @ z[self.vector_rows]
        return out

    def gram_weights(self) -> sp.csr_matrix:
        """T' T of the weights alone: a Laplacian of the channels with edges sum_k w^2. Sparse (size, size)."""
        return self.laplacian(self.theta.pow(2))

    def laplacian(self, values: Tensor) -> sp.csr_matrix:
        rows: list[np.ndarray] = [np.zeros(0, np.int64)]
        columns: list[np.ndarray] = [np.zeros(0, np.int64)]
        data: list[np.ndarray] = [np.zeros(0)]
        for w in self.weights:
            squares = values[w.where].reshape(w.shape).sum(dim=3).cpu().numpy()
            a = np.broadcast_to(w.outs.cpu().numpy()[:, :, None], squares.shape)
            b = np.broadcast_to(w.ins.cpu().numpy()[:, None, :], squares.shape)
            sa, sb = self.sign[a], self.sign[b]
            for left, value in ((a, squares * sa * sa), (b, squares * sb * sb)):
                totals = np.bincount(left.ravel(), value.ravel(), minlength=self.raw)
                hit = np.flatnonzero(totals)
                rows.append(self.compact[hit])
                columns.append(self.compact[hit])
                data.append(totals[hit])
            both = (sa != 0) & (sb != 0)
            cross = -(squares * sa * sb)[both]
            i, j = self.compact[a[both]], self.compact[b[both]]
            rows += [i, j]
            columns += [j, i]
            data += [cross, cross]
        return sp.coo_matrix(
            (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))),
            shape=(self.size, self.size),
        ).tocsr()

    def finite(self, theta: Tensor, c: Tensor) -> Tensor:
        s = self._raw(c)
        out = theta.clone()
        for w in self.weights:
            part = out[w.where].reshape(w.shape)
            out[w.where] = (
                part * torch.exp(s[w.outs][:, :, None, None] - s[w.ins][:, None, :, None])
            ).reshape(-1)
        p, v, f = self.exponents
        log = torch.zeros_like(theta)
        values = s.cpu().numpy()[v] * f
        log.index_add_(0, _ids(p, theta.device), _ids(values, theta.device))
        out = out * torch.exp(log)
        for b in self.batch_norms:
            bias = _ids(b.bias, theta.device)
            before, after = (_ids(b.gain(t.numpy(force=True)) * b.mean, theta.device) for t in (theta, out))
            grow = torch.exp(s[_ids(b.writes, theta.device)])
            out[bias] = grow * (theta[bias] - before) + after
        return out


class RelativeRescaling(Rescaling):
    """All diagonal rescalings, those inside mixings included, in the coordinates delta / |theta|."""

    def __init__(self, theta: Tensor, found: Findings, detected: Detected):
        super().__init__(theta, found, replace(detected, representative=detected.rescalable))
        size = theta.abs().cpu().numpy()
        inverse = np.where(size > 0, 1.0 / np.maximum(size, 1e-300), 0.0)
        self.vector = (sp.diags(inverse) @ self.vector).tocsr()
        rows = np.flatnonzero(np.diff(self.vector.indptr))
        self.vector_rows = _ids(rows, theta.device)
        self._sparse = _to_torch(self.vector[rows], theta.device)
        self._sparse_t = _to_torch(self.vector[rows].T.tocsr(), theta.device)
        self.theta = theta.sign()


def _place(index: np.ndarray, device: torch.device) -> slice | Tensor:
    """A slice where the positions are consecutive, else the positions."""
    flat = index.reshape(-1)
    if len(flat) and flat[-1] - flat[0] == len(flat) - 1 and (np.diff(flat) == 1).all():
        return slice(int(flat[0]), int(flat[-1]) + 1)
    return _ids(flat, device)


def _to_torch(matrix: sp.csr_matrix, device: torch.device) -> Tensor:
    matrix = matrix.tocsr()
    matrix.sum_duplicates()  # and sorts, as a coalesced tensor is
    entries = matrix.tocoo()
    index = torch.from_numpy(np.stack([entries.row, entries.col]).astype(np.int64))
    data = torch.from_numpy(entries.data.astype(np.float64))
    return torch.sparse_coo_tensor(
        index, data, matrix.shape, check_invariants=False, is_coalesced=True, device=device
    )


class Shifts:
    """All free shifts at once; straight lines: theta + matrix @ c."""

    def __init__(self, theta: Tensor, found: Findings, solution: ShiftSolution):
        self.size, self.device = solution.count, theta.device
        self.kinds: list[str] | None = None  # of each column, once asked for
        values, numbers = solution.values, theta.cpu().numpy()
        parts: list[tuple[np.ndarray, sp.csr_matrix]] = []
        for use in found.linear:
            kept = use.bias >= 0
            if not kept.any():
                continue
            out = values[use.shift_out[kept]]
            if use.shift_in.any():
                totals = numbers[use.weight].sum(axis=3)
                blocks = [
                    sp.csr_matrix(totals[g][kept[g]]) @ values[use.shift_in[g]] for g in range(len(totals))
                ]
                out = out - sp.vstack(blocks)
            parts.append((use.bias[kept], out.tocsr()))
        for b in found.batch_norms:
            if (b.bias >= 0).all():
                moved = values[b.shift_out] - sp.diags(b.gain(numbers)) @ values[b.shift_in]
                parts.append((b.bias, moved.tocsr()))
        for norm in found.norms:
            if (norm.bias >= 0).all():
                parts.append((norm.bias, values[norm.shift_out]))
        for additive in found.additive:
            parts.append((additive.parameters, values[additive.shifts]))
        rows = np.concatenate([p for p, _ in parts] + [np.zeros(0, np.int64)])
        stacked = sp.vstack([m for _, m in parts]) if parts else sp.csr_matrix((0, self.size))
        place = sp.csr_matrix(
            (np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(len(theta), len(rows))
        )
        self.matrix: sp.csr_matrix = (place @ stacked).tocsr()
        used = np.flatnonzero(np.diff(self.matrix.indptr))
        self.rows = _ids(used, self.device)
        self._sparse = _to_torch(self.matrix[used], self.device)
        self._sparse_t = _to_torch(self.matrix[used].T.tocsr(), self.device)
        self.d = len(theta)

    def tangent(self, c: Tensor) -> Tensor:
        out = torch.zeros(self.d, dtype=torch.float64, device=self.device)
        if self.size:
            out[self.rows] = self._sparse @ c
        return out

    def cotangent(self, z: Tensor) -> Tensor:
        if not self.size:
            return torch.zeros(0, dtype=torch.float64, device=self.device)
        return self._sparse_t @ z[self.rows]


def gram(families: Sequence[Rescaling | Shifts]) -> sp.csr_matrix:
    """T'T, sparse, of rescalings and shifts one after the other."""
    vectors = sp.hstack([f.vector if isinstance(f, Rescaling) else f.matrix for f in families]).tocsr()
    total, start = (vectors.T @ vectors).tocsr(), 0
    for family in families:
        if isinstance(family, Rescaling):
            weights = family.gram_weights().tocoo()
            place = (weights.row + start, weights.col + start)
            total = total + sp.coo_matrix((weights.data, place), shape=total.shape).tocsr()
        start += family.size
    return total


class WriterNulls:
    """theta[index] += direction u' for one writer of a normalised stream."""

    def __init__(self, theta: Tensor, null: WriterNull):
        self.null, self.d = null, len(theta)
        self.size = null.index.shape[1]
        self.index = _ids(null.index, theta.device)
        self.direction = self._direction(theta)
        self.square = float(self.direction.pow(2).sum())

    def _direction(self, theta: Tensor) -> Tensor:
        if self.null.weight is None:
            return torch.ones(self.null.index.shape[0], dtype=torch.float64, device=theta.device)
        return 1.0 / theta[_ids(self.null.weight, theta.device)]

    def tangent(self, c: Tensor) -> Tensor:
        out = torch.zeros(self.d, dtype=torch.float64, device=c.device)
        out[self.index] = self.direction[:, None] * c[None, :]
        return out

    def cotangent(self, z: Tensor) -> Tensor:
        return self.direction @ z[self.index]

    def change(self, theta: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Positions and what is added there."""
        return self.index.reshape(-1), (self._direction(theta)[:, None] * c[None, :]).reshape(-1)

    def finite(self, theta: Tensor, c: Tensor) -> Tensor:
        return theta.index_add(0, *self.change(theta, c))


class ReaderNulls:
    """theta[index] += u (1 / gamma)', with the bias that makes up for beta."""

    def __init__(self, theta: Tensor, null: ReaderNull):
        self.null, self.d = null, len(theta)
        self.size = len(null.index)
        self.index, self.bias = _ids(null.index, theta.device), _ids(null.bias, theta.device)
        self.inverse, self.total = self._direction(theta)
        # By structure, not by value: shifts that are zero here may be moved before `change` is called.
        self.biased = bool((null.bias >= 0).all()) and bool((null.shift >= 0).all())
        repeats = len(null.bias) / max(1, len(distinct(null.bias)))
        self.square = float(self.inverse.pow(2).sum()) + (self.total**2 * repeats if self.biased else 0.0)

    def _direction(self, theta: Tensor) -> tuple[Tensor, float]:
        n = self.null.index.shape[1]
        inverse = torch.ones(n, dtype=torch.float64, device=theta.device)
        if (self.null.weight >= 0).all():
            inverse = 1.0 / theta[_ids(self.null.weight, theta.device)]
        total = 0.0
        if (self.null.shift >= 0).all():
            total = float((theta[_ids(self.null.shift, theta.device)] * inverse).sum())
        return inverse, total

    def tangent(self, c: Tensor) -> Tensor:
        out = torch.zeros(self.d, dtype=torch.float64, device=c.device)
        out[self.index] = c[:, None] * self.inverse[None, :]
        if self.biased:
            out.index_add_(0, self.bias, -self.total * c)
        return out

    def cotangent(self, z: Tensor) -> Tensor:
        result = z[self.index] @ self.inverse
        return result - self.total * z[self.bias] if self.biased else result

    def change(self, theta: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Positions and what is added there."""
        inverse, total = self._direction(theta)
        weights = (c[:, None] * inverse[None, :]).reshape(-1)
        if not self.biased:
            return self.index.reshape(-1), weights
        return torch.cat([self.index.reshape(-1), self.bias]), torch.cat([weights, -total * c])

    def finite(self, theta: Tensor, c: Tensor) -> Tensor:
        return theta.index_add(0, *self.change(theta, c))


class Mixing:
    """gl(n) or rotations of one space of channels; coordinates: the entries of A, or of a skew matrix."""

    def __init__(self, theta: Tensor, space: Space):
        self.space, self.theta, self.d = space, theta, len(theta)
        self.n = len(space.channels)
        device = theta.device
        self.frame: Tensor | None = None
        inner = self.n
        if space.algebra == "so_centred":
            ones = torch.ones(self.n, 1, dtype=torch.float64, device=device)
            q, _ = torch.linalg.qr(
                torch.cat([ones, torch.eye(self.n, dtype=torch.float64, device=device)], 1)
            )
            self.frame = q[:, 1 : self.n]
            inner = self.n - 1
        if space.algebra == "gl":
            self.size = self.n**2
        else:
            self.size = inner * (inner - 1) // 2
            self.upper = torch.triu_indices(inner, inner, 1, device=device)
        self.inner = inner
        self.indices = [_ids(slot.index, device) for slot in space.slots]
        self.scaled = [self._factors(theta, slot) for slot in space.slots]
        self.offsets = [self._offset(theta, slot) for slot in space.slots]

    def matrix(self, c: Tensor) -> Tensor:
        """A (n, n) from its coordinates."""
        if self.space.algebra == "gl":
            return c.reshape(self.n, self.n)
        skew = torch.zeros(self.inner, self.inner, dtype=c.dtype, device=c.device)
        skew[self.upper[0], self.upper[1]] = c
        skew = skew - skew.T
        return skew if self.frame is None else self.frame @ skew @ self.frame.T

    def coordinates(self, dual: Tensor) -> Tensor:
        """Transpose of `matrix`."""
        if self.space.algebra == "gl":
            return dual.reshape(-1)
        inner = dual if self.frame is None else self.frame.T @ dual @ self.frame
        inner = inner - inner.T
        return inner[self.upper[0], self.upper[1]]

    @staticmethod
    def _factors(theta: Tensor, slot: Slot) -> Tensor | None:
        if slot.weight is None:
            return None
        factors = theta[_ids(slot.weight, theta.device)]
        if slot.sigma is not None:
            factors = factors / _ids(slot.sigma, theta.device)
        return 1.0 / factors if slot.inverse else factors

    @staticmethod
    def _offset(theta: Tensor, slot: Slot) -> Tensor | None:
        if slot.gain is None:
            return None
        ratio = _ids(slot.gain.factor * slot.gain.mean / slot.gain.sigma, theta.device)
        if (slot.gain.weight >= 0).all():
            ratio = ratio * theta[_ids(slot.gain.weight, theta.device)]
        return ratio[:, None]

    def parts(self) -> list[tuple[Tensor, Tensor, bool, Tensor | None]]:
        """(index, D X or D^-1 X as the mixing meets it, dual, D) of each slot at theta."""
        found = []
        for slot, index, factors, offset in zip(self.space.slots, self.indices, self.scaled, self.offsets):
            x = self.theta[index]
            if offset is not None:
                x = x - offset
            if factors is not None:
                x = x / factors if slot.dual else x * factors
            found.append((index, x, slot.dual, factors))
        return found

    def tangent(self, c: Tensor) -> Tensor:
        a = self.matrix(c)
        out = torch.zeros(self.d, dtype=torch.float64, device=c.device)
        for index, x, dual, factors in self.parts():
            change = -(a.T @ x) if dual else a @ x
            if factors is not None:
                change = change * factors if dual else change / factors
            out.index_add_(0, index.reshape(-1), change.reshape(-1))
        return out

    def cotangent(self, z: Tensor) -> Tensor:
        total = torch.zeros(self.n, self.n, dtype=torch.float64, device=z.device)
        for index, x, dual, factors in self.parts():
            part = z[index]
            if factors is not None:
                part = part * factors if dual else part / factors
            total += -(x @ part.T) if dual else part @ x.T
        return self.coordinates(total)

    def finite(self, theta: Tensor, c: Tensor) -> Tensor:
        return self.act(theta, torch.linalg.matrix_exp(self.matrix(c)))

    def act(self, theta: Tensor, m: Tensor) -> Tensor:
        """Transform channels by an invertible M (for rotations: orthogonal, fixing 1 where centred)."""
        out = theta.clone()
        self.act_in_place(out, m)
        return out

    def act_in_place(self, theta: Tensor, m: Tensor) -> None:
        dual = torch.linalg.inv(m).T
        scales = [(self._factors(theta, slot), self._offset(theta, slot)) for slot in self.space.slots]
        for slot, index, (factors, offset) in zip(self.space.slots, self.indices, scales):
            x = theta[index]
            if offset is not None:
                x = x - offset
            if factors is not None:
                x = x / factors if slot.dual else x * factors
            x = dual @ x if slot.dual else m @ x
            if factors is not None:
                x = x * factors if slot.dual else x / factors
            if offset is not None:
                x = x + offset
            theta[index] = x
