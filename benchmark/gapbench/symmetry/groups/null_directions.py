"""What a writer adds to a normalised stream, or a reader to its weights, without anybody seeing it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gapbench.symmetry.classes import distinct
from gapbench.symmetry.detection.records import ReaderNull, WriterNull
from gapbench.symmetry.groups.columns import Columns
from gapbench.symmetry.groups.group import ids


class WriterNulls:
    """theta[index] += direction u' for one writer of a normalised stream."""

    def __init__(self, theta: Tensor, null: WriterNull):
        self.null, self.d = null, len(theta)
        self.size = null.index.shape[1]
        self.index = ids(null.index, theta.device)
        self.direction = self.direction_at(theta)
        self.square = float(self.direction.pow(2).sum())

    def direction_at(self, theta: Tensor) -> Tensor:
        """What is added to the writers of each channel, (channels,)."""
        if self.null.weight is None:
            return torch.ones(self.null.index.shape[0], dtype=torch.float64, device=theta.device)
        return 1.0 / theta[ids(self.null.weight, theta.device)]

    def tangent(self, c: Tensor) -> Tensor:
        """The change (d,) of the parameters for u = c (size,)."""
        out = torch.zeros(self.d, dtype=torch.float64, device=c.device)
        self.add_to(out, c)
        return out

    def add_to(self, out: Tensor, c: Tensor) -> None:
        """Add the tangent along c (size,) to out (d,)."""
        out.index_add_(0, self.index.reshape(-1), (self.direction[:, None] * c[None, :]).reshape(-1))

    def all_columns(self) -> Columns:
        """All tangents."""
        index, size = self.null.index, self.size
        values = np.repeat(self.direction.cpu().numpy(), size)
        columns = np.tile(np.arange(size), len(index))
        return Columns.of_entries(index.reshape(-1), columns, values, (self.d, size), self.direction.device)

    def cotangent(self, z: Tensor) -> Tensor:
        """The transpose of `tangent`: (d,) -> (size,)."""
        return self.direction @ z[self.index]

    def change(self, theta: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Positions and what is added there."""
        return self.index.reshape(-1), (self.direction_at(theta)[:, None] * c[None, :]).reshape(-1)

    def finite(self, theta: Tensor, c: Tensor) -> Tensor:
        """theta (d,) moved along u = c (size,), in a straight line."""
        return theta.index_add(0, *self.change(theta, c))


class ReaderNulls:
    """theta[index] += u (1 / gamma)', with the bias that makes up for beta."""

    def __init__(self, theta: Tensor, null: ReaderNull):
        self.null, self.d = null, len(theta)
        self.size = len(null.index)
        self.index, self.bias = ids(null.index, theta.device), ids(null.bias, theta.device)
        self.inverse, self.total = self.direction_at(theta)
        # By structure, not by value: shifts that are zero here may be moved before `change` is called.
        self.biased = bool((null.bias >= 0).all()) and bool((null.shift >= 0).all())
        repeats = len(null.bias) / max(1, len(distinct(null.bias)))
        self.square = float(self.inverse.pow(2).sum()) + (self.total**2 * repeats if self.biased else 0.0)

    def direction_at(self, theta: Tensor) -> tuple[Tensor, float]:
        """1 / gamma (features,), and sum(beta / gamma), which the biases make up for."""
        n = self.null.index.shape[1]
        inverse = torch.ones(n, dtype=torch.float64, device=theta.device)
        if (self.null.weight >= 0).all():
            inverse = 1.0 / theta[ids(self.null.weight, theta.device)]
        total = 0.0
        if (self.null.shift >= 0).all():
            total = float((theta[ids(self.null.shift, theta.device)] * inverse).sum())
        return inverse, total

    def tangent(self, c: Tensor) -> Tensor:
        """The change (d,) of the parameters for u = c (size,)."""
        out = torch.zeros(self.d, dtype=torch.float64, device=c.device)
        self.add_to(out, c)
        return out

    def add_to(self, out: Tensor, c: Tensor) -> None:
        """Add the tangent along c (size,) to out (d,)."""
        out.index_add_(0, self.index.reshape(-1), (c[:, None] * self.inverse[None, :]).reshape(-1))
        if self.biased:
            out.index_add_(0, self.bias, -self.total * c)

    def all_columns(self) -> Columns:
        """All tangents."""
        index, own = self.null.index, np.arange(self.size)
        positions, columns = [index.reshape(-1)], [np.repeat(own, index.shape[1])]
        values = [np.tile(self.inverse.cpu().numpy(), len(index))]
        if self.biased:
            positions.append(self.null.bias)
            columns.append(own)
            values.append(np.full(self.size, -self.total))
        return Columns.of_entries(
            np.concatenate(positions),
            np.concatenate(columns),
            np.concatenate(values),
            (self.d, self.size),
            self.inverse.device,
        )

    def cotangent(self, z: Tensor) -> Tensor:
        """The transpose of `tangent`: (d,) -> (size,)."""
        result = z[self.index] @ self.inverse
        return result - self.total * z[self.bias] if self.biased else result

    def change(self, theta: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Positions and what is added there."""
        inverse, total = self.direction_at(theta)
        weights = (c[:, None] * inverse[None, :]).reshape(-1)
        if not self.biased:
            return self.index.reshape(-1), weights
        return torch.cat([self.index.reshape(-1), self.bias]), torch.cat([weights, -total * c])

    def finite(self, theta: Tensor, c: Tensor) -> Tensor:
        """theta (d,) moved along u = c (size,), in a straight line."""
        return theta.index_add(0, *self.change(theta, c))
