"""How labels pass through pointwise operations, sums, products, pooling, padding and softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gapbench.computation.tracing import Node, Ref
from gapbench.symmetry.classes import distinct
from gapbench.symmetry.interpreter import Activation, Computed, Constant, Interpreter, ParameterView
from gapbench.symmetry.structure import NormUse, ScaleUse


def relu_like(run: Interpreter, node: Node) -> Activation:
    """f(e^s x) = e^s f(x) channel by channel; no shift passes."""
    x = run.first(node)
    for index in node.inputs[1:]:  # slopes of a PReLU keep their values
        if isinstance(run.values[index], ParameterView):
            run.weight_use(node, run.values[index].index)
    run.shift.tied.fix(distinct(x.shift.numpy()))
    run.spoil(x.null)
    out = run.fresh(x, diagonal=True)
    return replace(out, shift=torch.zeros_like(x.shift), null=torch.zeros_like(x.null))


def clamp(run: Interpreter, node: Node) -> Activation:
    if _is_relu(node):
        return relu_like(run, node)
    return run.blocked(node, known=True)


def _is_relu(node: Node) -> bool:
    given = dict(node.keywords)
    low, high = [*node.arguments[1:3], None, None][:2]
    low, high = given.get("min", low), given.get("max", high)
    if node.op == "threshold":
        return node.arguments[1] == 0 and node.arguments[2] == 0
    return low == 0 and not isinstance(low, Ref) and high is None


def add(run: Interpreter, node: Node) -> Activation:
    """Both terms must be transformed alike; a constant term allows no rescaling. Shifts add up."""
    fused = _bias(run, node)
    if fused is not None:
        return fused
    factors = [1.0, 1.0]
    alpha = dict(node.keywords).get("alpha", node.arguments[2] if len(node.arguments) > 2 else 1)
    if node.op == "sub":
        factors[1] = -float(alpha)
    elif node.op == "rsub":
        factors[0] = -float(alpha)
    else:
        factors[1] = float(alpha)
    terms: list[Activation] = []
    for argument, factor in zip(node.arguments[:2], factors):
        if not isinstance(argument, Ref):
            if float(argument) != 0.0:
                terms.append(_frozen(node.shape))
            continue
        value = run.values[argument.index]
        if isinstance(value, Constant | Computed):
            run.labels(value, node)
            terms.append(_frozen(node.shape))
            continue
        labels = _expanded(run.labels(value, node), node.shape)
        if factor != 1.0:
            labels = replace(labels, shift=run.shift_scaled(labels.shift, factor))
        terms.append(labels)
    if len(terms) == 1:
        return terms[0]
    left, right = terms
    run.event(("add", node.index), left.scale)
    run.event(("add", node.index), right.scale)
    pairs, back = _pairs(left.scale, right.scale)
    run.scale.tie(pairs[:, 0], pairs[:, 1])
    new = run.scale.new(len(pairs))
    run.scale.tie(new, pairs[:, 0])
    new[(pairs == 0).any(axis=1)] = 0
    run.scale.fix(pairs[(pairs == 0).any(axis=1)].reshape(-1))
    shift = run.shift.add(left.shift.numpy(), right.shift.numpy())
    return Activation(
        torch.from_numpy(new[back]).reshape(node.shape),
        torch.from_numpy(shift),
        run.null_add(left.null, right.null),
    )


def _bias(run: Interpreter, node: Node) -> Activation | None:
    """A parameter added to the output of a layer without bias, one for each unit, is that layer's bias."""
    if node.op != "add" or dict(node.keywords).get("alpha", 1) != 1 or not run.found.linear:
        return None
    values = [run.values[a.index] if isinstance(a, Ref) else a for a in node.arguments[:2]]
    acting = [i for i in (0, 1) if isinstance(values[i], Activation)]
    if len(acting) != 1 or not isinstance(values[1 - acting[0]], ParameterView):
        return None
    x = _expanded(values[acting[0]], node.shape)
    index = values[1 - acting[0]].index.expand(node.shape)
    candidates = [use for use in run.found.linear[-8:] if bool(x.scale.min() >= use.writes.min())]
    units = distinct(x.scale.numpy())
    use = next((u for u in candidates if np.array_equal(np.sort(u.writes.reshape(-1)), units)), None)
    if use is None or (use.bias >= 0).any() or not _only_user(run, use.node, node):
        return None
    pairs, _ = _pairs(x.scale, index)
    flat = pairs[:, 1]
    if len(pairs) != len(units) or len(distinct(flat)) != len(flat) or (flat < 0).any():
        return None
    if run.used[flat].any() or run.as_activation[flat].any():
        return None
    run.weight_use(run.trace.nodes[use.node], torch.from_numpy(flat))
    table = np.zeros(run.scale.count, np.int64)
    table[pairs[:, 0]] = flat
    shift_out = run.shift.new(use.writes.size).reshape(use.writes.shape)
    run.found.linear[run.found.linear.index(use)] = replace(use, bias=table[use.writes], shift_out=shift_out)
    table[use.writes.reshape(-1)] = shift_out.reshape(-1)
    return replace(x, shift=torch.from_numpy(table)[x.scale])


