"""How labels pass through dense layers and convolutions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gapbench.computation.tracing import Node, Ref
from gapbench.symmetry.classes import distinct
from gapbench.symmetry.interpreter import Handler, Interpreter
from gapbench.symmetry.labels import Activation, Constant, ParameterView
from gapbench.symmetry.operators.attention import activation_product, transposed
from gapbench.symmetry.structure import LinearUse, Span, stored


def matrix_product(run: Interpreter, node: Node) -> Activation:
    """mm, addmm, bmm, baddbmm of an activation with a parameter or with another activation."""
    biased = node.op in ("addmm", "baddbmm")
    left, right = (run.values[a.index] for a in node.arguments[1 if biased else 0 :][:2])
    bias = run.values[node.arguments[0].index] if biased else None
    given = dict(node.keywords)
    if biased and (given.get("alpha", 1) != 1 or given.get("beta", 1) != 1):
        return run.blocked(node)
    if isinstance(left, Activation) and isinstance(right, Activation):
        if bias is not None:
            return run.blocked(node)
        return activation_product(run, node, _batched(left), _batched(right))
    if isinstance(left, ParameterView) and isinstance(right, Activation) and bias is None:
        flipped = _dense(run, node, _batched(right, True), left.index.transpose(-1, -2), None)
        if flipped is None:
            return run.blocked(node)
        return _shaped(transposed(flipped), node.shape)
    if not (isinstance(left, Activation) and isinstance(right, ParameterView)):
        return run.blocked(node)
    if isinstance(bias, Constant) and _is_zero(bias):
        bias = None
    if bias is not None and not isinstance(bias, ParameterView):
        return run.blocked(node)
    found = _dense(run, node, _batched(left), right.index, None if bias is None else bias.index)
    return run.blocked(node) if found is None else _shaped(found, node.shape)


def _is_zero(constant: Constant) -> bool:
    return constant.value is not None and not bool(constant.value.any())


def _batched(x: Activation, transpose: bool = False) -> Activation:
    def shape(labels: Tensor) -> Tensor:
        labels = labels if labels.dim() == 3 else labels[None]
        return labels.transpose(1, 2) if transpose else labels

    return replace(x, scale=shape(x.scale), shift=shape(x.shift), null=shape(x.null))


def _shaped(x: Activation, shape: tuple[int, ...]) -> Activation:
    return Activation(x.scale.reshape(shape), x.shift.reshape(shape), x.null.reshape(shape))


def _dense(
    run: Interpreter, node: Node, x: Activation, weight: Tensor, bias: Tensor | None
) -> Activation | None:
    """x (B, T, I) times weight (I, O) or (B, I, O) plus bias, broadcast to (B, T, O)."""
    weight = weight if weight.dim() == 3 else weight[None]
    batch, positions, _ = x.scale.shape
    if len(weight) > 1 and bool((weight == weight[:1]).all()):
        weight = weight[:1]
    if bias is not None:
        bias = bias.expand(batch, positions, weight.shape[2]) if bias.dim() else None
        if bias is None or bool((bias != bias[:, :1]).any()):
            return None
        bias = bias[:, 0]
        if len(weight) == 1:
            if bool((bias != bias[:1]).any()):
                return None
            bias = bias[:1]
    groups = len(weight)
    if groups == 1:
        scale = x.scale.reshape(1, batch * positions, -1)
        shift = x.shift.reshape(1, batch * positions, -1)
    else:
        scale, shift = x.scale, x.shift
    features = scale.shape[2]
    by_feature = scale.transpose(1, 2).reshape(groups * features, -1)
    reads = run.one_per_channel(by_feature).reshape(groups, -1)
    shifts = run.one_shift(shift.transpose(1, 2).reshape(groups * features, -1)).reshape(groups, -1)
    run.nulls.spoil(x.null)
    index = weight.transpose(1, 2).numpy()[..., None]
    use = _linear_use(
        run, node, index, None if bias is None else bias.numpy(), reads, shifts, False, _one_name(by_feature)
    )
    shape = (batch, positions, index.shape[1])
    null = run.nulls.source(node.index, batch * positions).reshape(batch, positions, 1).expand(shape)
    if groups > 1:
        null = torch.zeros(shape, dtype=torch.int64)
    return Activation(
        torch.from_numpy(use.writes)[:, None, :].expand(shape).contiguous(),
        torch.from_numpy(use.shift_out)[:, None, :].expand(shape).contiguous(),
        null.contiguous(),
    )


def _one_name(labels: Tensor) -> bool:
    """Whether the labels (c, m) of each channel are the same, not just tied to each other."""
    return bool((labels == labels[:, :1]).all())


def _linear_use(
    run: Interpreter,
    node: Node,
    weight: np.ndarray,
    bias: np.ndarray | None,
    reads: np.ndarray,
    shift_in: np.ndarray,
    borders: bool,
    uniform: bool,
) -> LinearUse:
    groups, outs = weight.shape[:2]
    kept = stored(weight)
    run.weight_use(node, kept.where if isinstance(kept, Span) else torch.from_numpy(weight))
    if bias is not None:
        run.weight_use(node, torch.from_numpy(bias))
    writes = run.scale.new(groups * outs).reshape(groups, outs)
    for g in range(groups if groups <= 4096 else 0):
        run.meet(("read", node.index, g), reads[g])
        run.meet(("write", node.index, g), writes[g])
    if bias is not None:
        shift_out = run.shift.new(groups * outs).reshape(groups, outs)
    else:
        shift_out = np.zeros((groups, outs), np.int64)
        if shift_in.any():
            totals = run.theta[weight].sum(axis=3)
            for g in range(groups):
                if shift_in[g].any():
                    for o in range(outs):
                        shift_out[g, o] = run.shift.combine(
                            ("linear", node.index, g, o), shift_in[g], totals[g, o]
                        )
    absent = np.full((groups, outs), -1, np.int64)
    use = LinearUse(
        node.index,
        run.name(weight),
        kept,
        absent if bias is None else bias,
        writes,
        reads,
        shift_in,
        shift_out,
        borders,
        uniform,
    )
    run.found.linear.append(use)
    if use.depthwise:
        run.found.diagonal += [reads.reshape(-1), writes.reshape(-1)]
    return use


def convolution(run: Interpreter, node: Node) -> Activation:
    """A convolution by a parameter: channels may be rescaled; shifts pass where no padding makes borders."""
    x, weight = run.first(node), run.values[node.arguments[1].index]
    bias_ref = node.arguments[2]
    bias = run.values[bias_ref.index] if isinstance(bias_ref, Ref) else None
    if isinstance(bias, Constant) and _is_zero(bias):
        bias = None
    _, padding, _, transposed, _, groups = node.arguments[3:9]
    if not (
        isinstance(run.values[node.arguments[0].index], Activation)
        and isinstance(weight, ParameterView)
        and (bias is None or isinstance(bias, ParameterView))
        and not transposed
        and not bool((weight.index < 0).any())
    ):
        return run.blocked(node)
    batch, channels = x.scale.shape[:2]
    per_channel = x.scale.reshape(batch, channels, -1).transpose(0, 1).reshape(channels, -1)
    reads = run.one_per_channel(per_channel).reshape(groups, -1)
    shifts = run.one_shift(x.shift.reshape(batch, channels, -1).transpose(0, 1).reshape(channels, -1))
    kernel = tuple(weight.index.shape[2:])
    borders = any(p > 0 for p in padding)
    if borders:  # a shift would not be constant at the border
        run.shift.tied.fix(distinct(shifts))
        shifts = np.zeros_like(shifts)
    run.nulls.spoil(x.null)
    outs = weight.index.shape[0]
    index = weight.index.reshape(groups, outs // groups, channels // groups, math.prod(kernel)).numpy()
    use = _linear_use(
        run,
        node,
        index,
        None if bias is None else bias.index.reshape(groups, -1).numpy(),
        reads,
        shifts.reshape(groups, -1),
        borders,
        _one_name(per_channel),
    )
    view = (1, outs, *[1] * (len(node.shape) - 2))
    null = torch.zeros(node.shape, dtype=torch.int64)
    if groups == 1:
        rest = (batch, *node.shape[2:])
        atoms = run.nulls.source(node.index, math.prod(rest)).reshape(rest)
        null = atoms.unsqueeze(1).expand(node.shape).contiguous()
    return Activation(
        torch.from_numpy(use.writes.reshape(view)).expand(node.shape).contiguous(),
        torch.from_numpy(use.shift_out.reshape(view)).expand(node.shape).contiguous(),
        null,
    )


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm"), matrix_product),
    **dict.fromkeys(("convolution", "_convolution"), convolution),
}
