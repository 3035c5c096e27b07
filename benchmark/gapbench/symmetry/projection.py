"""Orthogonal projection onto the horizontal space: the complement of all tangents of the orbit.

Small groups are projected with an orthonormal basis, chains of linear layers in closed form. Otherwise what is
sparse (rescalings, shifts, null directions) is projected out directly, by a factored Gram matrix; mixings by
conjugate gradients on what that leaves of their tangents, preconditioned by Sylvester equations in cached
eigenbases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from gapbench.symmetry.chain import chain_projection
from gapbench.symmetry.groups.group import Group
from gapbench.symmetry.groups.mixing import Mixing
from gapbench.symmetry.groups.null_directions import ReaderNulls, WriterNulls
from gapbench.symmetry.groups.rescaling import Rescaling
from gapbench.symmetry.groups.shifts import Shifts
from gapbench.symmetry.mixing_solver import mixing_solver
from gapbench.symmetry.mixing_tangents import MixingTangents
from gapbench.symmetry.sparse_tangents import SparseTangents, listable

DENSE_ENTRIES = 1_000_000
DENSE_SIZE = 700
TOLERANCE = 1e-10
MAX_ITERATIONS = 3000
RANK_TOLERANCE = 1e-9
SPARSE = (Rescaling, Shifts, WriterNulls, ReaderNulls)
NULLS = (WriterNulls, ReaderNulls)


class Unconverged(RuntimeError):
    """The projection did not reach its tolerance; the message gives the residual."""


@dataclass(frozen=True)
class Projection:
    """P z and the orthogonal component's relative residual, estimated by the last step."""

    vector: Tensor
    residual: float
    iterations: int


