"""The symmetry group of a network: found from its computation, certified, projected out, applied."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gapbench.computation.copies import check_copies
from gapbench.symmetry.canonical import balanced
from gapbench.symmetry.certificate import Certificate, certify, drop_failing
from gapbench.symmetry.groups.rescaling import RelativeRescaling
from gapbench.symmetry.orbit import TRACED, Orbit, orbit_of
from gapbench.symmetry.projection import Projector
from gapbench.symmetry.rank import GroupSize, structural_ranks
from gapbench.symmetry.transformation import transform
from gapbench.symmetry.usable import check_network, usable_inputs
from gapbench.symmetry.verification import LOOKED_AT
from gapbench_base.errors import GapbenchError


@dataclass(repr=False)
class Symmetry(Orbit):
    """The continuous symmetries of `network` in eval mode at its present parameters.

    `dimension` is the rank k of the orbit's tangent space as detected, `families` its make-up, `uncovered`
    the operations that were not understood (with how often they occur) and what it means, `dropped` the
    groups whose certificate failed.
    """

    certificate: Certificate | None = None
    families: list[GroupSize] = field(default_factory=list)
    dimension: int = 0
    projector: Projector | None = None
    relative: Projector | None = None

    def __repr__(self) -> str:
        """The dimension and its make-up in one line."""
        kinds: dict[str, int] = defaultdict(int)
        for group in self.families:
            kinds[group.kind] += group.size
        parts = [", ".join(f"{size:,} {kind}" for kind, size in kinds.items())] if kinds else []
        if self.uncovered:
            parts.append(f"not understood: {', '.join(self.uncovered)}")
        if self.dropped:
            parts.append(f"dropped: {', '.join(self.dropped)}")
        made = f" ({'; '.join(parts)})" if parts else ""
        return f"Symmetry(dimension {self.dimension:,} of {len(self.bound.theta):,} parameters{made})"

    def project(self, vector: Tensor) -> Tensor:
        """The component of `vector` (d,) in the horizontal space.

        Returns:
            (d,) in the vector's own type. `Unconverged` is raised where the iteration does not reach a relative
            error of 1e-10.

        Raises:
            GapbenchError: a vector of another shape.
        """
        if vector.shape != (len(self.bound.theta),):
            raise GapbenchError(
                f"The vector has shape {tuple(vector.shape)}; expected ({len(self.bound.theta)},), all "
                "parameters in one row."
            )
        if self.projector is None:
            self.projector = self.new_projector()
        return self.projector.project(vector.double()).vector.to(vector.dtype)

    def new_projector(self) -> Projector:
        """A projector onto the horizontal space, its factors not yet computed."""
        theta = self.bound.theta
        return Projector(self.bound.all(), len(theta), theta.device, dimension=self.dimension)

    @property
    def rescalings(self) -> int:
        """Number of diagonal rescalings, those inside mixings included."""
        return self._relative().size

    def _relative(self) -> Projector:
        if self.relative is None:
            self.relative = Projector(
                [RelativeRescaling(self.bound.theta, self.findings, self.detected)],
                len(self.bound.theta),
                self.bound.theta.device,
            )
        return self.relative

    def project_relative(self, vector: Tensor) -> Tensor:
        """The component of delta / |theta| (d,) orthogonal to the exponents of all diagonal rescalings."""
        return self._relative().project(vector.double()).vector.to(vector.dtype)

    def certify(self, seed: int = 0) -> Certificate:
        """Transform by every group, at random and by a large step; see `Certificate`."""
        return certify(self, seed)

    def transform(self, seed: int, strength: float = 0.5, families: list[str] | None = None) -> nn.Module:
        """A new network with the same function and other parameters.

        Args:
            seed: of the random transformation.
            strength: standard deviation of log scales, spectral norm of the generators of mixings and rotations,
                shifts and null directions relative to the root mean square of the parameters they move.
            families: kinds of groups (as in `families[i].kind`), all by default.

        Returns:
            The network, in its own type, evaluated on the given and on random inputs. `GapbenchError` is raised for
            an unknown kind, and where the function would change.
        """
        return transform(self, seed, strength, families)

    def balanced(self) -> nn.Module:
        """A new network with the same function at the balanced representative of the orbit; see `canonical`."""
        return balanced(self)

    def kinds(self) -> dict[str, int]:
        """Dimension by kind of group."""
        sizes: dict[str, int] = defaultdict(int)
        for group in self.families:
            sizes[group.kind] += group.size
        return dict(sizes)


def find(network: nn.Module, example_inputs: Tensor, logit_shift: bool = False) -> Symmetry:
    """Discover the continuous symmetries of a network from one forward pass.

    In eval mode, with frozen statistics. Unknown operations block what touches them: the dimension may be too
    small, never too large. Every group is certified by transforming a copy in float64; one that fails is dropped
    and listed. The network is left as it was.

    Args:
        network: with real parameters of one floating-point type.
        example_inputs: (n, ...) on which its computation is recorded and its function compared.
        logit_shift: count the symmetry of a softmax cross-entropy under a common shift of all logits too.

    Returns:
        The symmetries at the network's present parameters. `GapbenchError` is raised for a network that has no
        parameters, or that cannot be evaluated on the inputs.
    """
    check_network(network)
    modes = [(m, m.training) for m in network.modules()]
    state = torch.get_rng_state()
    try:
        example_inputs = usable_inputs(network, example_inputs)
        check_copies(network, example_inputs[:TRACED])
        orbit = orbit_of(network, example_inputs[:LOOKED_AT], logit_shift)
        certificate = drop_failing(orbit)
        symmetry = Symmetry(**vars(orbit), certificate=certificate)
        _measure(symmetry)
        return symmetry
    finally:
        torch.set_rng_state(state)
        for module, mode in modes:
            module.training = mode


def _measure(symmetry: Symmetry) -> None:
    symmetry.families = structural_ranks(
        symmetry.bound.theta, symmetry.findings, symmetry.detected, symmetry.solution, symmetry.bound
    )
    symmetry.dimension = sum(f.size for f in symmetry.families)
    total = sum(f.size for f in symmetry.bound.all())
    symmetry.projector = projector = symmetry.new_projector()
    if projector.basis is not None and total:
        numeric = projector.basis.shape[1]
        if numeric != symmetry.dimension:  # coincidences of these parameters, such as dead units
            symmetry.families.append(
                GroupSize("dependences at these parameters", "", numeric - symmetry.dimension)
            )
        symmetry.dimension = numeric
