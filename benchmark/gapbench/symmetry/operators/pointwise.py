"""How labels pass through elementwise functions that commute with rescaling, and through the sign."""

from __future__ import annotations

from dataclasses import replace

import torch

from gapbench.computation.tracing import Node, Ref
from gapbench.symmetry.classes import distinct
from gapbench.symmetry.interpreter import Handler, Interpreter
from gapbench.symmetry.labels import Activation, ParameterView


def relu_like(run: Interpreter, node: Node) -> Activation:
    """f(e^s x) = e^s f(x) channel by channel; no shift passes."""
    x = run.first(node)
    for index in node.inputs[1:]:  # slopes of a PReLU keep their values
        slopes = run.values[index]
        if isinstance(slopes, ParameterView):
            run.weight_use(node, slopes.index)
    run.shift.tied.fix(distinct(x.shift.numpy()))
    run.nulls.spoil(x.null)
    out = run.fresh(x, diagonal=True)
    return replace(out, shift=torch.zeros_like(x.shift), null=torch.zeros_like(x.null))


def clamp(run: Interpreter, node: Node) -> Activation:
    """A ReLU where the bounds are 0 and none; otherwise nothing passes."""
    if _is_relu(node):
        return relu_like(run, node)
    return run.blocked(node, known=True)


def _is_relu(node: Node) -> bool:
    given = dict(node.keywords)
    low, high = [*node.arguments[1:3], None, None][:2]
    low, high = given.get("min", low), given.get("max", high)
    if node.op == "threshold":
        return bool(node.arguments[1] == 0 and node.arguments[2] == 0)
    return bool(low == 0) and not isinstance(low, Ref) and high is None


def negate(run: Interpreter, node: Node) -> Activation:
    """The same log scale, the opposite shift."""
    x = run.first(node)
    return replace(run.fresh(x), shift=run.shift_scaled(x.shift, -1.0))


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("relu", "leaky_relu", "abs", "prelu", "_prelu_kernel", "rrelu"), relu_like),
    **dict.fromkeys(("clamp", "clamp_min", "threshold"), clamp),
    "neg": negate,
}
