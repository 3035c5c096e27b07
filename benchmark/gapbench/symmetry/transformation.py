"""Random finite transformations that leave the network's function unchanged."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from gapbench.computation.copies import copied
from gapbench.symmetry.groups.group import ids
from gapbench.symmetry.groups.mixing import Mixing
from gapbench.symmetry.groups.null_directions import ReaderNulls, WriterNulls
from gapbench.symmetry.orbit import Orbit, kinds
from gapbench.symmetry.parameters import with_parameters
from gapbench.symmetry.rank import shift_kinds
from gapbench.symmetry.verification import ACCEPTED, double_copy, largest_change, rounded_change
from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import did_you_mean


def transform(orbit: Orbit, seed: int, strength: float, families: list[str] | None) -> nn.Module:
    """A new network with the same function, evaluated on the given and on random inputs. See `Symmetry.transform`.

    Returns:
        The network in its own type.

    Raises:
        GapbenchError: an unknown kind of group, or outputs that would change by more than 1e-9 in float64 or than
            rounding in the network's own type.
    """
    present = kinds(orbit)
    for name in families or []:
        if name not in present:
            raise GapbenchError(
                f"The network has no symmetry of the kind {name!r}.{did_you_mean(name, present)} It has: "
                f"{', '.join(present) or 'none'}."
            )
    theta = transformed(orbit, seed, strength, families)
    exact = double_copy(orbit.network)
    moved = largest_change(exact, with_parameters(exact, theta), orbit.example, orbit.logit_shift)
    if not moved <= ACCEPTED:
        raise GapbenchError(
            f"The transformed network would compute another function: its outputs change by {moved:.1e} of the "
            f"largest (at most {ACCEPTED:.0e} is rounding). A smaller strength than {strength} may do."
        )
    result = with_parameters(orbit.network, theta)
    before, after = (copied(n).eval() for n in (orbit.network, result))
    rounded = rounded_change(before, after, orbit.example, orbit.logit_shift)
    if not rounded <= 1.0:
        raise GapbenchError(
            "The transformed network computes another function in its own type, since rounding its parameters "
            "moves the outputs: transform a float64 copy, or with a smaller strength."
        )
    return result


def transformed(
    orbit: Orbit, seed: int, strength: float, families: list[str] | None, room: Tensor | None = None
) -> Tensor:
    """Transformed parameters (d,), float64, in `room` if given, not yet checked.

    `families` as in `Symmetry.transform`.

    Returns:
        The parameters.
    """
    present = kinds(orbit)
    wanted = set(present if families is None else families)
    generator = torch.Generator().manual_seed(seed)
    bound = orbit.bound
    theta = bound.theta.clone() if room is None else room.copy_(bound.theta)

    def normal(count: int) -> Tensor:
        return torch.randn(count, generator=generator, dtype=torch.float64).to(theta.device)

    # Straight lines first: the shifts were solved for these weights.
    which = np.array([k in wanted for k in shift_kinds(bound.shifts, orbit.findings)], bool)
    draw = normal(bound.shifts.size)
    if which.any():
        columns = bound.shifts.columns
        change = columns.times(draw * torch.from_numpy(which).to(draw))
        _add(theta, ids(columns.rows, theta.device), change, strength)
    nulls: list[WriterNulls | ReaderNulls] = [*bound.writer_nulls, *bound.reader_nulls]
    for null in nulls:
        draw = normal(null.size)
        kind = getattr(null.null, "kind", "null direction of readers")
        if kind in wanted:
            _add(theta, *null.change(theta, draw), strength)
    draw = normal(bound.rescaling.size) * strength
    of_variable = [orbit.detected.kinds[int(v)] in wanted for v in bound.rescaling.variables]
    if any(of_variable):
        bound.rescaling.act_in_place(theta, draw * torch.tensor(of_variable).to(draw))
    for mixing in bound.mixings:
        draw = normal(mixing.size)
        if mixing.space.kind in wanted and mixing.size:
            exponent = mixing.matrix(generator_of_norm(mixing, draw, strength))
            mixing.act_in_place(theta, torch.linalg.matrix_exp(exponent))
    return theta


def generator_of_norm(mixing: Mixing, draw: Tensor, strength: float) -> Tensor:
    """Coordinates scaled so that the matrix has spectral norm `strength`."""
    norm = float(torch.linalg.matrix_norm(mixing.matrix(draw), 2))
    return draw * (strength / norm) if norm > 0 else draw


def _add(theta: Tensor, positions: Tensor, change: Tensor, strength: float) -> None:
    """Add `change`, scaled to `strength` times the root mean square of the parameters that it moves."""
    positions, change = positions[change != 0], change[change != 0]
    if len(change):
        size = float(theta[positions].pow(2).mean().sqrt()) or float(theta.norm()) / len(theta) ** 0.5 or 1.0
        theta.index_add_(0, positions, change * (strength * size / float(change.pow(2).mean().sqrt())))
