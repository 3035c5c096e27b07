"""The point of least norm on the orbit of rescalings and mixings."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import torch
from torch import Tensor

from gapbench.symmetry.canonical.errors import CannotBalance
from gapbench.symmetry.canonical.gauges import drop_dead
from gapbench.symmetry.groups.mixing import Mixing
from gapbench.symmetry.groups.rescaling import Rescaling
from gapbench.symmetry.orbit import Orbit

TOLERANCE = 1e-13
MAX_ROUNDS = 2000
STALLED = 50  # rounds in which the imbalance must at least halve


def least_norm(orbit: Orbit, theta: Tensor) -> Tensor:
    """Least norm over rescalings (Newton) and mixings (singular values), alternating where they meet."""
    findings, detected = orbit.findings, orbit.detected
    mixed = [s for s in detected.spaces if s.algebra == "gl"]
    for space in mixed:
        _check_space(space.slots)
    progress: list[float] = []
    for _ in range(MAX_ROUNDS):
        moved = 0.0
        for space in mixed:
            mixing = Mixing(theta, space)
            theta, change = _balance_mixing(theta, mixing)
            moved = max(moved, change)
        if moved > TOLERANCE:  # a mixing may have left units without incoming or outgoing weights
            theta = drop_dead(orbit, theta)
        rescaling = Rescaling(theta, findings, detected)
        if rescaling.size:
            theta, change = _newton(theta, orbit)
            moved = max(moved, change)
        if moved <= TOLERANCE or not ((rescaling.size and mixed) or len(mixed) > 1):
            return theta
        progress.append(moved)
        if len(progress) > STALLED and moved > 0.5 * progress[-STALLED]:
            break
    raise CannotBalance(f"balancing did not converge in {len(progress)} rounds")


def _check_space(slots: tuple[object, ...]) -> None:
    primal = {int(i) for s in slots if not s.dual for i in s.index.reshape(-1)}  # type: ignore[attr-defined]
    dual = {int(i) for s in slots if s.dual for i in s.index.reshape(-1)}  # type: ignore[attr-defined]
    if primal & dual:
        raise CannotBalance("a linear layer that reads and writes the same channels")


def _balance_mixing(theta: Tensor, mixing: Mixing) -> tuple[Tensor, float]:
    """Factors X, Y of Y'X replaced by their balanced singular factors; returns the relative imbalance before."""
    parts = mixing.parts()
    x = torch.cat([part for _, part, dual, _ in parts if not dual], dim=1)
    y_parts = [part for _, part, dual, _ in parts if dual]
    if not y_parts or not x.numel():
        raise CannotBalance("channels that are written but not read, or the other way round")
    y = torch.cat(y_parts, dim=1)
    p, q = x @ x.T, y @ y.T
    imbalance = float((p - q).norm() / (p.norm() + q.norm()).clamp_min(1e-300))
    if imbalance <= TOLERANCE:
        return theta, 0.0
    qx, rx = torch.linalg.qr(x.T)
    qy, ry = torch.linalg.qr(y.T)
    u, s, vt = torch.linalg.svd(ry @ rx.T)
    s = torch.where(s > 1e-12 * s.max(), s, torch.zeros_like(s))
    root = s.sqrt()
    rank = len(s)
    new_x = torch.zeros_like(x)
    new_y = torch.zeros_like(y)
    new_x[:rank] = root[:, None] * (vt[:rank] @ qx.T)
    new_y[:rank] = root[:, None] * (u[:, :rank].T @ qy.T)
    out = theta.clone()
    at_x = at_y = 0
    for (index, part, dual, factors), _ in zip(parts, mixing.space.slots):
        width = part.shape[1]
        if dual:
            value = new_y[:, at_y : at_y + width]
            at_y += width
            value = value * factors if factors is not None else value
        else:
            value = new_x[:, at_x : at_x + width]
            at_x += width
            value = value / factors if factors is not None else value
        out[index] = value
    return out, imbalance


def _newton(theta: Tensor, orbit: Orbit) -> tuple[Tensor, float]:
    """Minimise |theta|^2 over log scales: convex, gradient 2 T' theta, Hessian 4 T' T."""
    first = None
    if not bool(theta.any()):
        return theta, 0.0
    for _ in range(100):
        rescaling = Rescaling(theta, orbit.findings, orbit.detected)
        gradient = rescaling.cotangent(theta)
        size = float(gradient.abs().max()) / float(theta @ theta)
        first = size if first is None else first
        if size <= TOLERANCE:
            break
        vectors = rescaling.columns.matrix
        gram = rescaling.gram_weights() + vectors.T @ vectors
        step = _solve(gram, -0.5 * gradient.numpy())
        direction = torch.from_numpy(step)
        # A full step once it is safe, a shorter one while scales are far off.
        scale = min(1.0, 1.0 / max(1e-300, float(direction.abs().max())))
        norm, slope = float(theta @ theta), 2.0 * float(gradient @ direction)
        while True:
            candidate = rescaling.finite(theta, scale * direction)
            now = float(candidate @ candidate)
            if now <= norm + 1e-4 * scale * slope or scale < 1e-8 or abs(slope) < 1e-14 * norm:
                break
            scale /= 2
        theta = candidate
    return theta, first or 0.0


def _solve(gram: sp.csr_matrix, right: np.ndarray) -> np.ndarray:
    """The least step; units without weights, which nothing moves, stay where they are."""
    diagonal = gram.diagonal()
    moved = np.flatnonzero(diagonal > 1e-30 * diagonal.max(initial=0.0))
    step = np.zeros(len(right))
    if not len(moved):
        return step
    scale = 1.0 / np.sqrt(diagonal[moved])
    scaled = (sp.diags(scale) @ gram.tocsr()[moved][:, moved] @ sp.diags(scale)).tocsc()
    n = len(moved)
    if n <= 1500:
        solution = np.linalg.lstsq(scaled.toarray(), scale * right[moved], rcond=1e-12)[0]
    else:
        solution = spl.splu(scaled + sp.identity(n, format="csc") * 1e-13).solve(scale * right[moved])
    step[moved] = scale * solution
    return step
