"""Root-mean-square normalisation written out: x * rsqrt(mean(x^2) + eps) from its single operations."""

from __future__ import annotations

import numpy as np
import torch

from gapbench.computation.tracing import Node, Ref
from gapbench.symmetry.classes import distinct
from gapbench.symmetry.interpreter import Handler, Interpreter
from gapbench.symmetry.labels import Activation, frozen
from gapbench.symmetry.structure import NormUse


def square(run: Interpreter, node: Node) -> Activation:
    """The first step of x / sqrt(mean(x^2) + eps), if that is what follows; otherwise unknown."""
    exponent = node.arguments[1] if len(node.arguments) > 1 else None
    final = _normalisation_after(run, node) if exponent == 2 else None
    if final is None:
        return run.blocked(node, known=True)
    run.root_mean_squares[final] = node.arguments[0].index
    return frozen(node.shape)


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
    assert isinstance(x, Activation)
    small = next(
        run.trace.nodes[a.index].shape for a in node.arguments[:2] if isinstance(a, Ref) and a.index != source
    )
    count = int(np.prod([n for n, m in zip(node.shape, small) if m == 1 and n > 1]))
    trailing = int(np.prod(node.shape[len(node.shape) - 1 :]))
    if count != trailing:  # not over the last axis
        run.freeze(x)
        return frozen(node.shape)
    scale = x.scale.reshape(-1, count)
    run.meet(("norm", node.index), scale)
    run.found.norm_only.append(distinct(scale.numpy()))
    run.shift.tied.fix(distinct(x.shift.numpy()))
    run.nulls.spoil(x.null)
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


HANDLERS: dict[str, Handler] = {"pow": square}
