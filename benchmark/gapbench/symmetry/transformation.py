"""Random finite transformations that leave the network's function unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gapbench.errors import GapbenchError, did_you_mean
from gapbench.symmetry.bound import Bound, bind
from gapbench.symmetry.families import Mixing
from gapbench.symmetry.rank import shift_kinds

if TYPE_CHECKING:
    from gapbench.symmetry.find import Symmetry


def kinds(symmetry: Symmetry) -> list[str]:
    """All kinds of families present."""
    bound = symmetry.bound
    found = [symmetry.detected.kinds[int(v)] for v in bound.rescaling.variables]
    found += shift_kinds(bound.shifts, symmetry.findings)
    found += [n.null.kind for n in bound.writer_nulls]
    found += ["null direction of readers" for _ in bound.reader_nulls]
    found += [m.space.kind for m in bound.mixings]
    return list(dict.fromkeys(found))


def transform(symmetry: Symmetry, seed: int, strength: float, families: list[str] | None) -> Tensor:
    """Transformed parameters (d,), float64. See `Symmetry.transform`."""
    present = kinds(symmetry)
    for name in families or []:
        if name not in present:
            raise GapbenchError(
                f"The network has no symmetry of the kind {name!r}.{did_you_mean(name, present)} It has: "
                f"{', '.join(present) or 'none'}."
            )
    wanted = set(present if families is None else families)
    generator = torch.Generator().manual_seed(seed)
    bound = symmetry.bound
    theta = bound.theta

    def normal(count: int) -> Tensor:
        return torch.randn(count, generator=generator, dtype=torch.float64).to(theta.device)

    # Straight lines first: the shifts were solved for these weights.
    which = np.array([k in wanted for k in shift_kinds(bound.shifts, symmetry.findings)], bool)
    draw = normal(bound.shifts.size)
    if which.any():
        theta = theta + _sized(theta, bound.shifts.tangent(draw * torch.from_numpy(which).to(draw)), strength)
    for null in [*bound.writer_nulls, *bound.reader_nulls]:
        draw = normal(null.size)
        kind = getattr(null.null, "kind", "null direction of readers")
        if kind in wanted:
            change = null.finite(theta, draw) - theta
            theta = theta + _sized(theta, change, strength)
    draw = normal(bound.rescaling.size) * strength
    of_variable = [symmetry.detected.kinds[int(v)] in wanted for v in bound.rescaling.variables]
    if any(of_variable):
        theta = bound.rescaling.finite(theta, draw * torch.tensor(of_variable).to(draw))
    for mixing in bound.mixings:
        draw = normal(mixing.size)
        if mixing.space.kind in wanted and mixing.size:
            theta = mixing.finite(theta, generator_of_norm(mixing, draw, strength))
    return theta


def generator_of_norm(mixing: Mixing, draw: Tensor, strength: float) -> Tensor:
    """Coordinates scaled so that the matrix has spectral norm `strength`."""
    norm = float(torch.linalg.matrix_norm(mixing.matrix(draw), 2))
    return draw * (strength / norm) if norm > 0 else draw


def _sized(theta: Tensor, change: Tensor, strength: float) -> Tensor:
    """`change` scaled to `strength` times the root mean square of the parameters that it moves."""
    moved = change != 0
    if not bool(moved.any()):
        return change
    size = float(theta[moved].pow(2).mean().sqrt()) or float(theta.pow(2).mean().sqrt()) or 1.0
    return change * (strength * size / float(change[moved].pow(2).mean().sqrt()))


def rebound(symmetry: Symmetry, theta: Tensor) -> Bound:
    """The same families at another theta of the orbit."""
    return bind(theta, symmetry.findings, symmetry.detected, symmetry.solution)
