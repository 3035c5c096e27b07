"""Diagonal rescalings: x -> exp(s) x channel by channel, absorbed by the weights on both sides."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gapbench.symmetry.classes import distinct
from gapbench.symmetry.detection.records import Detected
from gapbench.symmetry.groups.columns import Columns
from gapbench.symmetry.groups.group import ids
from gapbench.symmetry.structure import Findings


@dataclass(frozen=True)
class LayerWeights:
    """One layer's weights: where they are in theta and which raw variables they lie between."""

    where: slice | Tensor
    shape: tuple[int, ...]
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
        self._which = ids(self.compact, device)
        self._signs = ids(self.sign.astype(np.float64), device)
        self.raw = len(representative)
        self.weights = [
            LayerWeights(
                ids(use.weight.reshape(-1), device) if use.where is None else use.where,
                use.shape,
                ids(use.writes, device),
                ids(use.reads, device),
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
        self.columns = self._vector_columns()

    def _vector_columns(self) -> Columns:
        """Tangents of all vector parameters."""
        theta = self.theta.cpu().numpy()
        p, v, f = self.exponents
        rows, columns, data = [p], [self.compact[v]], [theta[p] * f * self.sign[v]]
        for b in self.batch_norms:
            kept = self.sign[b.reads] != 0
            rows.append(b.bias[kept])
            columns.append(self.compact[b.reads[kept]])
            data.append(-(b.gain(theta) * b.mean * self.sign[b.reads])[kept])
        return Columns.of_entries(
            np.concatenate(rows),
            np.concatenate(columns),
            np.concatenate(data),
            (self.d, self.size),
            self.theta.device,
        )

    def all_columns(self) -> Columns:
        """All tangents, those of the weights too: two numbers for each weight."""
        vectors = self.columns.matrix.tocoo()
        positions = [self.columns.rows[vectors.row]]
        columns, values = [vectors.col.astype(np.int64)], [vectors.data]
        theta = self.theta.cpu().numpy()
        for w in self.weights:
            at = (
                np.arange(w.where.start, w.where.stop)
                if isinstance(w.where, slice)
                else w.where.cpu().numpy()
            )
            at = at.reshape(w.shape)
            outs, ins = w.outs.cpu().numpy()[:, :, None, None], w.ins.cpu().numpy()[:, None, :, None]
            for raws, factor in ((outs, 1.0), (ins, -1.0)):
                signs = np.broadcast_to(factor * self.sign[raws], w.shape)
                kept = signs != 0
                positions.append(at[kept])
                columns.append(np.broadcast_to(self.compact[raws], w.shape)[kept])
                values.append(signs[kept] * theta[at[kept]])
        return Columns.of_entries(
            np.concatenate(positions),
            np.concatenate(columns),
            np.concatenate(values),
            (self.d, self.size),
            self.theta.device,
        )

    def _raw(self, c: Tensor) -> Tensor:
        if not self.size:
            return torch.zeros(self.raw, dtype=torch.float64, device=self.theta.device)
        return c[self._which] * self._signs

    def tangent(self, c: Tensor) -> Tensor:
        """The change (d,) of the parameters per unit of the free log scales c (size,)."""
        out = torch.zeros_like(self.theta)
        self.add_to(out, c)
        return out

    def add_to(self, out: Tensor, c: Tensor) -> None:
        """Add the tangent along c (size,) to out (d,)."""
        s = self._raw(c)
        for w in self.weights:
            part = self.theta[w.where].reshape(w.shape)
            factors = s[w.outs][:, :, None, None] - s[w.ins][:, None, :, None]
            if isinstance(w.where, slice):
                out[w.where].reshape(w.shape).addcmul_(part, factors)
            else:
                out.index_add_(0, w.where, (part * factors).reshape(-1))
        self.columns.add_to(out, c)

    def cotangent(self, z: Tensor) -> Tensor:
        """The transpose of `tangent`: (d,) -> (size,)."""
        raw = torch.zeros(self.raw, dtype=torch.float64, device=z.device)
        for w in self.weights:
            product = (self.theta[w.where] * z[w.where]).reshape(w.shape).sum(dim=3)
            raw.index_add_(0, w.outs.reshape(-1), product.sum(dim=2).reshape(-1))
            raw.index_add_(0, w.ins.reshape(-1), -product.sum(dim=1).reshape(-1))
        out = torch.zeros(self.size, dtype=torch.float64, device=z.device)
        if self.size:
            out.index_add_(0, self._which, raw * self._signs)
            out += self.columns.cotangent(z)
        return out

    def gram_weights(self) -> sp.csr_matrix:
        """T' T of the weights alone: a Laplacian of the channels with edges sum_k w^2. Sparse (size, size)."""
        return self.laplacian(self.theta.pow(2))

    def laplacian(self, values: Tensor) -> sp.csr_matrix:
        """The Laplacian (size, size) of the channels with edges that sum `values` (d,) over each layer's taps."""
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
        """theta (d,) rescaled by the free log scales c (size,)."""
        out = theta.clone()
        self.act_in_place(out, c)
        return out

    def act_in_place(self, theta: Tensor, c: Tensor) -> None:
        """`finite`, on theta itself."""
        s = self._raw(c)
        grow = torch.exp(s)
        shifts = []
        for b in self.batch_norms:
            bias = ids(b.bias, theta.device)
            offset = theta[bias] - ids(b.gain(theta.numpy(force=True)) * b.mean, theta.device)
            shifts.append((b, bias, grow[ids(b.writes, theta.device)] * offset))
        for w in self.weights:
            part = theta[w.where].reshape(w.shape)
            part *= grow[w.outs][:, :, None, None]
            part /= grow[w.ins][:, None, :, None]
            if not isinstance(w.where, slice):
                theta[w.where] = part.reshape(-1)
        p, v, f = self.exponents
        rows, at = np.unique(p, return_inverse=True)
        log = np.bincount(at.reshape(-1), s.cpu().numpy()[v] * f, minlength=len(rows))
        theta[ids(rows, theta.device)] *= torch.exp(ids(log, theta.device))
        for b, bias, offset in shifts:
            theta[bias] = offset + ids(b.gain(theta.numpy(force=True)) * b.mean, theta.device)


class RelativeRescaling(Rescaling):
    """All diagonal rescalings, those inside mixings included, in the coordinates delta / |theta|."""

    def __init__(self, theta: Tensor, found: Findings, detected: Detected):
        super().__init__(theta, found, replace(detected, representative=detected.rescalable))
        size = theta.abs().cpu().numpy()[self.columns.rows]
        inverse = np.where(size > 0, 1.0 / np.maximum(size, 1e-300), 0.0)
        self.columns = self.columns.scaled(inverse)
        self.theta = theta.sign()
