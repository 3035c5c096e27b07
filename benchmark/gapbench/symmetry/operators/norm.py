"""How labels pass through batch, layer, group and root-mean-square normalisation in eval mode."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from gapbench.computation.multiaffine import BATCH_NORM, batch_norm_trains
from gapbench.computation.tracing import Node, Ref
from gapbench.symmetry.classes import distinct
from gapbench.symmetry.interpreter import Handler, Interpreter
from gapbench.symmetry.labels import Activation, Constant, ParameterView
from gapbench.symmetry.structure import BatchNormUse, NormUse


def _parameter(run: Interpreter, argument: object, count: int) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Positions of an affine parameter (count,), -1 where it is absent or constant, and its constant value.

    Returns:
        (positions, value or None), or None where the parameter is computed and cannot absorb anything.
    """
    absent = np.full(count, -1, np.int64)
    if not isinstance(argument, Ref):
        return absent, None
    value = run.values[argument.index]
    if isinstance(value, ParameterView):
        return value.index.reshape(-1).numpy(), None
    if isinstance(value, Constant) and value.value is not None:
        return absent, value.value.detach().double().reshape(-1).cpu().numpy()
    return None


def batch_norm(run: Interpreter, node: Node) -> Activation:
    """With frozen statistics: weight and bias absorb scales and shifts of both sides, channel by channel."""
    x = run.first(node)
    channels = x.scale.shape[1]
    affine = [_parameter(run, a, channels) for a in node.arguments[1:3]]
    values = [run.values[a.index] for a in node.arguments[3:5] if isinstance(a, Ref)]
    statistics = [v.value for v in values if isinstance(v, Constant) and v.value is not None]
    if batch_norm_trains(node) or affine[0] is None or affine[1] is None or len(statistics) < 2:
        return run.blocked(node)
    (weight, factor), (bias, added) = affine[0], affine[1]
    factor = np.ones(channels) if factor is None else factor
    eps = float(node.arguments[-1])
    mean_ = statistics[0].double().cpu().numpy()
    sigma = (statistics[1].double() + eps).sqrt().cpu().numpy()

    def by_channel(labels: Tensor) -> Tensor:
        return labels.reshape(labels.shape[0], channels, -1).transpose(0, 1).reshape(channels, -1)

    reads = run.one_per_channel(by_channel(x.scale))
    shift_in = run.one_shift(by_channel(x.shift))
    run.nulls.spoil(x.null)
    run.meet(("batch_norm", node.index), reads)
    for index in (weight, bias):
        run.weight_use(node, torch.from_numpy(index))
    writes = run.scale.new(channels)
    gains = (run.theta[weight] if (weight >= 0).all() else factor) / sigma
    if (weight >= 0).all():
        run.found.diagonal.append(reads)
    else:  # nothing absorbs a difference of log scales
        run.scale.tie(writes, reads)
        if np.ptp(gains) > 0.0:
            run.found.diagonal.append(reads)
    constant = (0.0 if added is None else added) - gains * mean_
    if (bias < 0).all() and np.any(constant != 0.0):  # a constant term allows no rescaling
        run.scale.fix(reads)
        run.scale.fix(writes)
    shift_out = np.zeros(channels, np.int64)
    if (bias < 0).all():
        for c in np.flatnonzero(shift_in):
            shift_out[c] = run.shift.combine(
                ("batch_norm", node.index, int(c)), shift_in[c : c + 1], gains[c : c + 1]
            )
    else:
        shift_out = run.shift.new(channels)
    run.found.batch_norms.append(
        BatchNormUse(
            node.index, run.name(weight[weight >= 0]), weight, bias, mean_, sigma, factor, writes, reads,
            shift_in, shift_out,
        )
    )  # fmt: skip
    view = (1, channels, *[1] * (len(node.shape) - 2))
    return Activation(
        torch.from_numpy(writes).reshape(view).expand(node.shape).contiguous(),
        torch.from_numpy(shift_out).reshape(view).expand(node.shape).contiguous(),
        torch.zeros(node.shape, dtype=torch.int64),
    )


