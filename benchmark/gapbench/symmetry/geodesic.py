"""Geodesic balls in a metric that the symmetries leave unchanged (da Silva and Dangel 2025, "Hide & Seek").

Pairs of matrices between which gl(n) acts (an attention head's queries and keys, its values and projection, a
linear bottleneck) carry the metric "inv": tr((G'G)^-1 xi_G'xi_G + (H'H)^-1 xi_H'xi_H), or "mix":
tr((H'H) xi_G'xi_G + (G'G) xi_H'xi_H). All other parameters carry |xi / theta|, whose geodesics are exponentials.
Perturbations are horizontal: orthogonal, in the metric, to the pairs' groups and to all rescalings.
"""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as replaced

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from gapbench.curvature.loss import Landscape
from gapbench.symmetry.groups.mixing import Mixing
from gapbench.symmetry.groups.rescaling import RelativeRescaling
from gapbench.symmetry.orbit import Orbit
from gapbench.symmetry.projection import Projector
from gapbench_base.errors import NotDefined


class NoMetric(NotDefined):
    """The invariant metric is not defined at these parameters; the message says why."""


@dataclass(frozen=True)
class Pair:
    """X = G' (n, M) and Y = H' (n, M') at positions of theta; `roots` whiten the metric on each."""

    at: tuple[Tensor, Tensor]
    matrices: tuple[Tensor, Tensor]
    grams: tuple[Tensor, Tensor]
    roots: tuple[Tensor, Tensor]


