"""The balanced representative: fold, fix the gauges, minimise the norm, and see whether the function stayed."""

from __future__ import annotations

from torch import Tensor, nn

from gapbench.computation.copies import copied
from gapbench.symmetry.canonical.errors import CannotBalance
from gapbench.symmetry.canonical.folding import folded
from gapbench.symmetry.canonical.gauges import drop_dead, fix_nulls, fix_shifts
from gapbench.symmetry.canonical.norm import least_norm
from gapbench.symmetry.certificate import drop_failing
from gapbench.symmetry.orbit import Orbit, orbit_of, remove
from gapbench.symmetry.parameters import with_parameters
from gapbench.symmetry.verification import ACCEPTED, double_copy, largest_change, rounded_change


def balanced(orbit: Orbit) -> nn.Module:
    """A new network with the same function at the balanced representative of its orbit, in its own type.

    Batch normalisation is folded into the layer before it and layer normalisation into its readers (their
    affine parameters become constants), shifts and null directions are fixed (key and value biases zero,
    writers of normalised streams centred, readers orthogonal to 1), then the norm of the remaining
    parameters is minimised over rescalings and mixings; mixed channels beyond the rank are set to zero.
    Unique up to signs and rotations.

    Returns:
        The network, which has been evaluated on the given and on random inputs.

    Raises:
        CannotBalance: the orbit has no representative that can be reached, or the function would change.
    """
    like = next(orbit.network.parameters())
    original = double_copy(orbit.network).cpu()
    example = orbit.example.detach().cpu()
    example = example.double() if example.is_floating_point() else example
    first = orbit_of(original, example, False)
    remove(first, orbit.removed)
    network = folded(original, first)
    _check(original, network, example, "folding its normalisations")
    second = orbit_of(network, example, False)
    # Folding has changed the structure: what holds here is tried here, at the point where it is used.
    drop_failing(second, names=("own",))
    theta = fix_shifts(second)
    theta = fix_nulls(second, theta)
    theta = drop_dead(second, theta)
    theta = least_norm(second, theta)
    result = with_parameters(network, theta)
    _check(original, result, example, "moving it along its orbit")
    result = result.to(device=like.device, dtype=like.dtype)
    before = copied(orbit.network).eval()
    if not rounded_change(before, result, orbit.example) <= 1.0:
        raise CannotBalance("rounding the balanced parameters to the network's type changes its outputs")
    return result


def _check(before: nn.Module, after: nn.Module, example: Tensor, what: str) -> None:
    """Raise `CannotBalance` where the function changed."""
    moved = largest_change(before, after, example)
    if not moved <= ACCEPTED:
        raise CannotBalance(f"{what} would change its outputs by {moved:.1e} of the largest")