def layer_norm(run: Interpreter, node: Node) -> Activation:
    """Layer or root-mean-square normalisation: blind to a common scale, the former to a common shift too."""
    if node.output != 0:
        return run.blocked(node)
    x = run.first(node)
    centred = node.op == "native_layer_norm"
    normalised = node.arguments[1]
    count = math.prod(normalised)
    arguments = [*node.arguments[2:4], None, None]
    weight = _parameter(run, arguments[0], count)
    bias = _parameter(run, arguments[1] if centred else None, count)
    if weight is None or bias is None:
        return run.blocked(node)
    scale = x.scale.reshape(-1, count)
    run.meet(("norm", node.index), scale)
    run.found.norm_only.append(distinct(scale.numpy()))
    if centred:
        run.one_shift(x.shift.reshape(-1, count))
        run.nulls.over_sets(x.null.reshape(-1, count))
    else:
        run.shift.tied.fix(distinct(x.shift.numpy()))
        run.nulls.spoil(x.null)
    writes, shift_out = _affine(run, node, weight, bias)
    kind = "layer" if centred else "rms"
    sets = np.unique(scale.numpy(), axis=0)
    run.found.norms.append(
        NormUse(
            node.index, run.name(weight[0][weight[0] >= 0]), kind, weight[0], bias[0], writes, shift_out, sets
        )
    )
    shape = (*[1] * (len(node.shape) - len(normalised)), *normalised)
    return _normalised(node, writes, shift_out, shape)


def group_norm(run: Interpreter, node: Node) -> Activation:
    """As layer normalisation, over the channels of each group."""
    if node.output != 0:
        return run.blocked(node)
    x = run.first(node)
    channels, groups = int(node.arguments[4]), int(node.arguments[6])
    weight = _parameter(run, node.arguments[1], channels)
    bias = _parameter(run, node.arguments[2], channels)
    if weight is None or bias is None:
        return run.blocked(node)
    batch = x.scale.shape[0]
    scale = x.scale.reshape(batch * groups, -1)
    run.meet(("norm", node.index), scale)
    run.found.norm_only.append(distinct(scale.numpy()))
    run.one_shift(x.shift.reshape(batch * groups, -1))
    run.nulls.over_sets(x.null.reshape(batch * groups, -1))
    writes, shift_out = _affine(run, node, weight, bias)
    sets = np.unique(scale.numpy(), axis=0)
    run.found.norms.append(
        NormUse(
            node.index,
            run.name(weight[0][weight[0] >= 0]),
            "group",
            weight[0],
            bias[0],
            writes,
            shift_out,
            sets,
        )
    )
    shape = (1, channels, *[1] * (len(node.shape) - 2))
    return _normalised(node, writes, shift_out, shape)


def _affine(
    run: Interpreter,
    node: Node,
    weights: tuple[np.ndarray, np.ndarray | None],
    biases: tuple[np.ndarray, np.ndarray | None],
) -> tuple[np.ndarray, np.ndarray]:
    """Output scales absorbed by the weight (and bias), output shifts by the bias."""
    (weight, factor), (bias, added) = weights, biases
    for index in (weight, bias):
        run.weight_use(node, torch.from_numpy(index))
    writes = run.scale.new(len(weight))
    run.found.norm_diagonal.append(writes)
    if (factor is not None and np.ptp(factor) > 0.0) or (added is not None and np.any(added != 0.0)):
        run.scale.fix(writes)  # constants that no symmetry may touch
    if (weight < 0).all():
        run.found.norm_only.append(writes)
    shift_out = np.zeros(len(weight), np.int64) if (bias < 0).all() else run.shift.new(len(weight))
    return writes, shift_out


def _normalised(node: Node, writes: np.ndarray, shifts: np.ndarray, shape: tuple[int, ...]) -> Activation:
    return Activation(
        torch.from_numpy(writes).reshape(shape).expand(node.shape).contiguous(),
        torch.from_numpy(shifts).reshape(shape).expand(node.shape).contiguous(),
        torch.zeros(node.shape, dtype=torch.int64),
    )


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(BATCH_NORM, batch_norm),
    **dict.fromkeys(("native_layer_norm", "_fused_rms_norm"), layer_norm),
    "native_group_norm": group_norm,
}
