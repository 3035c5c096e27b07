"""How labels pass through sums and differences; a parameter added to a layer becomes its bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from gapbench.computation.tracing import Node, Ref
from gapbench.symmetry.classes import distinct
from gapbench.symmetry.interpreter import Handler, Interpreter
from gapbench.symmetry.labels import (
    Activation,
    Computed,
    Constant,
    ParameterView,
    distinct_pairs,
    expanded,
    frozen,
)
from gapbench.symmetry.operators.uses import only_user


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
                terms.append(frozen(node.shape))
            continue
        value = run.values[argument.index]
        if isinstance(value, Constant | Computed):
            run.labels(value, node)
            terms.append(frozen(node.shape))
            continue
        labels = expanded(run.labels(value, node), node.shape)
        if factor != 1.0:
            labels = replace(labels, shift=run.shift_scaled(labels.shift, factor))
        terms.append(labels)
    if len(terms) == 1:
        return terms[0]
    left, right = terms
    run.meet(("add", node.index), left.scale)
    run.meet(("add", node.index), right.scale)
    pairs, back = distinct_pairs(left.scale, right.scale)
    run.scale.tie(pairs[:, 0], pairs[:, 1])
    new = run.scale.new(len(pairs))
    run.scale.tie(new, pairs[:, 0])
    new[(pairs == 0).any(axis=1)] = 0
    run.scale.fix(pairs[(pairs == 0).any(axis=1)].reshape(-1))
    shift = run.shift.add(left.shift.numpy(), right.shift.numpy())
    return Activation(
        torch.from_numpy(new[back]).reshape(node.shape),
        torch.from_numpy(shift),
        run.nulls.add(left.null, right.null),
    )


def _bias(run: Interpreter, node: Node) -> Activation | None:
    """A parameter added to the output of a layer without bias, one for each unit, is that layer's bias."""
    if node.op != "add" or dict(node.keywords).get("alpha", 1) != 1 or not run.found.linear:
        return None
    values = [run.values[a.index] if isinstance(a, Ref) else a for a in node.arguments[:2]]
    acting = [i for i in (0, 1) if isinstance(values[i], Activation)]
    if len(acting) != 1:
        return None
    output, parameter = values[acting[0]], values[1 - acting[0]]
    if not isinstance(output, Activation) or not isinstance(parameter, ParameterView):
        return None
    x = expanded(output, node.shape)
    index = parameter.index.expand(node.shape)
    candidates = [use for use in run.found.linear[-8:] if bool(x.scale.min() >= use.writes.min())]
    units = distinct(x.scale.numpy())
    use = next((u for u in candidates if np.array_equal(np.sort(u.writes.reshape(-1)), units)), None)
    if use is None or (use.bias >= 0).any() or not only_user(run, use.node, node):
        return None
    pairs, _ = distinct_pairs(x.scale, index)
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


HANDLERS: dict[str, Handler] = dict.fromkeys(("add", "sub", "rsub"), add)
