"""The balanced representative of a network's orbit: the same function, the smallest norm, all gauges fixed.

After Kempf and Ness: on a closed orbit of a reductive group the points of least norm form one orbit of its
orthogonal part, so Euclidean quantities there are invariants of the whole orbit.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import torch
from torch import Tensor, nn

from gapbench.computation.copies import copied
from gapbench.symmetry.certificate import drop_failing, remove
from gapbench.symmetry.detection import Detected
from gapbench.symmetry.families import Mixing, Rescaling
from gapbench.symmetry.find import Symmetry, build, with_parameters
from gapbench.symmetry.structure import BatchNormUse, Findings, LinearUse, NormUse, ScaleUse
from gapbench.symmetry.verification import ACCEPTED, double_copy, largest_change, rounded_change
from gapbench_base.errors import NotDefined

TOLERANCE = 1e-13
MAX_ROUNDS = 2000
STALLED = 50  # rounds in which the imbalance must at least halve
LARGEST_GAUGE = 6000


class CannotBalance(NotDefined):
    """The orbit has no balanced representative that this code can reach; the message says why."""


def balanced(symmetry: Symmetry) -> nn.Module:
    """A new network with the same function at the balanced representative of its orbit, in its own type.

    Batch normalisation is folded into the layer before it and layer normalisation into its readers (their
    affine parameters become constants), shifts and null directions are fixed (key and value biases zero,
    writers of normalised streams centred, readers orthogonal to 1), then the norm of the remaining
    parameters is minimised over rescalings and mixings; mixed channels beyond the rank are set to zero.
    Unique up to signs and rotations. The network returned has been evaluated on the given and on random
    inputs. Raises `CannotBalance`, also where the function would change.
    """
    like = next(symmetry.network.parameters())
    original = double_copy(symmetry.network).cpu()
    example = symmetry.example.detach().cpu()
    example = example.double() if example.is_floating_point() else example
    first = build(original, example, False)
    remove(first, symmetry.removed)
    network = _folded(original, first)
    _check(original, network, example, "folding its normalisations")
    second = build(network, example, False)
    # Folding has changed the structure: what holds here is tried here, at the point where it is used.
    drop_failing(second, names=("own",))
    theta = _fix_shifts(second)
    theta = _fix_nulls(second, theta)
    theta = _drop_dead(second, theta)
    theta = _minimise(second, theta)
    result = with_parameters(network, theta)
    _check(original, result, example, "moving it along its orbit")
    result = result.to(device=like.device, dtype=like.dtype)
    before = copied(symmetry.network).eval()
    if not rounded_change(before, result, symmetry.example) <= 1.0:
        raise CannotBalance("rounding the balanced parameters to the network's type changes its outputs")
    return result


def _check(before: nn.Module, after: nn.Module, example: Tensor, what: str) -> None:
    """Raise `CannotBalance` where the function changed."""
    moved = largest_change(before, after, example)
    if not moved <= ACCEPTED:
        raise CannotBalance(f"{what} would change its outputs by {moved:.1e} of the largest")


# ---- folding -----------------------------------------------------------------------------------------------


def _folded(network: nn.Module, symmetry: Symmetry) -> nn.Module:
    found, theta = symmetry.findings, symmetry.bound.theta.clone()
    names = _Names(network)
    constants: set[str] = set()
    detected = symmetry.detected
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
    with torch.no_grad():
        start = 0
        for p in result.parameters():
            p.copy_(theta[start : start + p.numel()].reshape(p.shape))
            start += p.numel()
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
            groups, outs, ins, taps = use.weight.shape
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
        groups, outs, ins, taps = use.weight.shape
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
        (use.bias >= 0).all() and use.uniform and not (use.borders and use.weight.shape[3] > 1)
        for use, _ in readers
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


# ---- gauges ------------------------------------------------------------------------------------------------


def _fix_shifts(symmetry: Symmetry) -> Tensor:
    """Biases that shift freely become zero; where only a common shift is free, their sum does.

    The conditions are chosen from the structure alone, whole layers at a time, so that every network of an
    orbit gets the same ones and mixings and rotations leave them true.
    """
    shifts, theta = symmetry.bound.shifts, symmetry.bound.theta
    k = shifts.size
    if not k:
        return theta
    if k > LARGEST_GAUGE:
        raise CannotBalance(f"{k} free shifts are more than the {LARGEST_GAUGE} that can be fixed")
    matrix: sp.csr_matrix = shifts.matrix
    basis = np.zeros((k, 0))
    chosen: list[sp.csr_matrix] = []
    for conditions, columns in _shift_conditions(symmetry):
        left = 1.0 - (basis**2).sum(axis=1) > 1e-8  # shifts that nothing fixes yet
        open_ = np.array([bool(left[c].any()) for c in columns])
        if not open_.any():
            continue
        conditions = conditions[np.flatnonzero(open_)]
        rows = (conditions @ matrix).toarray()
        size = np.linalg.norm(rows, axis=1, keepdims=True)
        if (size == 0).any() or (len(chosen) and basis.shape[1] == k):
            continue
        rows = rows / size
        rest = rows - (rows @ basis) @ basis.T
        rest = rest - (rest @ basis) @ basis.T
        q, r = np.linalg.qr(rest.T)
        if rest.shape[0] > k or (np.abs(np.diag(r)) < 1e-8).any():
            continue
        basis = np.concatenate([basis, q], axis=1)
        chosen.append(conditions)
    if basis.shape[1] < k:
        raise CannotBalance(f"{k - basis.shape[1]} free shifts could not be fixed")
    conditions = sp.vstack(chosen).tocsr()
    numbers = theta.numpy(force=True)
    step = np.linalg.solve((conditions @ matrix).toarray(), -(conditions @ numbers))
    return theta + torch.from_numpy(matrix @ step).to(theta)


def _shift_conditions(symmetry: Symmetry) -> list[tuple[sp.csr_matrix, list[np.ndarray]]]:
    """Sets of linear conditions on the parameters, each with the free shifts that it may fix.

    For each layer its single biases, then the sums of biases that a free shift moves together.
    """
    values, found, d = symmetry.solution.values, symmetry.findings, symmetry.bound.shifts.d
    pairs: list[tuple[np.ndarray, np.ndarray]] = [(use.bias, use.shift_out) for use in found.linear]
    pairs += [(b.bias, b.shift_out) for b in found.batch_norms]
    pairs += [(n.bias, n.shift_out) for n in found.norms]
    pairs += [(a.parameters, a.shifts) for a in found.additive]
    singles, sums, totals = [], [], []
    for parameters, variables in pairs:
        kept = parameters >= 0
        if not kept.any():
            continue
        place = sp.csr_matrix(
            (np.ones(int(kept.sum())), (np.arange(int(kept.sum())), parameters[kept])), (int(kept.sum()), d)
        )
        patterns = values[variables[kept]].T.tocsr()
        counts = np.diff(patterns.indptr)
        single = np.flatnonzero(counts == 1)
        coordinate = patterns[single].indices
        moved = np.unique(coordinate)
        if len(moved):
            of_coordinate = [single[coordinate == i] for i in moved]
            singles.append((place[moved], of_coordinate))
            totals.append((sp.csr_matrix(np.ones((1, len(moved)))) @ place[moved], [single]))
        several = np.flatnonzero(counts > 1)
        if len(several):
            sums.append(((patterns[several] @ place).tocsr(), [np.array([i]) for i in several]))
            totals += [((patterns[[i]] @ place).tocsr(), [np.array([i])]) for i in several]
    return [*singles, *sums, *totals]


def _fix_nulls(symmetry: Symmetry, theta: Tensor) -> Tensor:
    """Writers of normalised streams centred, readers orthogonal to 1, both up to the scales in between."""
    for writer in symmetry.bound.writer_nulls:
        direction = writer._direction(theta)
        c = -((1.0 / direction) @ theta[writer.index]) / len(direction)
        theta = writer.finite(theta, c)
    for reader in symmetry.bound.reader_nulls:
        inverse, _ = reader._direction(theta)
        c = -(theta[reader.index] @ (1.0 / inverse)) / len(inverse)
        theta = reader.finite(theta, c)
    return theta


def _drop_dead(symmetry: Symmetry, theta: Tensor) -> Tensor:
    """Units without incoming or without outgoing weights: both sides become zero."""
    theta = theta.clone()
    while True:
        rescaling = Rescaling(theta, symmetry.findings, symmetry.detected)
        rows, columns = _sides(rescaling, theta)
        dead = (rows == 0) != (columns == 0)
        if not bool(dead.any()):
            return theta
        for w in rescaling.weights:
            outs = _dead_of(rescaling, dead, w.outs)
            ins = _dead_of(rescaling, dead, w.ins)
            part = theta[w.where].reshape(w.shape)
            gone = outs[:, :, None, None] | ins[:, None, :, None]
            theta[w.where] = torch.where(gone, 0.0, part).reshape(-1)
        p, v, _ = rescaling.exponents
        gone = _dead_of(rescaling, dead, torch.from_numpy(v))
        theta[torch.from_numpy(p)[gone]] = 0.0


def _sides(rescaling: Rescaling, theta: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of squares that grow and that shrink with each log scale."""
    grow = torch.zeros(rescaling.raw, dtype=torch.float64)
    shrink = torch.zeros_like(grow)
    for w in rescaling.weights:
        square = theta[w.where].reshape(w.shape).pow(2).sum(dim=3)
        grow.index_add_(0, w.outs.reshape(-1), square.sum(dim=2).reshape(-1))
        shrink.index_add_(0, w.ins.reshape(-1), square.sum(dim=1).reshape(-1))
    p, v, f = rescaling.exponents
    square = theta[torch.from_numpy(p)].pow(2)
    positive = torch.from_numpy(f > 0)
    index = torch.from_numpy(v)
    grow.index_add_(0, index[positive], square[positive])
    shrink.index_add_(0, index[~positive], square[~positive])
    up = torch.zeros(rescaling.size, dtype=torch.float64)
    down = torch.zeros_like(up)
    which, sign = torch.from_numpy(rescaling.compact), torch.from_numpy(rescaling.sign)
    for raw, target, other in ((grow, up, down), (shrink, down, up)):
        target.index_add_(0, which[sign > 0], raw[sign > 0])
        other.index_add_(0, which[sign < 0], raw[sign < 0])
    return up, down