def _only_user(run: Interpreter, start: int, end: Node) -> bool:
    """Whether the value of node `start` goes to `end` only, through views."""
    index = start
    while index != end.index:
        users = set(run.consumers.get(index, []))
        if len(users) != 1:
            return False
        index = users.pop()
        if index != end.index and run.trace.nodes[index].op not in ("view", "_unsafe_view", "reshape"):
            return False
    return True


def _frozen(shape: tuple[int, ...]) -> Activation:
    zeros = torch.zeros(shape, dtype=torch.int64)
    return Activation(zeros, zeros, zeros)


def _expanded(x: Activation, shape: tuple[int, ...]) -> Activation:
    return Activation(
        x.scale.expand(shape).contiguous(),
        x.shift.expand(shape).contiguous(),
        x.null.expand(shape).contiguous(),
    )


def _pairs(left: Tensor, right: Tensor) -> tuple[np.ndarray, np.ndarray]:
    scale = int(max(left.max(), right.max())) + 1 if left.numel() else 1
    codes, back = np.unique((left * scale + right).numpy().reshape(-1), return_inverse=True)
    return np.stack([codes // scale, codes % scale], axis=1), back


def multiply(run: Interpreter, node: Node) -> Any:
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
        return _gate(run, node, _expanded(acting[0], node.shape), _expanded(acting[1], node.shape))
    x = acting[0]
    other = next(v for v in values if v is not x)
    number = _number(other)
    if number is not None:
        if number == 0.0:
            return run.blocked(node)
        factor = number if node.op == "mul" else 1.0 / number
        out = run.fresh(x)
        return replace(out, shift=run.shift_scaled(x.shift, factor))
    x = _expanded(x, node.shape)
    if isinstance(other, ParameterView):
        return _norm_weight(run, node, x, other) or _layer_scale(run, node, x, other)
    if isinstance(other, Computed):
        return run.blocked(node)
    # Fixed factors: channel by channel they may be rescaled, but not mixed.
    run.event(("factor", node.index), x.scale)
    run.shift.tied.fix(distinct(x.shift.numpy()))
    run.spoil(x.null)
    out = run.fresh(x, diagonal=True)
    return replace(out, shift=torch.zeros_like(x.shift), null=torch.zeros_like(x.null))


def square(run: Interpreter, node: Node) -> Activation:
    """The first step of x / sqrt(mean(x^2) + eps), if that is what follows; otherwise unknown."""
    exponent = node.arguments[1] if len(node.arguments) > 1 else None
    final = _normalisation_after(run, node) if exponent == 2 else None
    if final is None:
        return run.blocked(node, known=True)
    run.root_mean_squares[final] = node.arguments[0].index
    return _frozen(node.shape)


def _normalisation_after(run: Interpreter, node: Node) -> int | None:
    """The node x * rsqrt(mean(x^2) + eps) that alone uses x^2 = `node`."""
    source, index = node.arguments[0].index, node.index
    for wanted in (("mean",), ("add",), ("rsqrt",), ("mul",)):
        users = set(run.consumers.get(index, []))
        while len(users) == 1 and run.trace.nodes[next(iter(users))].op in ("_to_copy", "alias", "detach"):
            users = set(run.consumers.get(next(iter(users)), []))
        if len(users) != 1:
            return None
        index = users.pop()
        use = run.trace.nodes[index]
        if use.op not in wanted:
            return None
        if use.op == "mean" and not (len(use.arguments) > 2 and use.arguments[2]):
            return None
        if use.op == "add" and isinstance(use.arguments[1], Ref):
            return None
    factors = {a.index for a in run.trace.nodes[index].arguments[:2] if isinstance(a, Ref)}
    return index if source in factors else None


def root_mean_square(run: Interpreter, node: Node, source: int) -> Activation:
    """x / sqrt(mean(x^2) + eps) over the last axes of x: rotations of the features pass."""
    x = run.values[source]
    small = next(
        run.trace.nodes[a.index].shape for a in node.arguments[:2] if isinstance(a, Ref) and a.index != source
    )
    count = int(np.prod([n for n, m in zip(node.shape, small) if m == 1 and n > 1]))
    trailing = int(np.prod(node.shape[len(node.shape) - 1 :]))
    if count != trailing:  # not over the last axis
        run.freeze(x)
        return _frozen(node.shape)
    scale = x.scale.reshape(-1, count)
    run.event(("norm", node.index), scale)
    run.found.norm_only.append(distinct(scale.numpy()))
    run.shift.tied.fix(distinct(x.shift.numpy()))
    run.spoil(x.null)
    writes = run.scale.new(count)
    run.found.norm_diagonal.append(writes)
    run.found.norm_only.append(writes)
    absent = np.full(count, -1, np.int64)
    run.found.norms.append(
        NormUse(
            node.index, "", "rms", absent, absent, writes, np.zeros(count, np.int64),
            np.unique(scale.numpy(), axis=0),
        )
    )  # fmt: skip
    out = torch.from_numpy(writes).expand(node.shape).contiguous()
    return Activation(out, torch.zeros_like(out), torch.zeros_like(out))


def _norm_weight(run: Interpreter, node: Node, x: Activation, parameter: ParameterView) -> Activation | None:
    """A parameter that multiplies the features of a normalisation without weight becomes its weight."""
    index = parameter.index.expand(node.shape)
    units = distinct(x.scale.numpy())
    norm = next(
        (n for n in run.found.norms[-4:] if (n.weight < 0).all() and np.array_equal(n.writes, units)), None
    )
    if norm is None or (norm.bias >= 0).any() or not _only_user(run, norm.node, node):
        return None
    pairs, _ = _pairs(x.scale, index)
    if len(pairs) != len(units) or len(distinct(pairs[:, 1])) != len(pairs) or (pairs[:, 1] < 0).any():
        return None
    run.weight_use(run.trace.nodes[norm.node], torch.from_numpy(pairs[:, 1]))
    run.found.norms[run.found.norms.index(norm)] = replace(norm, weight=pairs[:, 1].copy())
    run.found.norm_only = [v for v in run.found.norm_only if not np.array_equal(v, norm.writes)]
    return x


def _number(value: Any) -> float | None:
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
        run.event(("gate", node.index), part.scale)
        run.shift.tied.fix(distinct(part.shift.numpy()))
        run.spoil(part.null)
    out = run.fresh(x, diagonal=True)
    return replace(out, shift=torch.zeros_like(x.shift), null=torch.zeros_like(x.null))


def _layer_scale(run: Interpreter, node: Node, x: Activation, parameter: ParameterView) -> Activation:
    """y = p x: p absorbs the difference of the log scales of y and x."""
    index = parameter.index.expand(node.shape).reshape(-1).numpy()
    pairs, back = _pairs(torch.from_numpy(index), x.scale.reshape(-1))
    if len(distinct(pairs[:, 0])) < len(pairs):  # one parameter for several channels: leave it alone
        run.weight_use(node, parameter.index)
        run.note("parameter that multiplies several channels")
        run.event(("factor", node.index), x.scale)
        run.shift.tied.fix(distinct(x.shift.numpy()))
        run.spoil(x.null)
        out = run.fresh(x)
        return replace(out, shift=torch.zeros_like(x.shift), null=torch.zeros_like(x.null))
    run.weight_use(node, parameter.index)
    writes = run.scale.new(len(pairs))
    run.found.scales.append(
        ScaleUse(node.index, run.name(pairs[:, 0]), pairs[:, 0], writes, pairs[:, 1].copy())
    )
    run.found.diagonal.append(distinct(pairs[:, 1]))
    run.event(("layer_scale", node.index), x.scale)
    run.shift.tied.fix(distinct(x.shift.numpy()))
    run.spoil(x.null)
    # A new null direction: what the writer before adds along 1 / p is a common shift behind p.
    null = torch.zeros_like(x.scale)
    channel = _channel_axis(parameter.index.expand(node.shape))
    if channel is not None:
        rest = [n for i, n in enumerate(node.shape) if i != channel]
        atoms = run.null_source(node.index, int(np.prod(rest)))
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


def negate(run: Interpreter, node: Node) -> Activation:
    x = run.first(node)
    return replace(run.fresh(x), shift=run.shift_scaled(x.shift, -1.0))


def mean(run: Interpreter, node: Node) -> Activation:
    x = run.first(node)
    axes = node.arguments[1] if len(node.arguments) > 1 and node.arguments[1] is not None else None
    axes = tuple(range(x.scale.dim())) if axes is None else tuple(a % x.scale.dim() for a in axes)
    scale, shift, null = (_reduced_last(part, axes) for part in (x.scale, x.shift, x.null))
    kept = run.one_per_channel(scale)
    means = run.shift.mean(shift.numpy())
    mixed = (null != null[:, :1]).any(dim=1)
    out_null = null[:, 0].clone()
    for row in torch.nonzero(mixed)[:, 0].tolist():  # any average of common directions is one
        out_null[row] = run.null_atom(*set(null[row].tolist()))
    return Activation(
        torch.from_numpy(kept).reshape(node.shape),
        torch.from_numpy(means).reshape(node.shape),
        out_null.reshape(node.shape),
    )


def _reduced_last(labels: Tensor, axes: tuple[int, ...]) -> Tensor:
    kept = [a for a in range(labels.dim()) if a not in axes]
    size = int(np.prod([labels.shape[a] for a in axes]))
    return labels.permute(*kept, *axes).reshape(-1, size)


def pool(run: Interpreter, node: Node) -> Activation:
    """Windows over the trailing axes: a channel keeps its variable, and its shift where that is constant."""
    x = run.first(node)
    spatial = 1 if "1d" in node.op else 3 if "3d" in node.op else 2
    lead = x.scale.shape[: x.scale.dim() - spatial]
    flat = x.scale.reshape(int(np.prod(lead)), -1)
    maximum = "max" in node.op
    if maximum:
        run.found.diagonal.append(distinct(flat.numpy()))
        run.event(("max", node.index), flat)
    kept = torch.from_numpy(run.one_per_channel(flat))
    shift = torch.from_numpy(run.one_shift(x.shift.reshape(int(np.prod(lead)), -1)))
    padded = not maximum and "adaptive" not in node.op and _pads(node)
    if padded:
        run.shift.tied.fix(distinct(shift.numpy()))
        shift = torch.zeros_like(shift)
    null = x.null.reshape(int(np.prod(lead)), -1)
    if bool(null.any()):
        run.spoil(null)
    shape = (*lead, *[1] * spatial)
    out = Activation(
        kept.reshape(shape).expand(node.shape).contiguous(),
        shift.reshape(shape).expand(node.shape).contiguous(),
        torch.zeros(node.shape, dtype=torch.int64),
    )
    return run.fresh(out) if maximum or padded else out


def _pads(node: Node) -> bool:
    padding = node.arguments[3] if len(node.arguments) > 3 else 0
    return any(padding) if isinstance(padding, tuple | list) else bool(padding)


def softmax(run: Interpreter, node: Node) -> Activation:
    """Unchanged by what is common to all entries along its axis."""
    x = run.first(node)
    axis = int(node.arguments[1]) % x.scale.dim()
    run.scale.fix(distinct(x.scale.numpy()))
    size = x.scale.shape[axis]
    run.one_shift(x.shift.movedim(axis, -1).reshape(-1, size))
    run.null_over_sets(x.null.movedim(axis, -1).reshape(-1, size))
    out = _frozen(node.shape)
    return replace(out, rows_sum_to_one=axis == x.scale.dim() - 1)


def pad(run: Interpreter, node: Node) -> Activation:
    """Added zeros may be rescaled with their channel but not shifted; other constants allow neither."""
    x = run.first(node)
    value = node.arguments[2] if len(node.arguments) > 2 else 0
    widths = list(node.arguments[1])

    def padded(labels: Tensor, fill: int = 0) -> Tensor:
        return torch.nn.functional.pad(labels, widths, value=fill)

    scale, shift, null = padded(x.scale), padded(x.shift), padded(x.null)
    if value == 0:  # along padded axes a channel's own variable fits the zeros
        outside = padded(torch.ones_like(x.scale)) == 0
        axes = [x.scale.dim() - 1 - i for i in range(len(widths) // 2) if widths[2 * i] or widths[2 * i + 1]]
        rest = [1 if i in axes else n for i, n in enumerate(x.scale.shape)]
        order = [i for i in range(x.scale.dim()) if i not in axes] + axes
        own = run.one_per_channel(x.scale.permute(order).reshape(int(np.prod(rest)), -1))
        zeros = run.scale.new(len(own))  # a name of their own: a zero is not what a normalisation gives
        run.scale.tie(zeros, own)
        scale = torch.where(outside, torch.from_numpy(zeros).reshape(rest).expand(node.shape), scale)
    run.spoil(x.null)
    return Activation(scale, shift, torch.zeros_like(null))


HANDLERS = {
    **dict.fromkeys(("relu", "leaky_relu", "abs", "prelu", "_prelu_kernel", "rrelu"), relu_like),
    **dict.fromkeys(("clamp", "clamp_min", "threshold"), clamp),
    **dict.fromkeys(("add", "sub", "rsub"), add),
    **dict.fromkeys(("mul", "div"), multiply),
    "neg": negate,
    "mean": mean,
    **dict.fromkeys(
        (
            "avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d "
            "max_pool2d_with_indices max_pool3d_with_indices max_pool1d max_pool2d adaptive_max_pool2d"
        ).split(),
        pool,
    ),
    **dict.fromkeys(("_softmax", "softmax", "_safe_softmax"), softmax),
    "constant_pad_nd": pad,
    "pow": square,
}
