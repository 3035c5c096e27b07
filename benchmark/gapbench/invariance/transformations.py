"""Kinds of transformations that an audit applies, each from a network to one with other parameters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from gapbench.computation.copies import copied
from gapbench.symmetry.find import Symmetry, find
from gapbench.symmetry.orbit import kinds as kinds_of
from gapbench.symmetry.parameters import flat_parameters, with_parameters
from gapbench.symmetry.structure import BatchNormUse, NormUse
from gapbench.symmetry.verification import outputs

# Audit kind -> kinds of groups in `gapbench.symmetry`.
GROUPS = {
    "unit rescaling": ("rescaling of units",),
    "normalisation scale": ("input scale of batch normalisations", "output scale of normalisations"),
    "shifts": (
        "shift around batch normalisations",
        "shift of normalisation outputs",
        "shift between biases",
        "void bias",
    ),
    "mixing of heads": ("mixing of attention heads",),
    "mixing of linear channels": ("mixing of linear channels",),
    "rotation of the residual stream": ("rotation of the residual stream",),
    "null directions": ("null direction of writers", "null direction of readers"),
}
KINDS = (*GROUPS, "permutation", "logit shift", "logit scale")


class NotPossible(Exception):
    """The network has no such transformation; the message says why."""


@dataclass(frozen=True)
class Transformer:
    """A float64 network with its symmetries, ready to be transformed by kind."""

    network: nn.Module
    example: Tensor
    symmetry: Symmetry

    @staticmethod
    def of(network: nn.Module, example: Tensor) -> Transformer:
        """Find the symmetries of a float64 copy of `network`."""
        double = copied(network).double().eval()
        example = example[:2].double()
        return Transformer(double, example, find(double, example))

    def apply(self, kind: str, strength: float, seed: int) -> nn.Module:
        """Transform a copy by one kind.

        Args:
            kind: see `KINDS`.
            strength: as in `Symmetry.transform`; for permutations it is ignored, for the logit scale it is the
                logarithm of the factor.
            seed: of the random transformation.

        Returns:
            The transformed network, in float64.

        Raises:
            NotPossible: the network has no such transformation.
        """
        if kind in GROUPS:
            present = [k for k in GROUPS[kind] if k in kinds_of(self.symmetry)]
            if not present:
                raise NotPossible("the network has no such symmetry")
            return self.symmetry.transform(seed, strength, present)
        special: dict[str, Callable[[], nn.Module]] = {
            "permutation": lambda: _permuted(self, seed),
            "logit shift": lambda: _logits_shifted(self, strength, seed),
            "logit scale": lambda: _logits_scaled(self, strength),
        }
        return special[kind]()


def _logits_shifted(transformer: Transformer, strength: float, seed: int) -> nn.Module:
    """The same softmax: one function of the features is added to all logits."""
    symmetry = find(transformer.network, transformer.example, logit_shift=True)
    if "logit shift" not in kinds_of(symmetry):
        raise NotPossible("the logits are not written by a linear layer of their own")
    return symmetry.transform(seed, strength, ["logit shift"])


def _logits_scaled(transformer: Transformer, strength: float) -> nn.Module:
    """All logits multiplied by exp(strength): predictions stay, the loss changes."""
    network, theta = transformer.network, flat_parameters(transformer.network)
    before = outputs(network, transformer.example, False)
    factor = float(np.exp(strength))
    for use in reversed(transformer.symmetry.findings.linear):
        moved = theta.clone()
        moved[torch.from_numpy(use.weight.reshape(-1))] *= factor
        bias = use.bias[use.bias >= 0]
        moved[torch.from_numpy(bias)] *= factor
        candidate = with_parameters(network, moved)
        after = outputs(candidate, transformer.example, False)
        if torch.allclose(after, factor * before, rtol=1e-9, atol=1e-12):
            return candidate
    raise NotPossible("no linear layer writes the logits alone")


def _permuted(transformer: Transformer, seed: int) -> nn.Module:
    """Hidden units in another order, wherever a group of interchangeable units is found."""
    symmetry = transformer.symmetry
    found, detected = symmetry.findings, symmetry.detected
    classes = detected.rescalable
    # Channels on both sides of a normalisation, layer scale or depthwise layer keep the same order.
    parent = np.arange(len(classes))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = int(parent[i])
        return i

    links = [(b.reads, b.writes) for b in found.batch_norms] + [(s.reads, s.writes) for s in found.scales]
    links += [(u.reads.reshape(-1), u.writes.reshape(-1)) for u in found.linear if u.depthwise]
    for reads, writes in links:
        if len(reads) != len(writes):
            raise NotPossible("depthwise layers with several outputs for a channel")
        for a, b in zip(classes[reads], classes[writes]):
            if a != 0 and b != 0:
                parent[root(int(a))] = root(int(b))
    place = np.array([root(int(c)) if c else 0 for c in classes])
    for norm in found.norms:  # its outputs are in the order of its inputs, which have no classes here
        place[np.isin(place, place[norm.writes])] = 0
    groups = _interchangeable(symmetry, place)
    generator = np.random.default_rng(seed)
    target = np.arange(len(place))
    changed = False
    for members in groups:
        target[members] = generator.permutation(members)
        changed = changed or len(members) > 1
    if not changed:
        raise NotPossible("no interchangeable hidden units were found")
    result = _reordered(transformer, place, target)
    before = outputs(transformer.network, transformer.example, False)
    after = outputs(result, transformer.example, False)
    if not torch.allclose(after, before, rtol=1e-9, atol=1e-9 * float(before.abs().max())):
        raise NotPossible("the order of this network's units could not be changed consistently")
    return result


def _interchangeable(symmetry: Symmetry, place: np.ndarray) -> list[np.ndarray]:
    """Groups of channels that every layer meets in the same way."""
    found = symmetry.findings
    seen: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, event in enumerate(found.meetings):
        for p, count in zip(*np.unique(place[event.variables], return_counts=True)):
            seen[int(p)].append((number, int(count)))
    by_signature: dict[tuple[tuple[int, int], ...], list[int]] = defaultdict(list)
    for p, signature in seen.items():
        if p != 0:
            by_signature[tuple(signature)].append(p)
    return [np.array(sorted(members)) for members in by_signature.values() if len(members) > 1]


def _reordered(transformer: Transformer, place: np.ndarray, target: np.ndarray) -> nn.Module:
    found = transformer.symmetry.findings
    theta = flat_parameters(transformer.network)
    source = np.arange(len(theta))

    def order(variables: np.ndarray) -> np.ndarray:
        """Position -> the position whose contents come here."""
        own = place[variables]
        result = np.arange(len(variables))
        for value in np.unique(own):
            if value != 0 and target[value] != value:
                here, there = np.flatnonzero(own == value), np.flatnonzero(own == target[value])
                if len(here) != len(there):
                    raise NotPossible("units that occur unequally often")
                result[here] = there
        return result

    for use in found.linear:
        if use.depthwise:
            rows = order(use.writes.reshape(-1))
            flat = use.weight.reshape(len(rows), -1)
            source[flat] = source[flat][rows]
            moved = use.bias.reshape(-1)
            if (moved >= 0).all():
                source[moved] = moved[rows]
            continue
        for g in range(use.shape[0]):
            rows, columns = order(use.writes[g]), order(use.reads[g])
            source[use.weight[g]] = use.weight[g][rows][:, columns]
            if (use.bias[g] >= 0).all():
                source[use.bias[g]] = use.bias[g][rows]
    for scale in found.scales:
        source[scale.weight] = scale.weight[order(scale.writes)]
    norms: list[NormUse | BatchNormUse] = [*found.norms, *found.batch_norms]
    for norm in norms:
        rows = order(norm.writes)
        for index in (norm.weight, norm.bias):
            if (index >= 0).all():
                source[index] = index[rows]
    for additive in found.additive:
        source[additive.parameters] = additive.parameters[order(additive.writes)]
    result = with_parameters(transformer.network, theta[torch.from_numpy(source)])
    for batch in found.batch_norms:
        rows = order(batch.writes)
        if (rows == np.arange(len(rows))).all():
            continue
        name = batch.name.rpartition(".")[0]
        module = result.get_submodule(name) if batch.name else None
        mean, var = getattr(module, "running_mean", None), getattr(module, "running_var", None)
        if not (isinstance(mean, Tensor) and isinstance(var, Tensor)):
            raise NotPossible("a batch normalisation whose statistics are not held by its own module")
        with torch.no_grad():
            mean.copy_(mean[torch.from_numpy(rows)].clone())
            var.copy_(var[torch.from_numpy(rows)].clone())
    return result