def _dead_of(rescaling: Rescaling, dead: Tensor, raw: Tensor) -> Tensor:
    which, sign = torch.from_numpy(rescaling.compact), torch.from_numpy(rescaling.sign)
    return dead[which[raw]] & (sign[raw] != 0) if len(dead) else torch.zeros_like(raw, dtype=torch.bool)


# ---- norm --------------------------------------------------------------------------------------------------


def _minimise(symmetry: Symmetry, theta: Tensor) -> Tensor:
    """Least norm over rescalings (Newton) and mixings (singular values), alternating where they meet."""
    findings, detected = symmetry.findings, symmetry.detected
    mixed = [s for s in detected.spaces if s.algebra == "gl"]
    for space in mixed:
        _check_space(space.slots)
    progress: list[float] = []
    for _ in range(MAX_ROUNDS):
        moved = 0.0
        for space in mixed:
            mixing = Mixing(theta, space)
            theta, change = _balance_mixing(theta, mixing)
            moved = max(moved, change)
        if moved > TOLERANCE:  # a mixing may have left units without incoming or outgoing weights
            theta = _drop_dead(symmetry, theta)
        rescaling = Rescaling(theta, findings, detected)
        if rescaling.size:
            theta, change = _newton(theta, symmetry)
            moved = max(moved, change)
        if moved <= TOLERANCE or not ((rescaling.size and mixed) or len(mixed) > 1):
            return theta
        progress.append(moved)
        if len(progress) > STALLED and moved > 0.5 * progress[-STALLED]:
            break
    raise CannotBalance(f"balancing did not converge in {len(progress)} rounds")


