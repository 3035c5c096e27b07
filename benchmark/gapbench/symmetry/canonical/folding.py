"""Fold normalisations and layer scales into the layers beside them; their affine parameters become constants."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from gapbench.computation.copies import copied
from gapbench.symmetry.canonical.errors import CannotBalance
from gapbench.symmetry.detection.records import Detected
from gapbench.symmetry.orbit import Orbit
from gapbench.symmetry.parameters import write_parameters
from gapbench.symmetry.structure import BatchNormUse, Findings, LinearUse, NormUse, ScaleUse


def folded(network: nn.Module, orbit: Orbit) -> nn.Module:
    """A float64 copy with its normalisations folded, as far as the layers beside them serve nothing else."""
    found, theta = orbit.findings, orbit.bound.theta.clone()
    names = _Names(network)
    constants: set[str] = set()
    detected = orbit.detected
    writers = _writers_by_variable(found, detected.classes)
    readers = _readers(found, detected.classes)
    result = copied(network)
    for batch in found.batch_norms:
        if (batch.weight < 0).any() or (batch.bias < 0).any():
            continue
        _fold_batch_norm(theta, batch, writers, readers, detected, constants, names, result)
    for scale in found.scales:
        _fold_layer_scale(theta, scale, writers, readers, detected, constants, names)
    for norm in found.norms:
        _fold_norm(theta, norm, found, detected, constants, names)
    write_parameters(result, theta)
    for name in constants:
        module_name, _, parameter = name.rpartition(".")
        module = result.get_submodule(module_name)
        value = getattr(module, parameter).detach().clone()
        del module._parameters[parameter]
        module.register_buffer(parameter, value)
    return result


class _Names:
    """Which parameter tensor a position belongs to."""

    def __init__(self, network: nn.Module):
        self.starts, self.names, start = [], [], 0
        for name, p in network.named_parameters():
            self.starts.append(start)
            self.names.append(name)
            start += p.numel()
        self.sizes = np.diff([*self.starts, start])

    def whole(self, positions: np.ndarray) -> str | None:
        """The tensor that consists of exactly these positions, if there is one."""
        flat = np.sort(positions.reshape(-1))
        i = int(np.searchsorted(self.starts, flat[0], side="right")) - 1
        whole = (
            len(flat) == self.sizes[i] and flat[0] == self.starts[i] and flat[-1] == flat[0] + len(flat) - 1
        )
        return self.names[i] if whole else None


def _writers_by_variable(found: Findings, classes: np.ndarray) -> dict[int, list[tuple[LinearUse, int]]]:
    result: dict[int, list[tuple[LinearUse, int]]] = {}
    for use in found.linear:
        for position, variable in enumerate(use.writes.reshape(-1)):
            result.setdefault(int(classes[variable]), []).append((use, position))
    return result


def _readers(found: Findings, classes: np.ndarray) -> dict[int, int]:
    """Class -> how often a batch normalisation or layer scale reads it: folded into its writer, it must be once."""
    counts: dict[int, int] = {}
    uses: list[BatchNormUse | ScaleUse] = [*found.batch_norms, *found.scales]
    for use in uses:
        for r in classes[use.reads]:
            counts[int(r)] = counts.get(int(r), 0) + 1
    return counts


def _fold_batch_norm(
    theta: Tensor,
    batch: BatchNormUse,
    writers: dict[int, list[tuple[LinearUse, int]]],
    readers: dict[int, int],
    detected: Detected,
    constants: set[str],
    names: _Names,
    network: nn.Module,
) -> None:
    """gamma / sigma into the rows before, everything constant into beta; mean 0 and sigma 1 in any case."""
    gain = theta[batch.weight].numpy(force=True) / batch.sigma
    reads = detected.classes[batch.reads]
    others = detected.others
    alone = (
        bool((reads != 0).all())
        and len(np.unique(reads)) == len(reads)
        and all(detected.roles.get(int(r), set()) <= {"write", "batch_norm"} for r in reads)
        and all(readers[int(r)] == 1 for r in reads)
        and all(len(writers.get(int(r), [])) == 1 and int(r) not in others for r in reads)
        and names.whole(batch.weight) is not None
    )
    offset = theta[batch.bias].numpy(force=True) - gain * batch.mean
    if alone:
        for channel, r in enumerate(reads):
            use, position = writers[int(r)][0]
            groups, outs, ins, taps = use.shape
            row = torch.from_numpy(use.weight.reshape(groups * outs, ins * taps)[position])
            theta[row] *= float(gain[channel])
            bias = int(use.bias.reshape(-1)[position])
            if bias >= 0:
                offset[channel] += gain[channel] * float(theta[bias])
                theta[bias] = 0.0
                name = names.whole(use.bias)
                if name is not None:
                    constants.add(name)
        theta[batch.weight] = 1.0
        constants.add(str(names.whole(batch.weight)))
    else:
        theta[batch.weight] = torch.from_numpy(gain).to(theta)
    theta[batch.bias] = torch.from_numpy(offset).to(theta)
    running_mean, running_var, eps = _statistics_of(network, names, batch)
    with torch.no_grad():
        running_mean.zero_()
        running_var.fill_(1.0 - eps)


def _fold_layer_scale(
    theta: Tensor,
    scale: ScaleUse,
    writers: dict[int, list[tuple[LinearUse, int]]],
    readers: dict[int, int],
    detected: Detected,
    constants: set[str],
    names: _Names,
) -> None:
    """A factor on the outputs of a layer that serves nothing else goes into that layer."""
    reads = detected.classes[scale.reads]
    if not (
        bool((reads != 0).all())
        and len(np.unique(reads)) == len(reads)
        and all(detected.roles.get(int(r), set()) <= {"write", "layer_scale"} for r in reads)
        and all(readers[int(r)] == 1 for r in reads)
        and all(len(writers.get(int(r), [])) == 1 and int(r) not in detected.others for r in reads)
        and names.whole(scale.weight) is not None
    ):
        return
    for r, p in zip(reads, scale.weight):
        use, position = writers[int(r)][0]
        groups, outs, ins, taps = use.shape
        factor = float(theta[p])
        theta[torch.from_numpy(use.weight.reshape(groups * outs, ins * taps)[position])] *= factor
        bias = int(use.bias.reshape(-1)[position])
        if bias >= 0:
            theta[bias] *= factor
    theta[torch.from_numpy(scale.weight)] = 1.0
    constants.add(str(names.whole(scale.weight)))


def _statistics_of(network: nn.Module, names: _Names, batch: BatchNormUse) -> tuple[Tensor, Tensor, float]:
    name = names.whole(batch.weight) or names.whole(batch.bias)
    if name is not None:
        module = network.get_submodule(name.rpartition(".")[0])
        mean, var = getattr(module, "running_mean", None), getattr(module, "running_var", None)
        eps = getattr(module, "eps", None)
        if isinstance(mean, Tensor) and isinstance(var, Tensor) and isinstance(eps, float):
            return mean, var, eps
    raise CannotBalance("a batch normalisation whose statistics are not held by its own module")


def _fold_norm(
    theta: Tensor, norm: NormUse, found: Findings, detected: Detected, constants: set[str], names: _Names
) -> None:
    """gamma and beta of a normalisation that only linear layers read go into those layers."""
    if (norm.weight < 0).any() or names.whole(norm.weight) is None:
        return
    out = detected.classes[norm.writes]
    if (out == 0).any() or any(detected.roles.get(int(r), set()) - {"read"} for r in out):
        return
    if any(detected.owners.get(int(r), 0) != 1 for r in out) or detected.diagonal[out].any():
        return
    feature = {int(r): i for i, r in enumerate(out)}
    readers = []
    for use in found.linear:
        which = np.array([feature.get(int(detected.classes[v]), -1) for v in use.reads.reshape(-1)])
        if (which >= 0).any():
            readers.append((use, which.reshape(use.reads.shape)))
    shifted = bool((norm.bias >= 0).all())
    movable = shifted and all(
        (use.bias >= 0).all() and use.uniform and not (use.borders and use.shape[3] > 1) for use, _ in readers
    )
    weight = theta[norm.weight].clone()
    bias = theta[norm.bias].clone() if shifted else torch.zeros_like(weight)
    if bool((weight == 0).any()) and not movable and shifted:
        return
    for use, which in readers:
        index = torch.from_numpy(use.weight)
        hit = torch.from_numpy(which)
        inside = (hit >= 0)[:, None, :, None]
        part = theta[index]
        if movable:
            moved = (part.sum(dim=3) * torch.where(hit >= 0, bias[hit.clamp_min(0)], 0.0)[:, None, :]).sum(
                dim=2
            )
            theta[torch.from_numpy(use.bias)] += moved
        factor = weight[hit.clamp_min(0)][:, None, :, None]
        theta[index] = torch.where(inside, part * factor, part)
    theta[norm.weight] = 1.0
    constants.add(str(names.whole(norm.weight)))
    if movable:
        theta[norm.bias] = 0.0
        name = names.whole(norm.bias)
        if name is not None:
            constants.add(name)
    elif shifted:
        theta[norm.bias] = bias / weight
