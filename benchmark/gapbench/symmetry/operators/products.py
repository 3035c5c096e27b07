"""How labels pass through factors: numbers, parameters (layer scales, norm weights), constants and gates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gapbench.computation.tracing import Node, Ref
from gapbench.symmetry.classes import distinct
from gapbench.symmetry.interpreter import Handler, Interpreter
from gapbench.symmetry.labels import Activation, Computed, Constant, ParameterView, distinct_pairs, expanded
from gapbench.symmetry.operators.root_mean_square import root_mean_square
from gapbench.symmetry.operators.uses import only_user
from gapbench.symmetry.structure import ScaleUse


def multiply(run: Interpreter, node: Node) -> Activation:
    """A product or quotient with a number, a parameter, a constant, or (a gate) another activation."""
    first, second = node.arguments[:2]
    if node.op == "div" and isinstance(second, Ref):
        divisor = run.values[second.index]
        if not (isinstance(divisor, Constant) and divisor.value is not None and divisor.value.numel() == 1):
            return run.blocked(node)
    values = [run.values[a.index] if isinstance(a, Ref) else a for a in (first, second)]
    acting = [v for v in values if isinstance(v, Activation)]
    if len(acting) == 2 and node.index in run.root_mean_squares:
        return root_mean_square(run, node, run.root_mean_squares[node.index])
    if len(acting) == 2:
        return _gate(run, node, expanded(acting[0], node.shape), expanded(acting[1], node.shape))
    x = acting[0]
    other = next(v for v in values if v is not x)
    number = _number(other)
    if number is not None:
        if number == 0.0:
            return run.blocked(node)
        factor = number if node.op == "mul" else 1.0 / number
        out = run.fresh(x)
        return replace(out, shift=run.shift_scaled(x.shift, factor))
    x = expanded(x, node.shape)
    if isinstance(other, ParameterView):
        return _norm_weight(run, node, x, other) or _layer_scale(run, node, x, other)
    if isinstance(other, Computed):
        return run.blocked(node)
    # Fixed factors: channel by channel they may be rescaled, but not mixed.
    run.meet(("factor", node.index), x.scale)
    run.shift.tied.fix(distinct(x.shift.numpy()))
    run.nulls.spoil(x.null)
    out = run.fresh(x, diagonal=True)
    return replace(out, shift=torch.zeros_like(x.shift), null=torch.zeros_like(x.null))


def _number(value: object) -> float | None:
    if isinstance(value, Constant):
        if (
            value.value is not None
            and value.value.numel()
            and bool((value.value == value.value.flatten()[0]).all())
        ):
            return float(value.value.flatten()[0])
        return None
    return float(value) if isinstance(value, int | float) else None


def _gate(run: Interpreter, node: Node, left: Activation, right: Activation) -> Activation:
    """x * gate, where the gate is not rescaled (it comes from a sigmoid, say)."""
    if bool(left.scale.any()) and bool(right.scale.any()):
        run.note("product of two activations that could both be rescaled")
        run.scale.fix(distinct(right.scale.numpy()))
    x = left if bool(left.scale.any()) else right
    for part in (left, right):
        run.meet(("gate", node.index), part.scale)
        run.shift.tied.fix(distinct(part.shift.numpy()))
        run.nulls.spoil(part.null)
    out = run.fresh(x, diagonal=True)
    return replace(out, shift=torch.zeros_like(x.shift), null=torch.zeros_like(x.null))


def _layer_scale(run: Interpreter, node: Node, x: Activation, parameter: ParameterView) -> Activation:
    """y = p x: p absorbs the difference of the log scales of y and x."""
    index = parameter.index.expand(node.shape).reshape(-1).numpy()
    pairs, back = distinct_pairs(torch.from_numpy(index), x.scale.reshape(-1))
    if len(distinct(pairs[:, 0])) < len(pairs):  # one parameter for several channels: leave it alone
        run.weight_use(node, parameter.index)
        run.note("parameter that multiplies several channels")
        run.meet(("factor", node.index), x.scale)
        run.shift.tied.fix(distinct(x.shift.numpy()))
        run.nulls.spoil(x.null)
        out = run.fresh(x)
        return replace(out, shift=torch.zeros_like(x.shift), null=torch.zeros_like(x.null))
    run.weight_use(node, parameter.index)
    writes = run.scale.new(len(pairs))
    run.found.scales.append(
        ScaleUse(node.index, run.name(pairs[:, 0]), pairs[:, 0], writes, pairs[:, 1].copy())
    )
    run.found.diagonal.append(distinct(pairs[:, 1]))
    run.meet(("layer_scale", node.index), x.scale)
    run.shift.tied.fix(distinct(x.shift.numpy()))
    run.nulls.spoil(x.null)
    # A new null direction: what the writer before adds along 1 / p is a common shift behind p.
    null = torch.zeros_like(x.scale)
    channel = _channel_axis(parameter.index.expand(node.shape))
    if channel is not None:
        rest = [n for i, n in enumerate(node.shape) if i != channel]
        atoms = run.nulls.source(node.index, int(np.prod(rest)))
        null = atoms.reshape(rest).unsqueeze(channel).expand(node.shape).contiguous()
    return Activation(torch.from_numpy(writes[back]).reshape(node.shape), torch.zeros_like(x.shift), null)


def _channel_axis(index: Tensor) -> int | None:
    """The only axis along which an expanded parameter varies."""
    varies = [
        axis
        for axis in range(index.dim())
        if index.shape[axis] > 1 and bool((index != index.narrow(axis, 0, 1)).any())
    ]
    return varies[0] if len(varies) == 1 else None


def _norm_weight(run: Interpreter, node: Node, x: Activation, parameter: ParameterView) -> Activation | None:
    """A parameter that multiplies the features of a normalisation without weight becomes its weight."""
    index = parameter.index.expand(node.shape)
    units = distinct(x.scale.numpy())
    norm = next(
        (n for n in run.found.norms[-4:] if (n.weight < 0).all() and np.array_equal(n.writes, units)), None
    )
    if norm is None or (norm.bias >= 0).any() or not only_user(run, norm.node, node):
        return None
    pairs, _ = distinct_pairs(x.scale, index)
    if len(pairs) != len(units) or len(distinct(pairs[:, 1])) != len(pairs) or (pairs[:, 1] < 0).any():
        return None
    run.weight_use(run.trace.nodes[norm.node], torch.from_numpy(pairs[:, 1]))
    run.found.norms[run.found.norms.index(norm)] = replace(norm, weight=pairs[:, 1].copy())
    run.found.norm_only = [v for v in run.found.norm_only if not np.array_equal(v, norm.writes)]
    return x


HANDLERS: dict[str, Handler] = dict.fromkeys(("mul", "div"), multiply)