class GeodesicSurface:
    """eta (d,) in orthonormal coordinates of the metric -> loss at the geodesic's end."""

    def __init__(self, landscape: Landscape, orbit: Orbit, metric: str):
        self.landscape, self.metric, self.dtype = landscape, metric, landscape.dtype
        self.origin = orbit.bound.theta
        self.pairs, taken = self._find_pairs(orbit)
        d = len(self.origin)
        self.single = torch.ones(d, dtype=torch.bool, device=self.origin.device)
        for pair in self.pairs:
            for at in pair.at:
                self.single[at.reshape(-1)] = False
        self.twins = self._find_twins(orbit) if metric == "mix" else None
        self.rescalings = self._rescalings(orbit, taken)

    # ---- structure -------------------------------------------------------------------------------------

    def _find_pairs(self, orbit: Orbit) -> tuple[list[Pair], np.ndarray]:
        used = np.zeros(len(self.origin), bool)
        pairs, classes = [], [np.zeros(0, np.int64)]
        for mixing in orbit.bound.mixings:
            slots = mixing.space.slots
            if mixing.space.algebra != "gl" or any(s.weight is not None or s.gain is not None for s in slots):
                continue
            positions = np.concatenate([s.index.reshape(-1) for s in slots])
            if used[positions].any() or len(np.unique(positions)) != len(positions):
                continue
            if not any(s.dual for s in slots) or all(s.dual for s in slots):
                continue
            used[positions] = True
            classes.append(mixing.space.channels)
            pairs.append(self._pair(mixing))
        return pairs, np.concatenate(classes)

    def _pair(self, mixing: Mixing) -> Pair:
        at, matrices = [], []
        for wanted in (False, True):
            index = torch.cat(
                [i for i, s in zip(mixing.indices, mixing.space.slots) if s.dual is wanted], dim=1
            )
            at.append(index)
            matrices.append(self.origin[index])
        grams = [m @ m.T for m in matrices]
        roots = []
        for own, other in ((0, 1), (1, 0)):
            gram = grams[own] if self.metric == "inv" else grams[other]
            factor, info = torch.linalg.cholesky_ex(gram)
            diagonal = factor.diagonal()
            if int(info) or float(diagonal.min()) < 1e-7 * float(diagonal.max()):
                raise NoMetric(
                    f"the metric needs matrices of full rank, but {mixing.space.name} has fewer independent "
                    "columns than channels"
                )
            roots.append(factor)
        return Pair((at[0], at[1]), (matrices[0], matrices[1]), (grams[0], grams[1]), (roots[0], roots[1]))

    def _find_twins(self, orbit: Orbit) -> tuple[Tensor, Tensor]:
        """Scalar pairs: two parameters that only one rescaling moves, in opposite directions."""
        relative = RelativeRescaling(self.origin, orbit.findings, orbit.detected)
        first, second = [], []
        if 0 < relative.size * len(self.origin) <= 20_000_000:
            signs = self.origin.sign()
            columns = torch.stack(
                [relative.tangent(row) for row in torch.eye(relative.size, dtype=torch.float64)], dim=1
            )
            exponents = (columns * signs[:, None]).round()
            alone = (exponents != 0).sum(dim=1) == 1
            for j in range(relative.size):
                hit = torch.nonzero(exponents[:, j])[:, 0]
                if len(hit) == 2 and bool(alone[hit].all()) and float(exponents[hit, j].sum()) == 0.0:
                    first.append(int(hit[0]))
                    second.append(int(hit[1]))
        return torch.tensor(first, dtype=torch.int64), torch.tensor(second, dtype=torch.int64)

    def _rescalings(self, orbit: Orbit, taken: np.ndarray) -> Projector:
        """Rescalings that move parameters outside the pairs only."""
        detected = orbit.detected
        barred = np.zeros(len(detected.rescalable), bool)
        barred[taken] = True
        inside = ~self.single.cpu().numpy()
        for use in orbit.findings.linear:
            hit = inside[use.weight]
            barred[detected.rescalable[use.writes[hit.any(axis=(2, 3))]]] = True
            barred[detected.rescalable[use.reads[hit.any(axis=(1, 3))]]] = True
        allowed = np.where(barred[detected.rescalable], 0, detected.rescalable)
        group = RelativeRescaling(self.origin, orbit.findings, replaced(detected, rescalable=allowed))
        return Projector([group], len(self.origin), self.origin.device)

    # ---- coordinates -----------------------------------------------------------------------------------

    def theta(self) -> Tensor:
        """The coordinates (d,) of the network itself: zero."""
        return torch.zeros_like(self.origin)

    def end(self, eta: Tensor) -> Tensor:
        """exp_theta(xi(eta)): exact for single parameters and scalar pairs, second order for matrices."""
        theta0 = self.origin
        relative = eta * theta0.sign()
        moved = theta0 * torch.exp(relative)
        if self.twins is not None and len(self.twins[0]):
            a, b = self.twins
            xi_a, xi_b = eta[a] / theta0[b].abs(), eta[b] / theta0[a].abs()
            ratio_a, ratio_b = xi_a / theta0[a], xi_b / theta0[b]
            moved = moved.index_put((a,), theta0[a] * _root(ratio_a))
            moved = moved.index_put((b,), theta0[b] * _root(ratio_b))
        for pair in self.pairs:
            xi = [self._tangent(pair, side, eta[pair.at[side]]) for side in (0, 1)]
            for side in (0, 1):
                value = pair.matrices[side] + xi[side] - 0.5 * self._christoffel(pair, side, xi)
                moved = moved.index_put((pair.at[side],), value)
        return moved

    def _tangent(self, pair: Pair, side: int, eta: Tensor) -> Tensor:
        root = pair.roots[side]
        if self.metric == "inv":
            return root.matmul(eta)
        moved: Tensor = torch.linalg.solve_triangular(root.T, eta, upper=True)
        return moved

    def _whitened(self, pair: Pair, side: int, xi: Tensor) -> Tensor:
        root = pair.roots[side]
        if self.metric == "mix":
            return root.T.matmul(xi)
        white: Tensor = torch.linalg.solve_triangular(root, xi, upper=False)
        return white

    def _christoffel(self, pair: Pair, side: int, xi: list[Tensor]) -> Tensor:
        """Gamma(xi, xi) on one side, in transposed form."""
        x, own = pair.matrices[side], xi[side]
        if self.metric == "inv":
            inner = x @ own.T + own @ x.T
            first = inner @ torch.cholesky_solve(own, pair.roots[side])
            second = (own @ own.T) @ torch.cholesky_solve(x, pair.roots[side])
            return second - first
        y, other = pair.matrices[1 - side], xi[1 - side]
        inner = other @ y.T + y @ other.T
        root = pair.roots[side]  # of Y Y'
        return torch.cholesky_solve(inner @ own, root) - torch.cholesky_solve((other @ other.T) @ x, root)

    def project(self, eta: Tensor) -> Tensor:
        """Horizontal component in orthonormal coordinates."""
        result = self.rescalings.project(torch.where(self.single, eta, torch.zeros_like(eta))).vector
        if self.twins is not None and len(self.twins[0]):
            a, b = self.twins  # vertical: (+1, -1) ratios, which have equal norms in the mixed metric
            signs = self.origin.sign()
            mean = (eta[a] * signs[a] + eta[b] * signs[b]) / 2
            result[a], result[b] = mean * signs[a], mean * signs[b]
        for pair in self.pairs:
            xi = [self._tangent(pair, side, eta[pair.at[side]]) for side in (0, 1)]
            for side, horizontal in zip((0, 1), self._horizontal(pair, xi)):
                result[pair.at[side]] = self._whitened(pair, side, horizontal)
        return result

    def _horizontal(self, pair: Pair, xi: list[Tensor]) -> tuple[Tensor, Tensor]:
        g, h = pair.matrices[0].T, pair.matrices[1].T
        xi_g, xi_h = xi[0].T, xi[1].T
        gg, hh = pair.grams
        if self.metric == "inv":
            a = (gg @ hh).cpu().numpy()
            b = (gg @ (h.T @ xi_h) - (xi_g.T @ g) @ hh).cpu().numpy()
            lam = torch.from_numpy(scipy.linalg.solve_sylvester(a, a, b)).to(g).T
        else:
            lam = 0.5 * (torch.linalg.solve(hh, h.T @ xi_h).T - torch.linalg.solve(gg, g.T @ xi_g))
        return (xi_g + g @ lam).T, (xi_h - h @ lam.T).T

    # ---- loss ------------------------------------------------------------------------------------------

    def value(self, theta: Tensor | None = None) -> float:
        """The loss at the end of the geodesic along `theta` (d,)."""
        eta = self.theta() if theta is None else theta
        return self.landscape.value(self.end(eta).to(self.landscape.dtype))

    def value_and_gradient(self, theta: Tensor | None = None) -> tuple[float, Tensor]:
        """The loss at the end of the geodesic along `theta` (d,), and its gradient (d,) in these coordinates."""
        eta = (self.theta() if theta is None else theta).detach().requires_grad_()
        with torch.enable_grad():
            end = self.end(eta)
        value, gradient = self.landscape.value_and_gradient(end.detach().to(self.landscape.dtype))
        (pulled,) = torch.autograd.grad(end, eta, gradient.double())
        return value, pulled


def _root(ratio: Tensor) -> Tensor:
    """sqrt(1 + 2 r), where it is real."""
    return torch.sqrt((1 + 2 * ratio).clamp_min(1e-12))