class Projector:
    """Projects on the complement of the groups' tangents.

    `dense` forces or forbids an orthonormal basis of the tangents, by default used where it is small. With
    `dimension`, the rank of the tangents, chains of linear layers are projected in closed form.
    """

    def __init__(
        self,
        groups: list[Group],
        d: int,
        device: torch.device,
        dense: bool | None = None,
        dimension: int | None = None,
    ):
        self.groups = [f for f in groups if f.size]
        self.sizes = [f.size for f in self.groups]
        self.size, self.d, self.device = sum(self.sizes), d, device
        small = self.size <= DENSE_SIZE and self.size * d <= DENSE_ENTRIES
        self.dense = small if dense is None else dense
        self.basis: Tensor | None = None
        self._chain = None if dimension is None else chain_projection(self.groups, dimension)
        self._direct: SparseTangents | None = None
        self._coupled: Coupled | None = None
        if self.dense and self.size:
            self.basis = self._orthonormal()

    def tangent(self, c: Tensor) -> Tensor:
        """T c (d,), the change of the parameters along all groups' coordinates c (size,)."""
        out = torch.zeros(self.d, dtype=torch.float64, device=self.device)
        for group, part in zip(self.groups, torch.split(c, self.sizes)):
            group.add_to(out, part)
        return out

    def cotangent(self, z: Tensor) -> Tensor:
        """T' z (size,) of a vector z (d,)."""
        return torch.cat([f.cotangent(z) for f in self.groups])

    def columns(self) -> Tensor:
        """All tangents (d, size); for small groups."""
        identity = torch.eye(self.size, dtype=torch.float64, device=self.device)
        return torch.stack([self.tangent(row) for row in identity], dim=1)

    def _orthonormal(self) -> Tensor:
        matrix = self.columns()
        norms = matrix.norm(dim=0)
        matrix = matrix[:, norms > 0] / norms[norms > 0]
        left, values, _ = torch.linalg.svd(matrix, full_matrices=False)
        basis: Tensor = left[:, values > RANK_TOLERANCE * values.max()] if len(values) else left
        return basis

    def project(self, z: Tensor) -> Projection:
        """Project a vector z (d,) in float64.

        Returns:
            P z and how exact it is.

        Raises:
            Unconverged: conjugate gradients did not reach a relative error of 1e-10.
        """
        if not self.size:
            return Projection(z.clone(), 0.0, 0)
        if self.basis is not None:
            result = z - self.basis @ (self.basis.T @ z)
            result = result - self.basis @ (self.basis.T @ result)
            return Projection(result, 0.0, 0)
        if self._chain is not None:
            return Projection(self._chain(z), 0.0, 0)
        scale = float(z.norm())
        if scale == 0.0:
            return Projection(z.clone(), 0.0, 0)
        if self._direct is None:
            self._split()
        assert self._direct is not None
        horizontal, error, iterations = self._direct.project(z, 0.1 * TOLERANCE)
        if self._coupled is not None:
            rest, iterations = self._iterate(horizontal, scale)
            error = (self._direct.left(horizontal) + rest**2) ** 0.5
        if not error <= 2 * TOLERANCE * scale:
            raise Unconverged(
                f"the projection on the horizontal space did not converge: relative residual {error / scale:.1e} "
                f"after {iterations} iterations"
            )
        return Projection(horizontal, error / scale, iterations)

    def _split(self) -> None:
        """What is projected out directly, and what by iteration."""
        direct = [g for g in self.groups if isinstance(g, SPARSE)]
        if not listable(direct):
            direct = [g for g in direct if not isinstance(g, NULLS)]
        others = [g for g in self.groups if g not in direct]
        self._direct = SparseTangents(direct, self.d, self.device)
        self._coupled = Coupled(others, self.d, self.device) if others else None

    def _iterate(self, horizontal: Tensor, scale: float) -> tuple[float, int]:
        """Conjugate gradients on the normal equations of the coupled groups, within what the direct ones leave.

        `horizontal` (d,) is changed in place.

        Returns:
            The norm of what is left along their tangents, as estimated, and how many steps were made.
        """
        direct, coupled = self._direct, self._coupled
        assert direct is not None
        assert coupled is not None
        right = coupled.cotangent(horizontal)
        preconditioned = coupled.solve(right)
        direction, energy = preconditioned.clone(), float(right @ preconditioned)
        for iteration in range(1, MAX_ITERATIONS + 1):
            if math.sqrt(max(energy, 0.0)) <= TOLERANCE * scale:
                return math.sqrt(max(energy, 0.0)), iteration - 1
            image = torch.zeros_like(horizontal)
            coupled.add_to(image, direction)
            direct.remove(image)
            length = float(image @ image)
            if length <= 0.0:
                break
            horizontal.sub_(image, alpha=energy / length)
            right = coupled.cotangent(horizontal)
            preconditioned = coupled.solve(right)
            following = float(right @ preconditioned)
            direction = preconditioned + (following / energy) * direction
            energy = following
        return math.sqrt(max(energy, 0.0)), MAX_ITERATIONS


class Coupled:
    """Mixings, and null directions that are too many to be listed, with an approximate inverse of T'T."""

    def __init__(self, groups: list[Group], d: int, device: torch.device):
        mixings = [g for g in groups if isinstance(g, Mixing)]
        self.nulls = [g for g in groups if isinstance(g, WriterNulls | ReaderNulls)]
        self.mixings = MixingTangents(mixings, d, device)
        self.sizes = [self.mixings.size, *(g.size for g in self.nulls)]
        self._solve = mixing_solver(mixings, device)

    def add_to(self, out: Tensor, c: Tensor) -> None:
        """Add T c to out (d,)."""
        mixed, *rest = torch.split(c, self.sizes)
        if self.mixings.size:
            self.mixings.add_to(out, mixed)
        for group, part in zip(self.nulls, rest):
            group.add_to(out, part)

    def cotangent(self, z: Tensor) -> Tensor:
        """T' z."""
        return torch.cat([self.mixings.cotangent(z), *(g.cotangent(z) for g in self.nulls)])

    def solve(self, right: Tensor) -> Tensor:
        """An approximate solution c of T'T c = right, group by group."""
        mixed, *rest = torch.split(right, self.sizes)
        return torch.cat([self._solve(mixed), *(r / g.square for g, r in zip(self.nulls, rest))])
