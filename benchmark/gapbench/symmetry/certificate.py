"""Does the function really stay the same? Finite transformations of every kind, in float64."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from gapbench.curvature.tracing import plain_kernels
from gapbench.symmetry.families import Mixing, ReaderNulls, WriterNulls
from gapbench.symmetry.rank import shift_kinds

if TYPE_CHECKING:
    from gapbench.symmetry.find import Symmetry

ACCEPTED = 1e-9


@dataclass(frozen=True)
class Certificate:
    """`error`: the largest change of an output under a random transformation, relative to the outputs' scale.

    `by_kind` lists it for each kind of family; `moved` how far the parameters went, relative to their norm.
    """

    error: float
    by_kind: dict[str, float]
    moved: dict[str, float]

    @property
    def passed(self) -> bool:
        return self.error <= ACCEPTED


def certify(symmetry: Symmetry, seed: int) -> Certificate:
    """Transform a float64 copy with generic parameters by each kind of family and compare outputs.

    Tensors that are constant (heads at zero, affine parameters at one) get random values first, since a
    network that does not look at a parameter would certify anything.
    """
    from gapbench.symmetry.find import with_parameters
    from gapbench.symmetry.transformation import kinds, transform

    again = generic(symmetry, seed)
    before = outputs(again.network, again.example, symmetry.logit_shift)
    scale = float(before.abs().max()) or 1.0
    errors, moved = {}, {}
    for kind in kinds(again):
        theta = transform(again, seed, 0.5, [kind])
        after = outputs(with_parameters(again.network, theta), again.example, symmetry.logit_shift)
        errors[kind] = float((after - before).abs().max()) / scale
        moved[kind] = float((theta - again.bound.theta).norm() / again.bound.theta.norm())
    return Certificate(max(errors.values(), default=0.0), errors, moved)


def generic(symmetry: Symmetry, seed: int) -> Symmetry:
    """The same detection for a float64 copy with generic parameters."""
    from gapbench.symmetry.bound import bind
    from gapbench.symmetry.find import build

    again = build(generic_copy(symmetry.network, seed), symmetry.example.double(), symmetry.logit_shift)
    # The same computation gives the same families in the same order; what was dropped stays dropped.
    if symmetry.removed:
        _remove(again, symmetry.removed)
        again.bound = bind(again.bound.theta, again.findings, again.detected, again.solution)
    return again


def _remove(symmetry: Symmetry, removed: frozenset[tuple[str, int]]) -> None:
    detected = symmetry.detected
    for name in ("spaces", "writer_nulls", "reader_nulls"):
        kept = [item for i, item in enumerate(getattr(detected, name)) if (name, i) not in removed]
        setattr(detected, name, kept)
    bad = [v for part, v in removed if part == "rescaling"]
    if bad:
        detected.representative = np.where(np.isin(detected.representative, bad), 0, detected.representative)
    columns = {i for part, i in removed if part == "shift"}
    if columns:
        keep = np.array([i not in columns for i in range(symmetry.solution.count)], bool)
        symmetry.solution = replace(
            symmetry.solution, values=symmetry.solution.values[:, keep], count=int(keep.sum())
        )


def drop_failing(symmetry: Symmetry, seed: int = 0) -> None:
    """Take out of the detection every family whose transformation changes the function, and list it.

    Null directions and mixings are tried one by one, rescalings and shifts kind by kind.
    """
    from gapbench.symmetry.bound import bind
    from gapbench.symmetry.find import with_parameters
    from gapbench.symmetry.transformation import generator_of_norm

    certificate = symmetry.certificate
    if certificate is None:
        return
    failing = {kind for kind, error in certificate.by_kind.items() if not error <= ACCEPTED}
    again = generic(symmetry, seed)
    before = outputs(again.network, again.example, symmetry.logit_shift)
    scale = float(before.abs().max()) or 1.0
    generator = torch.Generator().manual_seed(seed)

    def holds(item: Mixing | WriterNulls | ReaderNulls) -> bool:
        draw = torch.randn(item.size, generator=generator, dtype=torch.float64).to(before.device)
        if isinstance(item, Mixing):
            draw = generator_of_norm(item, draw, 0.5)
        theta = item.finite(again.bound.theta, draw)
        after = outputs(with_parameters(again.network, theta), again.example, symmetry.logit_shift)
        return float((after - before).abs().max()) <= ACCEPTED * scale

    removed: set[tuple[str, int]] = set()
    bound = again.bound
    parts: dict[str, Sequence[Mixing | WriterNulls | ReaderNulls]] = {
        "spaces": bound.mixings,
        "writer_nulls": bound.writer_nulls,
        "reader_nulls": bound.reader_nulls,
    }
    for name, items in parts.items():
        for i, item in enumerate(items):
            what = item.space if isinstance(item, Mixing) else item.null
            kind = getattr(what, "kind", "null direction of readers")
            if kind in failing and not holds(item):
                removed.add((name, i))
                symmetry.dropped.append(f"{kind} at {what.name}")
    rescalings = {v: kind for v, kind in symmetry.detected.kinds.items() if kind in failing}
    removed |= {("rescaling", v) for v in rescalings}
    of_shift = shift_kinds(symmetry.bound.shifts, symmetry.findings)
    removed |= {("shift", i) for i, kind in enumerate(of_shift) if kind in failing}
    symmetry.dropped += sorted(set(rescalings.values()) | {kind for kind in of_shift if kind in failing})
    symmetry.removed = frozenset(removed)
    _remove(symmetry, symmetry.removed)
    symmetry.bound = bind(symmetry.bound.theta, symmetry.findings, symmetry.detected, symmetry.solution)


def generic_copy(network: nn.Module, seed: int) -> nn.Module:
    """A float64 copy in eval mode in which no parameter or statistic is constant."""
    result = copy.deepcopy(network).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in result.parameters():
            if (p.numel() and float(p.max() - p.min()) == 0.0) or p.numel() == 1:
                noise = torch.rand(p.shape, generator=generator, dtype=torch.float64).to(p.device)
                p.copy_(p + 0.5 * noise + (0.1 if float(p.abs().max()) == 0.0 else 0.0))
        for module in result.modules():
            mean, var = getattr(module, "running_mean", None), getattr(module, "running_var", None)
            if isinstance(mean, Tensor) and isinstance(var, Tensor):
                noise = torch.rand(2, *mean.shape, generator=generator, dtype=torch.float64).to(mean.device)
                mean.add_((noise[0] - 0.5) * var.sqrt())
                var.mul_(0.5 + noise[1])
    return result


@torch.no_grad()
def outputs(network: nn.Module, example: Tensor, logit_shift: bool) -> Tensor:
    """Outputs, or log probabilities where a common shift of the logits counts as no change."""
    with plain_kernels():
        found = network(example)
    assert isinstance(found, Tensor)
    return torch.log_softmax(found, dim=1) if logit_shift else found
