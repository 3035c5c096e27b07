"""The symmetry group of a network: found from its computation, certified, projected out, applied."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from gapbench.computation.copies import check_copies, copied
from gapbench.computation.tracing import plain_kernels, trace
from gapbench.symmetry.bound import Bound, bind
from gapbench.symmetry.certificate import Certificate, certify, drop_failing
from gapbench.symmetry.detection import Detected, detect
from gapbench.symmetry.families import RelativeRescaling
from gapbench.symmetry.interpreter import Interpreter
from gapbench.symmetry.projection import Projector
from gapbench.symmetry.rank import FamilySize, structural_ranks
from gapbench.symmetry.shifts import ShiftSolution, solve
from gapbench.symmetry.structure import Findings
from gapbench.symmetry.verification import LOOKED_AT
from gapbench_base.errors import GapbenchError

TRACED = 2  # examples whose computation is recorded; certificates look at more


def flat_parameters(network: nn.Module) -> Tensor:
    """All parameters (d,) in float64."""
    return torch.cat([p.detach().reshape(-1).double() for p in network.parameters()])


def with_parameters(network: nn.Module, theta: Tensor) -> nn.Module:
    """A copy of `network` with the parameters `theta` (d,)."""
    result = copied(network)
    start = 0
    with torch.no_grad():
        for p in result.parameters():
            p.copy_(theta[start : start + p.numel()].reshape(p.shape))
            start += p.numel()
    return result


@dataclass
class Symmetry:
    """The continuous symmetries of `network` in eval mode at its present parameters.

    `dimension` is the rank k of the orbit's tangent space as detected, `families` its make-up, `uncovered`
    the operations that were not understood (with how often they occur) and what it means, `dropped` the
    families whose certificate failed.
    """

    network: nn.Module
    example: Tensor
    findings: Findings
    detected: Detected
    solution: ShiftSolution
    bound: Bound
    uncovered: dict[str, int]
    logit_shift: bool
    dropped: list[str] = field(default_factory=list)
    removed: frozenset[tuple[str, bytes]] = frozenset()
    certificate: Certificate | None = None
    families: list[FamilySize] = field(default_factory=list)
    dimension: int = 0
    projector: Projector | None = None
    relative: Projector | None = None

    def project(self, vector: Tensor) -> Tensor:
        """The component of `vector` (d,) in the horizontal space, in the vector's own type.

        Raises `Unconverged` where the iteration did not reach a relative error of 1e-10.
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
        """Transform by every family, at random and by a large step; see `Certificate`."""
        return certify(self, seed)

    def transform(self, seed: int, strength: float = 0.5, families: list[str] | None = None) -> nn.Module:
        """A new network with the same function and other parameters.

        `strength`: standard deviation of log scales, spectral norm of the generators of mixings and rotations,
        shifts and null directions relative to the root mean square of the parameters they move. `families`:
        kinds (as in `families[i].kind`), all by default. Raises `GapbenchError` for an unknown kind, and where
        the function would change.
        """
        from gapbench.symmetry.transformation import transform

        return transform(self, seed, strength, families)

    def balanced(self) -> nn.Module:
        """A new network with the same function at the balanced representative of the orbit; see `canonical`."""
        from gapbench.symmetry.canonical import balanced

        return balanced(self)

    def kinds(self) -> dict[str, int]:
        """Dimension by kind of family."""
        sizes: dict[str, int] = defaultdict(int)
        for family in self.families:
            sizes[family.kind] += family.size
        return dict(sizes)


def find(network: nn.Module, example_inputs: Tensor, logit_shift: bool = False) -> Symmetry:
    """Discover the continuous symmetries of `network` from one forward pass on `example_inputs` (n, ...).

    Eval mode with frozen statistics. Unknown operations block what touches them: the dimension may be too
    small, never too large. With `logit_shift` the symmetry of a softmax cross-entropy under a common shift
    of all logits counts too. Every family is certified by transforming a copy in float64; one that fails is
    dropped and listed. Raises `GapbenchError` for a network without parameters.
    """
    check_network(network)
    modes = [(m, m.training) for m in network.modules()]
    state = torch.get_rng_state()
    try:
        example_inputs = _usable(network, example_inputs)
        check_copies(network, example_inputs[:TRACED])
        symmetry = build(network, example_inputs[:LOOKED_AT], logit_shift)
        symmetry.certificate = drop_failing(symmetry)
        _measure(symmetry)
        return symmetry
    finally:
        torch.set_rng_state(state)
        for module, mode in modes:
            module.training = mode