def _check_space(slots: tuple[object, ...]) -> None:
    primal = {int(i) for s in slots if not s.dual for i in s.index.reshape(-1)}  # type: ignore[attr-defined]
    dual = {int(i) for s in slots if s.dual for i in s.index.reshape(-1)}  # type: ignore[attr-defined]
    if primal & dual:
        raise CannotBalance("a linear layer that reads and writes the same channels")


def _balance_mixing(theta: Tensor, mixing: Mixing) -> tuple[Tensor, float]:
    """Factors X, Y of Y'X replaced by their balanced singular factors; returns the relative imbalance before."""
    parts = mixing.parts()
    x = torch.cat([part for _, part, dual, _ in parts if not dual], dim=1)
    y_parts = [part for _, part, dual, _ in parts if dual]
    if not y_parts or not x.numel():
        raise CannotBalance("channels that are written but not read, or the other way round")
    y = torch.cat(y_parts, dim=1)
    p, q = x @ x.T, y @ y.T
    imbalance = float((p - q).norm() / (p.norm() + q.norm()).clamp_min(1e-300))
    if imbalance <= TOLERANCE:
        return theta, 0.0
    qx, rx = torch.linalg.qr(x.T)
    qy, ry = torch.linalg.qr(y.T)
    u, s, vt = torch.linalg.svd(ry @ rx.T)
    s = torch.where(s > 1e-12 * s.max(), s, torch.zeros_like(s))
    root = s.sqrt()
    rank = len(s)
    new_x = torch.zeros_like(x)
    new_y = torch.zeros_like(y)
    new_x[:rank] = root[:, None] * (vt[:rank] @ qx.T)
    new_y[:rank] = root[:, None] * (u[:, :rank].T @ qy.T)
    out = theta.clone()
    at_x = at_y = 0
    for (index, part, dual, factors), _ in zip(parts, mixing.space.slots):
        width = part.shape[1]
        if dual:
            value = new_y[:, at_y : at_y + width]
            at_y += width
            value = value * factors if factors is not None else value
        else:
            value = new_x[:, at_x : at_x + width]
            at_x += width
            value = value / factors if factors is not None else value
        out[index] = value
    return out, imbalance


