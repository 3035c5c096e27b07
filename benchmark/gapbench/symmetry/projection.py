"""Orthogonal projection onto the horizontal space: the complement of all tangents of the orbit.

Small groups are projected with an orthonormal basis. Otherwise the normal equations T'T c = T'z are solved by
conjugate gradients, preconditioned group by group: the sparse Gram matrix of rescalings and shifts is factored
once, mixings are solved in the eigenbasis of their two covariances, null directions are orthogonal already.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import torch
from torch import Tensor

from gapbench.symmetry.chain import chain_projection
from gapbench.symmetry.groups.gram import gram
from gapbench.symmetry.groups.group import Group
from gapbench.symmetry.groups.mixing import Mixing
from gapbench.symmetry.groups.null_directions import ReaderNulls, WriterNulls
from gapbench.symmetry.groups.rescaling import Rescaling
from gapbench.symmetry.groups.shifts import Shifts

DENSE_ENTRIES = 1_000_000
DENSE_SIZE = 700
TOLERANCE = 1e-10
MAX_ITERATIONS = 3000
DENSE_BLOCK = 1300
RANK_TOLERANCE = 1e-9
LARGEST_FACTORED = 7000

Solve = Callable[[Tensor], Tensor]


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
        self._solvers: list[tuple[list[int], Solve]] | None = None
        self._chain = None if dimension is None else chain_projection(self.groups, dimension)
        if self.dense and self.size:
            self.basis = self._orthonormal()

    def tangent(self, c: Tensor) -> Tensor:
        """T c (d,), the change of the parameters along all groups' coordinates c (size,)."""
        out = torch.zeros(self.d, dtype=torch.float64, device=self.device)
        for group, part in zip(self.groups, torch.split(c, self.sizes)):
            out += group.tangent(part)
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
        horizontal = z.clone()
        right = self.cotangent(horizontal)
        preconditioned = self.precondition(right)
        direction, energy = preconditioned.clone(), float(right @ preconditioned)
        for iteration in range(1, MAX_ITERATIONS + 1):
            if math.sqrt(max(energy, 0.0)) <= TOLERANCE * scale:
                return Projection(horizontal, math.sqrt(max(energy, 0.0)) / scale, iteration - 1)
            image = self.tangent(direction)
            length = float(image @ image)
            if length <= 0.0:
                break
            horizontal -= (energy / length) * image
            right = self.cotangent(horizontal)
            preconditioned = self.precondition(right)
            following = float(right @ preconditioned)
            direction = preconditioned + (following / energy) * direction
            energy = following
        residual = math.sqrt(max(energy, 0.0)) / scale
        raise Unconverged(
            f"the projection on the horizontal space did not converge: relative residual {residual:.1e} after "
            f"{MAX_ITERATIONS} iterations"
        )

    def precondition(self, right: Tensor) -> Tensor:
        """An approximate solution c (size,) of T'T c = right, group by group."""
        if self._solvers is None:
            self._solvers = self._factor()
        parts = list(torch.split(right, self.sizes))
        out = list(parts)
        for members, solve in self._solvers:
            joint = torch.cat([parts[i] for i in members])
            for i, piece in zip(members, torch.split(solve(joint), [self.sizes[i] for i in members])):
                out[i] = piece
        return torch.cat(out)

    def _factor(self) -> list[tuple[list[int], Solve]]:
        solvers: list[tuple[list[int], Solve]] = []
        sparse = {i: f for i, f in enumerate(self.groups) if isinstance(f, Rescaling | Shifts)}
        if sparse:
            alone = len(sparse) == len(self.groups)
            solvers.append(
                (list(sparse), _sparse_solver(list(sparse.values()), self.device, factor=not alone))
            )
        for i, group in enumerate(self.groups):
            if isinstance(group, WriterNulls | ReaderNulls):
                solvers.append(([i], _divide(group.square)))
            elif isinstance(group, Mixing):
                solvers.append(([i], _mixing_solver(group)))
        return solvers


def _divide(square: float) -> Solve:
    return lambda right: right / square


