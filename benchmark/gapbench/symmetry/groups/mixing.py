"""Mixings of channels: all invertible matrices, or rotations."""

from __future__ import annotations

import torch
from torch import Tensor

from gapbench.symmetry.detection.records import Slot, Space
from gapbench.symmetry.groups.group import ids


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
        self.indices = [ids(slot.index, device) for slot in space.slots]
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
        factors = theta[ids(slot.weight, theta.device)]
        if slot.sigma is not None:
            factors = factors / ids(slot.sigma, theta.device)
        return 1.0 / factors if slot.inverse else factors

    @staticmethod
    def _offset(theta: Tensor, slot: Slot) -> Tensor | None:
        if slot.gain is None:
            return None
        ratio = ids(slot.gain.factor * slot.gain.mean / slot.gain.sigma, theta.device)
        if (slot.gain.weight >= 0).all():
            ratio = ratio * theta[ids(slot.gain.weight, theta.device)]
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
        """The change (d,) of the parameters along the generator with coordinates c (size,)."""
        out = torch.zeros(self.d, dtype=torch.float64, device=c.device)
        self.add_to(out, c)
        return out

    def add_to(self, out: Tensor, c: Tensor) -> None:
        """Add the tangent along c (size,) to out (d,)."""
        a = self.matrix(c)
        for index, x, dual, factors in self.parts():
            change = -(a.T @ x) if dual else a @ x
            if factors is not None:
                change = change * factors if dual else change / factors
            out.index_add_(0, index.reshape(-1), change.reshape(-1))

    def cotangent(self, z: Tensor) -> Tensor:
        """The transpose of `tangent`: (d,) -> (size,)."""
        total = torch.zeros(self.n, self.n, dtype=torch.float64, device=z.device)
        for index, x, dual, factors in self.parts():
            part = z[index]
            if factors is not None:
                part = part * factors if dual else part / factors
            total += -(x @ part.T) if dual else part @ x.T
        return self.coordinates(total)

    def finite(self, theta: Tensor, c: Tensor) -> Tensor:
        """theta (d,) transformed by exp of the generator with coordinates c (size,)."""
        return self.act(theta, torch.linalg.matrix_exp(self.matrix(c)))

    def act(self, theta: Tensor, m: Tensor) -> Tensor:
        """Transform channels by an invertible M (for rotations: orthogonal, fixing 1 where centred)."""
        out = theta.clone()
        self.act_in_place(out, m)
        return out

    def act_in_place(self, theta: Tensor, m: Tensor) -> None:
        """`act`, on theta itself."""
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
