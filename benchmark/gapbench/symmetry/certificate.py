"""Does the function really stay the same? Finite transformations of every kind, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gapbench.computation.copies import holding
from gapbench.symmetry.groups.mixing import Mixing
from gapbench.symmetry.groups.null_directions import ReaderNulls, WriterNulls
from gapbench.symmetry.orbit import Orbit, keys_of, kinds, orbit_of, remove
from gapbench.symmetry.parameters import flat_parameters, flattened, holds, point_at, views
from gapbench.symmetry.structure import BatchNormUse, NormUse
from gapbench.symmetry.transformation import generator_of_norm, transformed
from gapbench.symmetry.verification import ACCEPTED, change, double_copy, outputs, probes

TOGETHER = "all kinds together"
STRENGTH, SMALL_STRENGTH = 0.5, 1e-3
LAYER_SCALE = 0.1  # what the special point sets layer scales to


@dataclass(frozen=True)
class Certificate:
    """`error`: the largest change of an output under a random transformation, relative to the outputs' scale.

    `by_kind` lists it for each kind of group, and for all kinds together; `moved` how far the parameters
    went, relative to their norm. Each is the largest over three points: the network's own parameters,
    generic ones, and the special values that fresh networks have (shifts zero, gains one).
    """

    error: float
    by_kind: dict[str, float]
    moved: dict[str, float]
    by_point: dict[str, float]

    @property
    def passed(self) -> bool:
        """Whether no output changed by more than rounding in float64."""
        return self.error <= ACCEPTED


@dataclass(frozen=True)
class TrialPoint:
    """A float64 network on the same computation, with its groups and its outputs on `inputs`."""

    name: str
    orbit: Orbit
    inputs: Tensor
    before: Tensor

    def change(self, theta: Tensor) -> float:
        """Change of the outputs when the parameters become `theta` (d,)."""
        network = self.orbit.network
        with holding(network, views(network, theta)):
            after = outputs(network, self.inputs, self.orbit.logit_shift)
        return change(self.before, after)


def points(
    orbit: Orbit, seed: int, names: Sequence[str] = ("own", "generic", "special")
) -> Iterator[TrialPoint]:
    """The points at which groups are tried, one after the other, since each holds a copy of the network.

    Yields:
        The points that give finite outputs. What was removed from `orbit` is removed there too.
    """
    own = orbit.bound.theta
    lent = holds(orbit.network, own)
    makers: dict[str, Callable[[], nn.Module]] = {
        "own": lambda: double_copy(orbit.network),
        "generic": lambda: generic_copy(orbit.network, seed),
        "special": lambda: special_copy(orbit, seed, own if lent else None),
    }
    example = orbit.example.double() if orbit.example.is_floating_point() else orbit.example
    try:
        for name in names:
            network = makers[name]()
            if name == "own":
                there = replace(orbit, network=network, example=example)
                point_at(network, own)
            else:
                # In the memory of the network's own parameters, which are made again from it afterwards.
                there = orbit_of(
                    network, example, orbit.logit_shift, flattened(network, own if lent else None)
                )
                remove(there, orbit.removed)
            # Random inputs only where the network has its own weights: elsewhere they add nothing.
            inputs = probes(example) if name == "own" else example[:2]
            before = outputs(network, inputs, orbit.logit_shift)
            if name == "own" or bool(before.isfinite().all()):
                yield TrialPoint(name, there, inputs, before)
            del network, there, before  # before the next copy is made
    finally:
        if lent:
            flat_parameters(orbit.network, own)


def certify(orbit: Orbit, seed: int, names: Sequence[str] = ("own", "generic", "special")) -> Certificate:
    """Transform float64 copies by each kind of group, and by all together, and compare outputs.

    At the generic point tensors that are constant (heads at zero, affine parameters at one) get random values,
    since a network that does not look at a parameter would certify anything; at the special point shifts are
    zero and gains one, since decisions that are taken there are not seen at generic ones.

    Returns:
        The largest changes over the points of these `names`.
    """
    errors: dict[str, float] = {}
    moved: dict[str, float] = {}
    by_point: dict[str, float] = {}
    for point in points(orbit, seed, names):
        by_point[point.name] = _tried(point, seed, errors, moved)
        del point
    return Certificate(max(errors.values(), default=0.0), errors, moved, by_point)


def _tried(point: TrialPoint, seed: int, errors: dict[str, float], moved: dict[str, float]) -> float:
    """Transform the point's network by each kind and all together; raises what `errors` and `moved` hold.

    Returns:
        The largest change of an output.
    """
    there = point.orbit
    theta = there.bound.theta
    size = float(theta.norm()) or 1.0
    present = kinds(there)
    tried: dict[str, list[str] | None] = {kind: [kind] for kind in present}
    if len(present) > 1:
        tried[TOGETHER] = None
    worst, room = 0.0, torch.empty_like(theta)
    for kind, chosen in tried.items():
        now = transformed(there, seed, STRENGTH, chosen, room)
        error = point.change(now)
        distance = float(now.sub_(theta).norm()) / size
        if not error <= ACCEPTED and point.name != "generic":
            # Where signals are far smaller than what is added and taken away again, a large step loses digits;
            # a small one shows as well whether the function changes.
            smaller = point.change(transformed(there, seed, SMALL_STRENGTH, chosen, room))
            error = smaller if smaller <= ACCEPTED else error
        worst = max(worst, error)
        errors[kind] = max(errors.get(kind, 0.0), error)
        moved[kind] = max(moved.get(kind, 0.0), distance)
    return worst


def drop_failing(
    orbit: Orbit, seed: int = 0, names: Sequence[str] = ("own", "generic", "special")
) -> Certificate:
    """Certify, and take out of the orbit every group whose transformation changes the function.

    Null directions and mixings are tried one by one, rescalings and shifts kind by kind; kinds that fail only
    together go in order of the parameters that they move. What goes is listed in `orbit.dropped`.

    Returns:
        The certificate of what is left; it has passed, or nothing is left.
    """
    certificate = certify(orbit, seed, names)
    while not certificate.passed:
        failing = {kind for kind, error in certificate.by_kind.items() if not error <= ACCEPTED}
        kinds_failing = failing - {TOGETHER}
        single = _failing_one_by_one(orbit, seed, names, kinds_failing)
        kinds_failing = kinds_failing or {_first_to_go(kinds(orbit))}
        gone: set[tuple[str, bytes]] = set()
        for kind in kinds_failing:
            gone |= single.get(kind) or _whole(orbit, kind)
        orbit.dropped += sorted(kinds_failing - set(orbit.dropped))
        remove(orbit, frozenset(gone))
        certificate = certify(orbit, seed, names)
    return certificate


def _first_to_go(present: list[str]) -> str:
    """Of kinds that fail only together: null directions before mixings before what is left."""
    order = (
        "null direction of readers", "null direction of writers", "rotation of the residual stream",
        "mixing of attention heads", "mixing of linear channels",
    )  # fmt: skip
    return next((kind for kind in order if kind in present), present[0])


def _whole(orbit: Orbit, kind: str) -> set[tuple[str, bytes]]:
    """Keys of all groups of a kind."""
    detected, named = orbit.detected, keys_of(orbit)
    keys = {(kind, b"")}
    keys |= {key for space, key in zip(detected.spaces, named["spaces"]) if space.kind == kind}
    keys |= {key for null, key in zip(detected.writer_nulls, named["writer_nulls"]) if null.kind == kind}
    if kind == "null direction of readers":
        keys |= set(named["reader_nulls"])
    return keys


def _failing_one_by_one(
    orbit: Orbit, seed: int, names: Sequence[str], failing: set[str]
) -> dict[str, set[tuple[str, bytes]]]:
    """By kind, keys of the null directions and mixings that change the function at some point."""
    removed: dict[str, set[tuple[str, bytes]]] = {}
    generator = torch.Generator().manual_seed(seed)
    for point in points(orbit, seed, names):
        bound = point.orbit.bound
        keys = keys_of(point.orbit)
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


def special_copy(orbit: Orbit, seed: int, theta: Tensor | None = None) -> nn.Module:
    """A generic copy with the gains, shifts and statistics of a fresh network: ones, zeros, layer scale small.

    Returns:
        The copy, its parameters views of `theta` (d,) if given.
    """
    result = generic_copy(orbit.network, seed)
    found = orbit.findings
    values = flattened(result, theta)
    norms: list[NormUse | BatchNormUse] = [*found.norms, *found.batch_norms]
    for norm in norms:
        values[torch.from_numpy(norm.weight[norm.weight >= 0]).to(values.device)] = 1.0
        values[torch.from_numpy(norm.bias[norm.bias >= 0]).to(values.device)] = 0.0
    for scale in found.scales:
        values[torch.from_numpy(scale.weight[scale.weight >= 0]).to(values.device)] = LAYER_SCALE
    with torch.no_grad():
        for module in result.modules():
            mean, var = getattr(module, "running_mean", None), getattr(module, "running_var", None)
            if isinstance(mean, Tensor) and isinstance(var, Tensor):
                mean.zero_()
                var.fill_(1.0)
    return result