def _usable(network: nn.Module, inputs: Tensor) -> Tensor:
    """Inputs in the network's type; raises `GapbenchError` where it cannot be evaluated on them."""
    if not isinstance(inputs, Tensor) or inputs.dim() == 0 or not len(inputs):
        raise GapbenchError("Example inputs must be a tensor with at least one example along the first axis.")
    kind = next(p.dtype for p in network.parameters() if p.is_floating_point())
    first = next(network.parameters())
    inputs = inputs.to(first.device, kind) if inputs.is_floating_point() else inputs.to(first.device)
    try:
        with torch.no_grad(), plain_kernels(kind):
            network.eval()(inputs[:TRACED])
    except Exception as error:
        raise GapbenchError(
            f"The network cannot be evaluated on inputs of shape {tuple(inputs.shape)}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return inputs


def check_network(network: nn.Module) -> None:
    """Raise `GapbenchError` for a network without parameters, or with some that are not finite or complex."""
    if not isinstance(network, nn.Module):
        raise GapbenchError(f"The network must be a torch.nn.Module, not {type(network).__name__}.")
    if not any(p.is_floating_point() for p in network.parameters()):
        raise GapbenchError("The network has no parameters.")
    kinds = {str(p.dtype).removeprefix("torch.") for p in network.parameters() if p.is_floating_point()}
    if len(kinds) > 1:
        raise GapbenchError(
            f"The network has parameters of several types ({', '.join(sorted(kinds))}): convert it to one, as by "
            "network.double()."
        )
    if any(isinstance(module, torch.jit.ScriptModule) for module in network.modules()):
        raise GapbenchError("The network is scripted (torch.jit): give the nn.Module that it was made from.")
    for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
        if torch.nn.parameter.is_lazy(tensor):
            raise GapbenchError("The network has uninitialised (lazy) parameters: evaluate it once first.")
        if isinstance(tensor, nn.Parameter) and not tensor.numel():
            raise GapbenchError(
                f"The parameter {name} is empty, of shape {tuple(tensor.shape)}: leave it out."
            )
        if tensor.is_complex():
            raise GapbenchError(f"The tensor {name} is complex: symmetries are found for real networks only.")
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise GapbenchError(f"The tensor {name} of the network holds NaN or infinite numbers.")


def build(network: nn.Module, example: Tensor, logit_shift: bool) -> Symmetry:
    recorded = trace(network, example[:TRACED])
    offsets, start = {}, 0
    for name, p in network.named_parameters():
        offsets[name] = (start, p.shape)
        start += p.numel()
    buffers = {name: b.detach().cpu() for name, b in network.named_buffers()}
    theta = flat_parameters(network)
    run = Interpreter(recorded, offsets, buffers, theta.cpu().numpy(), logit_shift)
    if recorded.hidden:
        run.note("memory that is aliased in a way that hides the data flow")
        findings, detected = (
            Findings(uncovered=run.found.uncovered),
            Detected(np.zeros(1, np.int64), np.zeros(1)),
        )
        solution = solve(run.shift)
    else:
        findings = run.run()
        detected = detect(run)
        solution = solve(run.shift)
        if solution.unsolved:
            findings.uncovered["shift relations too large to solve"] = solution.unsolved
    bound = bind(theta, findings, detected, solution)
    return Symmetry(
        network, example, findings, detected, solution, bound, dict(findings.uncovered), logit_shift
    )


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
                FamilySize("dependences at these parameters", "", numeric - symmetry.dimension)
            )
        symmetry.dimension = numeric