def _newton(theta: Tensor, symmetry: Symmetry) -> tuple[Tensor, float]:
    """Minimise |theta|^2 over log scales: convex, gradient 2 T' theta, Hessian 4 T' T."""
    first = None
    if not bool(theta.any()):
        return theta, 0.0
    for _ in range(100):
        rescaling = Rescaling(theta, symmetry.findings, symmetry.detected)
        gradient = rescaling.cotangent(theta)
        size = float(gradient.abs().max()) / float(theta @ theta)
        first = size if first is None else first
        if size <= TOLERANCE:
            break
        gram = rescaling.gram_weights() + rescaling.vector.T @ rescaling.vector
        step = _solve(gram, -0.5 * gradient.numpy())
        direction = torch.from_numpy(step)
        # A full step once it is safe, a shorter one while scales are far off.
        scale = min(1.0, 1.0 / max(1e-300, float(direction.abs().max())))
        norm, slope = float(theta @ theta), 2.0 * float(gradient @ direction)
        while True:
            candidate = rescaling.finite(theta, scale * direction)
            now = float(candidate @ candidate)
            if now <= norm + 1e-4 * scale * slope or scale < 1e-8 or abs(slope) < 1e-14 * norm:
                break
            scale /= 2
        theta = candidate
    return theta, first or 0.0


def _solve(gram: sp.csr_matrix, right: np.ndarray) -> np.ndarray:
    """The least step; units without weights, which nothing moves, stay where they are."""
    diagonal = gram.diagonal()
    moved = np.flatnonzero(diagonal > 1e-30 * diagonal.max(initial=0.0))
    step = np.zeros(len(right))
    if not len(moved):
        return step
    scale = 1.0 / np.sqrt(diagonal[moved])
    scaled = (sp.diags(scale) @ gram.tocsr()[moved][:, moved] @ sp.diags(scale)).tocsc()
    n = len(moved)
    if n <= 1500:
        solution = np.linalg.lstsq(scaled.toarray(), scale * right[moved], rcond=1e-12)[0]
    else:
        solution = spl.splu(scaled + sp.identity(n, format="csc") * 1e-13).solve(scale * right[moved])
    step[moved] = scale * solution
    return step