def _sparse_solver(groups: list[Rescaling | Shifts], device: torch.device, factor: bool) -> Solve:
    """Joint solve for rescalings and shifts, whose Gram matrix is sparse: a Laplacian of the channels.

    Factored where it is small, or if `factor` and not too large (worth it for a preconditioner that is applied
    many times); otherwise by conjugate gradients on the Gram matrix, which never touch the weights.

    Returns:
        A solver of G c = right, c and right (n,).
    """
    total = gram(groups)
    scale = np.sqrt(np.maximum(total.diagonal(), 1e-300))
    scaled = (sp.diags(1 / scale) @ total @ sp.diags(1 / scale)).tocsc()
    n = len(scale)
    ridge = 1e-13
    if n <= DENSE_BLOCK:
        dense = torch.from_numpy(scaled.toarray()).to(device)
        dense.diagonal().add_(ridge)
        triangle, info = torch.linalg.cholesky_ex(dense)
        while int(info) and ridge < 1e-6:
            ridge *= 100
            dense.diagonal().add_(ridge)
            triangle, info = torch.linalg.cholesky_ex(dense)
        scaling = torch.from_numpy(1 / scale).to(device)

        def solve_dense(right: Tensor) -> Tensor:
            return scaling * torch.cholesky_solve((scaling * right)[:, None], triangle)[:, 0]

        return solve_dense
    if not factor or n > LARGEST_FACTORED:
        rows = scaled.tocsr()

        def solve_iteratively(right: Tensor) -> Tensor:
            found, _ = spl.cg(rows, right.cpu().numpy() / scale, rtol=1e-13, maxiter=5000)
            return torch.from_numpy(found / scale).to(device)

        return solve_iteratively
    lu = spl.splu(
        scaled + 1e-12 * sp.identity(n, format="csc"),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def solve(right: Tensor) -> Tensor:
        return torch.from_numpy(lu.solve(right.cpu().numpy() / scale) / scale).to(device)

    return solve


def _mixing_solver(group: Mixing) -> Solve:
    """Exact for small spaces; otherwise A -> A P + Q A solved in the eigenbases of P and Q."""
    if group.size <= DENSE_BLOCK:
        gram = _mixing_gram(group)
        scale = gram.diagonal().clamp_min(1e-300).sqrt()
        scaled = gram / scale[:, None] / scale[None, :]
        values, vectors = torch.linalg.eigh(scaled)
        inverse = torch.where(values > 1e-12 * values.max(), 1.0 / values, torch.zeros_like(values))
        floor = torch.where(inverse == 0, torch.full_like(inverse, 1.0 / float(values.max())), inverse)

        def solve_dense(right: Tensor) -> Tensor:
            found: Tensor = (vectors @ (floor * (vectors.T @ (right / scale)))) / scale
            return found

        return solve_dense
    n = group.n
    p = torch.zeros(n, n, dtype=torch.float64, device=group.theta.device)
    q = torch.zeros_like(p)
    for _, x, dual, factors in group.parts():
        weight = 1.0
        if factors is not None:
            mean = factors.pow(2).mean()
            weight = float(mean if dual else 1.0 / mean)
        if dual:
            q += weight * (x @ x.T)
        else:
            p += weight * (x @ x.T)
    if group.space.algebra == "gl":
        p_values, p_vectors = torch.linalg.eigh(p)
        q_values, q_vectors = torch.linalg.eigh(q)
        sums = q_values[:, None] + p_values[None, :]
        sums = sums.clamp_min(1e-10 * float(sums.max()))

        def solve(right: Tensor) -> Tensor:
            inside = q_vectors.T @ right.reshape(n, n) @ p_vectors
            found: Tensor = q_vectors @ (inside / sums) @ p_vectors.T
            return found.reshape(-1)

        return solve
    total = p + q
    if group.frame is not None:
        total = group.frame.T @ total @ group.frame
    values, vectors = torch.linalg.eigh(total)
    both = values[:, None] + values[None, :]
    both = both.clamp_min(1e-10 * float(both.max()))
    upper, inner = group.upper, group.inner

    def solve_rotation(right: Tensor) -> Tensor:
        skew = torch.zeros(inner, inner, dtype=torch.float64, device=right.device)
        skew[upper[0], upper[1]] = right
        skew = skew - skew.T
        inside: Tensor = vectors @ ((vectors.T @ skew @ vectors) / both) @ vectors.T
        return inside[upper[0], upper[1]]

    return solve_rotation


def _mixing_gram(group: Mixing) -> Tensor:
    columns = []
    for row in torch.eye(group.size, dtype=torch.float64, device=group.theta.device):
        columns.append(group.cotangent(group.tangent(row)))
    gram = torch.stack(columns, dim=1)
    return (gram + gram.T) / 2
