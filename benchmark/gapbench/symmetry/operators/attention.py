"""How labels pass through products of two activations: scores of attention, and weights times values."""

from __future__ import annotations

from dataclasses import replace

import torch

from gapbench.computation.tracing import Node, Ref
from gapbench.symmetry.classes import distinct
from gapbench.symmetry.interpreter import Interpreter
from gapbench.symmetry.labels import Activation

PASSES_TO_SOFTMAX = frozenset(
    "view _unsafe_view reshape expand clone mul div add _to_copy unsqueeze squeeze alias detach".split()
)


def transposed(x: Activation) -> Activation:
    """Labels (b, n, m) as (b, m, n)."""
    return Activation(x.scale.transpose(1, 2), x.shift.transpose(1, 2), x.null.transpose(1, 2))


def activation_product(run: Interpreter, node: Node, x: Activation, y: Activation) -> Activation:
    """sum_i x[b, t, i] y[b, i, j]: the log scales of x and y must cancel, or one of them is not rescaled."""
    batch, rows, inner = x.scale.shape
    columns = y.scale.shape[2]
    for b in range(batch):
        run.meet(("product", node.index, 0, b), x.scale[b])
        run.meet(("product", node.index, 1, b), y.scale[b])
    if not bool(x.scale.any()):  # attention weights times values
        scale = run.one_per_channel(y.scale.transpose(1, 2).reshape(batch * columns, inner))
        out = torch.from_numpy(scale).reshape(batch, 1, columns).expand(batch, rows, columns).contiguous()
        run.shift.tied.fix(distinct(x.shift.numpy()))
        run.nulls.spoil(x.null)
        run.nulls.spoil(y.null)
        shift = torch.zeros_like(out)
        if x.rows_sum_to_one:
            passed = run.one_shift(y.shift.transpose(1, 2).reshape(batch * columns, inner))
            shift = torch.from_numpy(passed).reshape(batch, 1, columns).expand_as(out).contiguous()
        else:
            run.shift.tied.fix(distinct(y.shift.numpy()))
        return run.fresh(Activation(out, shift, torch.zeros_like(out)))
    if not bool(y.scale.any()):
        return transposed(
            activation_product(run, node, transposed(y), replace(transposed(x), rows_sum_to_one=False))
        )
    # Queries times keys.
    ours = run.one_per_channel(x.scale.transpose(1, 2).reshape(batch * inner, rows))
    theirs = run.one_per_channel(y.scale.reshape(batch * inner, columns))
    run.scale.tie(ours, theirs, sign=-1)
    run.shift.tied.fix(distinct(x.shift.numpy()))
    run.nulls.spoil(x.null)
    run.nulls.spoil(y.null)
    if _only_into_softmax(run, node):  # a shift common to all keys is common to a row of the softmax
        run.one_shift(y.shift.reshape(batch * inner, columns))
    else:
        run.shift.tied.fix(distinct(y.shift.numpy()))
    zeros = torch.zeros(node.shape, dtype=torch.int64)
    return Activation(zeros, zeros, zeros)


def _only_into_softmax(run: Interpreter, node: Node) -> bool:
    """Whether all that follows, up to constant factors and terms, is a softmax over the last axis."""
    seen, stack = set(), [node.index]
    while stack:
        index = stack.pop()
        if index == run.trace.output:
            return False
        last = run.trace.nodes[index].shape[-1]
        for user in run.consumers.get(index, []):
            if user in seen:
                continue
            seen.add(user)
            use = run.trace.nodes[user]
            if use.op in ("_softmax", "softmax", "_safe_softmax"):
                if int(use.arguments[1]) not in (-1, len(use.shape) - 1):
                    return False
            elif use.op in PASSES_TO_SOFTMAX and use.shape[-1:] == (last,):
                if use.op in ("mul", "div") and not _constant_factor(run, use, index):
                    return False
                stack.append(user)
            else:
                return False
    return True


def _constant_factor(run: Interpreter, use: Node, index: int) -> bool:
    """Multiplication by one number leaves a row's common shift common."""
    for argument in use.arguments[:2]:
        if isinstance(argument, Ref) and argument.index != index:
            if run.trace.nodes[argument.index].shape[-1:] not in ((), (1,)):
                return False
            if use.op == "div" and argument is use.arguments[0]:
                return False
    return True
