"""Does the function really stay the same? Finite transformations of every kind, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from gapbench.symmetry.families import Mixing, ReaderNulls, WriterNulls
from gapbench.symmetry.rank import shift_kinds
from gapbench.symmetry.structure import BatchNormUse, NormUse
from gapbench.symmetry.verification import ACCEPTED, change, double_copy, outputs, probes

if TYPE_CHECKING:
    from gapbench.symmetry.find import Symmetry

TOGETHER = "all kinds together"
STRENGTH, SMALL_STRENGTH = 0.5, 1e-3
LAYER_SCALE = 0.1  # what the special point sets layer scales to


@dataclass(frozen=True)
class Certificate:
    """`error`: the largest change of an output under a random transformation, relative to the outputs' scale.

    `by_kind` lists it for each kind of family, and for all kinds together; `moved` how far the parameters
    went, relative to their norm. Each is the largest over three points: the network's own parameters,
    generic ones, and the special values that fresh networks have (shifts zero, gains one).
    """

    error: float
    by_kind: dict[str, float]
    moved: dict[str, float]
    by_point: dict[str, float]

    @property
    def passed(self) -> bool:
        return self.error <= ACCEPTED


@dataclass(frozen=True)
class Point:
    """A float64 network on the same computation, with its families and its outputs on `inputs`."""

    name: str
    symmetry: Symmetry
    inputs: Tensor
    before: Tensor

    def change(self, theta: Tensor) -> float:
        """Change of the outputs when the parameters become `theta` (d,)."""
        from gapbench.symmetry.find import with_parameters

        moved = with_parameters(self.symmetry.network, theta)
        return change(self.before, outputs(moved, self.inputs, self.symmetry.logit_shift))


def points(
    symmetry: Symmetry, seed: int, names: Sequence[str] = ("own", "generic", "special")
) -> Iterator[Point]:
    """The points at which families are tried, one after the other, since each holds a copy of the network.

    What was dropped from `symmetry` is dropped there too.
    """
    from gapbench.symmetry.find import build

    makers: dict[str, Callable[[], nn.Module]] = {
        "own": lambda: double_copy(symmetry.network),
        "generic": lambda: generic_copy(symmetry.network, seed),
        "special": lambda: special_copy(symmetry, seed),
    }
    example = symmetry.example.double() if symmetry.example.is_floating_point() else symmetry.example
    for name in names:
        network = makers[name]()
        if name == "own":
            there = replace(symmetry, network=network, example=example)
        else:
            there = build(network, example, symmetry.logit_shift)
            remove(there, symmetry.removed)
        # Random inputs only where the network has its own weights: elsewhere they add nothing.
        inputs = probes(example) if name == "own" else example[:2]
        before = outputs(network, inputs, symmetry.logit_shift)
        if name == "own" or bool(before.isfinite().all()):
            yield Point(name, there, inputs, before)
        del network, there, before  # before the next copy is made


def certify(
    symmetry: Symmetry, seed: int, names: Sequence[str] = ("own", "generic", "special")
) -> Certificate:
    """Transform float64 copies by each kind of family, and by all together, and compare outputs.

    At the generic point tensors that are constant (heads at zero, affine parameters at one) get random values,
    since a network that does not look at a parameter would certify anything; at the special point shifts are
    zero and gains one, since decisions that are taken there are not seen at generic ones.
    """
    from gapbench.symmetry.transformation import kinds, transformed

    errors: dict[str, float] = {}
    moved: dict[str, float] = {}
    by_point: dict[str, float] = {}
    for point in points(symmetry, seed, names):
        there = point.symmetry
        theta = there.bound.theta
        size = float(theta.norm()) or 1.0
        present = kinds(there)
        tried: dict[str, list[str] | None] = {kind: [kind] for kind in present}
        if len(present) > 1:
            tried[TOGETHER] = None
        worst = 0.0
        for kind, chosen in tried.items():
            now = transformed(there, seed, STRENGTH, chosen)
            error = point.change(now)
            if not error <= ACCEPTED and point.name != "generic":
                # Where signals are far smaller than what is added and taken away again, a large step loses digits;
                # a small one shows as well whether the function changes.
                smaller = point.change(transformed(there, seed, SMALL_STRENGTH, chosen))
                error = smaller if smaller <= ACCEPTED else error
            worst = max(worst, error)
            errors[kind] = max(errors.get(kind, 0.0), error)
            moved[kind] = max(moved.get(kind, 0.0), float((now - theta).norm()) / size)
        by_point[point.name] = worst
        del point, there
    return Certificate(max(errors.values(), default=0.0), errors, moved, by_point)


def _key(kind: str, indices: Sequence[np.ndarray]) -> tuple[str, bytes]:
    """A name for a family that does not depend on the point at which it was found."""
    return kind, b"".join(np.sort(index, axis=None).tobytes() for index in indices)


def _keys(symmetry: Symmetry) -> dict[str, list[tuple[str, bytes]]]:
    detected = symmetry.detected
    return {
        "spaces": [_key("space", [s.index for s in space.slots]) for space in detected.spaces],
        "writer_nulls": [_key("writer", [n.index]) for n in detected.writer_nulls],
        "reader_nulls": [_key("reader", [n.index]) for n in detected.reader_nulls],
    }


def remove(symmetry: Symmetry, removed: frozenset[tuple[str, bytes]]) -> None:
    """Take families out of a detection: null directions and mixings singly, the rest kind by kind."""
    from gapbench.symmetry.bound import bind

    if not removed:
        return
    detected = symmetry.detected
    for name, keys in _keys(symmetry).items():
        kept = [item for item, key in zip(getattr(detected, name), keys) if key not in removed]
        setattr(detected, name, kept)
    gone = {kind for kind, what in removed if what == b""}
    bad = [v for v, kind in detected.kinds.items() if kind in gone]
    if bad:
        for name in ("representative", "rescalable"):
            values = getattr(detected, name)
            setattr(detected, name, np.where(np.isin(values, bad), 0, values))
    kinds = shift_kinds(symmetry.bound.shifts, symmetry.findings)
    keep = np.array([kind not in gone for kind in kinds], bool)
    if not keep.all():
        symmetry.solution = replace(
            symmetry.solution, values=symmetry.solution.values[:, keep], count=int(keep.sum())
        )
    symmetry.removed |= removed
    symmetry.bound = bind(symmetry.bound.theta, symmetry.findings, detected, symmetry.solution)


def drop_failing(
    symmetry: Symmetry, seed: int = 0, names: Sequence[str] = ("own", "generic", "special")
) -> Certificate:
    """Certify, and take out of the detection every family whose transformation changes the function.

    Null directions and mixings are tried one by one, rescalings and shifts kind by kind; kinds that fail only
    together go in order of the parameters that they move. What goes is listed in `symmetry.dropped`. The
    certificate returned has passed, or nothing is left.
    """
    from gapbench.symmetry.transformation import kinds

    certificate = certify(symmetry, seed, names)
    while not certificate.passed:
        failing = {kind for kind, error in certificate.by_kind.items() if not error <= ACCEPTED}
        kinds_failing = failing - {TOGETHER}
        single = _failing_one_by_one(symmetry, seed, names, kinds_failing)
        kinds_failing = kinds_failing or {_first_to_go(kinds(symmetry))}
        gone: set[tuple[str, bytes]] = set()
        for kind in kinds_failing:
            gone |= single.get(kind) or _whole(symmetry, kind)
        symmetry.dropped += sorted(kinds_failing - set(symmetry.dropped))
        remove(symmetry, frozenset(gone))
        certificate = certify(symmetry, seed, names)
    return certificate


def _first_to_go(present: list[str]) -> str:
    """Of kinds that fail only together: null directions before mixings before what is left."""
    order = (
        "null direction of readers", "null direction of writers", "rotation of the residual stream",
        "mixing of attention heads", "mixing of linear channels",
    )  # fmt: skip
    return next((kind for kind in order if kind in present), present[0])


def _whole(symmetry: Symmetry, kind: str) -> set[tuple[str, bytes]]:
    """Keys of all families of a kind."""
    detected, named = symmetry.detected, _keys(symmetry)
    keys = {(kind, b"")}
    keys |= {key for space, key in zip(detected.spaces, named["spaces"]) if space.kind == kind}
    keys |= {key for null, key in zip(detected.writer_nulls, named["writer_nulls"]) if null.kind == kind}
    if kind == "null direction of readers":
        keys |= set(named["reader_nulls"])
    return keys


def _failing_one_by_one(
    symmetry: Symmetry, seed: int, names: Sequence[str], failing: set[str]
) -> dict[str, set[tuple[str, bytes]]]:
    """By kind, keys of the null directions and mixings that change the function at some point."""
    from gapbench.symmetry.transformation import generator_of_norm

    removed: dict[str, set[tuple[str, bytes]]] = {}
    generator = torch.Generator().manual_seed(seed)
    for point in points(symmetry, seed, names):
        bound = point.symmetry.bound
        keys = _keys(point.symmetry)
        parts: dict[str, Sequence[Mixing | WriterNulls | ReaderNulls]] = {
            "spaces": bound.mixings,
            "writer_nulls": bound.writer_nulls,
            "reader_nulls": bound.reader_nulls,
        }
        for name, items in parts.items():
            for item, key in zip(items, keys[name]):
                what = item.space if isinstance(item, Mixing) else item.null
                kind = getattr(what, "kind", "null direction of readers")
                if kind not in failing or key in removed.get(kind, ()):
                    continue
                draw = torch.randn(item.size, generator=generator, dtype=torch.float64).to(bound.theta.device)
                if isinstance(item, Mixing):
                    draw = generator_of_norm(item, draw, 0.5)
                if not point.change(item.finite(bound.theta, draw)) <= ACCEPTED:
                    removed.setdefault(kind, set()).add(key)
        del point, bound, parts
    return removed


def generic_copy(network: nn.Module, seed: int) -> nn.Module:
    """A float64 copy in eval mode in which no parameter or statistic is constant."""
    result = double_copy(network)
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


def special_copy(symmetry: Symmetry, seed: int) -> nn.Module:
    """A generic copy with the gains, shifts and statistics of a fresh network: ones, zeros, layer scale small."""
    result = generic_copy(symmetry.network, seed)
    found = symmetry.findings
    values = torch.cat([p.detach().reshape(-1) for p in result.parameters()])
    norms: list[NormUse | BatchNormUse] = [*found.norms, *found.batch_norms]
    for norm in norms:
        values[torch.from_numpy(norm.weight[norm.weight >= 0]).to(values.device)] = 1.0
        values[torch.from_numpy(norm.bias[norm.bias >= 0]).to(values.device)] = 0.0
    for scale in found.scales:
        values[torch.from_numpy(scale.weight[scale.weight >= 0]).to(values.device)] = LAYER_SCALE
    with torch.no_grad():
        start = 0
        for p in result.parameters():
            p.copy_(values[start : start + p.numel()].reshape(p.shape))
            start += p.numel()
        for module in result.modules():
            mean, var = getattr(module, "running_mean", None), getattr(module, "running_var", None)
            if isinstance(mean, Tensor) and isinstance(var, Tensor):
                mean.zero_()
                var.fill_(1.0)
    return result
