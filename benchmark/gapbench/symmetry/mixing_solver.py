"""Approximate inverses of the Gram matrices of mixings, mixings of one size together.

A mixing by A changes the weights before it to A X and those after it to -A' Y, weighted row by row where a
normalisation stands between: G A = E A P + Q A F with diagonal E and F. That is exact for one pair of layers; of
several the nearest of this form is taken. It is solved in the eigenbases of E^-1/2 Q E^-1/2 and F^-1/2 P F^-1/2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gapbench.symmetry.groups.mixing import Mixing

SMALLEST = 1e-10  # eigenvalues relative to the largest

Solve = Callable[[Tensor], Tensor]


def mixing_solver(mixings: Sequence[Mixing], device: torch.device) -> Solve:
    """right (size,) -> an approximate solution c (size,) of G c = right, for mixings one after the other."""
    starts, start = [], 0
    together: dict[int, list[int]] = defaultdict(list)
    turning: list[int] = []
    for i, mixing in enumerate(mixings):
        starts.append(start)
        start += mixing.size
        if mixing.space.algebra == "gl":
            together[mixing.n].append(i)
        elif mixing.size:
            turning.append(i)
    solvers: list[tuple[Tensor, Solve]] = []
    for n, members in together.items():
        own = torch.arange(n * n, device=device)
        positions = torch.cat([starts[i] + own for i in members])
        solvers.append((positions, _sylvester([mixings[i] for i in members])))
    for i in turning:
        solvers.append(
            (torch.arange(starts[i], starts[i] + mixings[i].size, device=device), _turn(mixings[i]))
        )

    def solve(right: Tensor) -> Tensor:
        out = torch.empty_like(right)
        for positions, part in solvers:
            out.index_copy_(0, positions, part(right.index_select(0, positions)))
        return out

    return solve


def _sylvester(mixings: Sequence[Mixing]) -> Solve:
    """For general mixings of one size n: right (b * n * n,) -> A, solved with E A P + Q A F = right."""
    n = mixings[0].n
    rows, columns = zip(*(_factors(m) for m in mixings))
    e, p = (torch.stack(t) for t in zip(*rows))
    f, q = (torch.stack(t) for t in zip(*columns))
    left, right_scale = e.rsqrt()[:, :, None], f.rsqrt()[:, None, :]
    p_values, p_vectors = torch.linalg.eigh(right_scale.transpose(1, 2) * p * right_scale)
    q_values, q_vectors = torch.linalg.eigh(left * q * left.transpose(1, 2))
    sums = q_values[:, :, None] + p_values[:, None, :]
    largest = sums.amax(dim=(1, 2), keepdim=True)
    sums = torch.maximum(sums, SMALLEST * largest + 1e-300)
    before, after = q_vectors.transpose(1, 2).contiguous(), p_vectors.transpose(1, 2).contiguous()

    def solve(right: Tensor) -> Tensor:
        scaled = right.reshape(-1, n, n) * left * right_scale
        inside = torch.bmm(torch.bmm(before, scaled), p_vectors) / sums
        return (torch.bmm(torch.bmm(q_vectors, inside), after) * left * right_scale).reshape(-1)

    return solve


def _factors(mixing: Mixing) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """(E, P) and (F, Q), the diagonals (n,) and covariances (n, n) of the slots on both sides."""
    n = mixing.n
    sides = []
    for wanted in (False, True):
        weights = torch.zeros(n, dtype=torch.float64, device=mixing.theta.device)
        total = torch.zeros(n, n, dtype=torch.float64, device=mixing.theta.device)
        mass = 0.0
        for _, x, dual, factors in mixing.parts():
            if dual is not wanted:
                continue
            square = x @ x.T
            size = float(square.diagonal().sum())
            scale = torch.ones_like(weights)
            if factors is not None:
                scale = (factors if dual else 1.0 / factors).pow(2).mean(dim=1)
            mean = float(scale.mean())
            weights += size * scale
            total += mean * square
            mass += size * mean
        if mass > 0.0:
            weights = weights / (weights.mean() or 1.0)
        else:
            weights = torch.ones_like(weights)
        sides.append((weights.clamp_min(1e-8), total))
    return sides[0], sides[1]


def _turn(mixing: Mixing) -> Solve:
    """For rotations: right (size,) -> the skew matrix, with one covariance on both sides."""
    n, inner = mixing.n, mixing.inner
    total = torch.zeros(n, n, dtype=torch.float64, device=mixing.theta.device)
    for _, x, dual, factors in mixing.parts():
        weight = 1.0
        if factors is not None:
            mean = factors.pow(2).mean()
            weight = float(mean if dual else 1.0 / mean)
        total += weight * (x @ x.T)
    if mixing.frame is not None:
        total = mixing.frame.T @ total @ mixing.frame
    values, vectors = torch.linalg.eigh(total)
    both = values[:, None] + values[None, :]
    both = both.clamp_min(SMALLEST * float(both.max()))
    upper = mixing.upper

    def solve(right: Tensor) -> Tensor:
        skew = torch.zeros(inner, inner, dtype=torch.float64, device=right.device)
        skew[upper[0], upper[1]] = right
        skew = skew - skew.T
        inside: Tensor = vectors @ ((vectors.T @ skew @ vectors) / both) @ vectors.T
        return inside[upper[0], upper[1]]

    return solve
