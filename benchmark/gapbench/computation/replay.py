"""Parts of a recorded computation, run again: values without the input, and linear operators in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from gapbench.computation.activations import NoLipschitzConstant
from gapbench.computation.tracing import FACTORIES, Node, Ref, Trace

IDENTITIES = frozenset("alias detach clone contiguous lift_fresh _to_copy to".split())
VIEWS = frozenset(
    "view _unsafe_view _reshape_alias reshape view_copy _reshape_copy flatten unflatten".split()
)


class Replay:
    """The values of a trace that do not depend on its input, from given parameters and buffers."""

    def __init__(self, trace: Trace, leaves: Mapping[str, Tensor]):
        self.trace, self.leaves = trace, leaves
        self.known: dict[int, Tensor] = {}

    def constant(self, index: int) -> Tensor:
        """The value at `index`, in its own dtype. Raises `NoLipschitzConstant` where it is not a fixed number."""
        if index not in self.known:
            self.known[index] = self._compute(self.trace.nodes[index])
        return self.known[index]

    def double(self, index: int) -> Tensor:
        """A constant in float64."""
        return self.constant(index).detach().double()

    def _compute(self, node: Node) -> Tensor:
        if node.kind in ("parameter", "buffer"):
            if node.name not in self.leaves:
                raise NoLipschitzConstant(f"the reference network has no {node.name}")
            return self.leaves[node.name].detach()
        if node.kind == "constant":
            if node.index not in self.trace.constants or node.index in self.trace.volatile:
                raise NoLipschitzConstant("a factor that is neither parameter nor buffer nor a fixed number")
            return self.trace.constants[node.index]
        if node.kind == "input":
            raise NoLipschitzConstant("a factor that depends on the input")
        if torch.Tag.nondeterministic_seeded in node.function.tags:
            raise NoLipschitzConstant(f"{node.op} draws random numbers")
        if node.op.startswith(("empty", "new_empty")):
            raise NoLipschitzConstant("a factor that was never written")
        return run(node, {i: self._operand(node, i) for i in node.inputs})

    def _operand(self, node: Node, index: int) -> Tensor:
        if node.op in FACTORIES:  # which read the shape alone
            floating = (v for v in self.leaves.values() if v.is_floating_point())
            first = next(floating, torch.zeros(()))
            return torch.zeros(self.trace.nodes[index].shape, dtype=first.dtype, device=first.device)
        return self.constant(index)


def run(node: Node, values: Mapping[int, Tensor]) -> Tensor:
    """Run one recorded operator on other values of its tensor arguments; none of them is written to."""

    def value(item: Any) -> Any:
        if isinstance(item, Ref):
            return values[item.index]
        return [value(i) for i in item] if isinstance(item, tuple) else item

    arguments = [value(a) for a in node.arguments]
    if node.function._schema.is_mutable and isinstance(arguments[0], Tensor):
        arguments[0] = arguments[0].clone()
    result = node.function(*arguments, **{key: value(v) for key, v in node.keywords})
    found = [v for v in tree_flatten(result)[0] if isinstance(v, Tensor)][node.output]
    assert isinstance(found, Tensor)
    return found


def run_linear(node: Node, values: Mapping[int, Tensor], replay: Replay) -> Tensor:
    """The linear part, in float64, of an operator that is affine in `values`; all else is constant.

    A shift by a constant is left out, a factor is kept; conversions of type and `detach` do nothing.

    Returns:
        The result, of the node's shape.
    """
    op = node.op
    if op in IDENTITIES:
        return next(values[i] for i in node.inputs if i in values)
    if op in ("add", "sub", "rsub"):
        return _sum(node, values)
    if op in VIEWS:  # of memory that may lie otherwise here
        return values[node.inputs[0]].reshape(node.shape)
    if op == "constant_pad_nd":
        return torch.constant_pad_nd(values[node.inputs[0]], list(node.arguments[1]), 0.0)
    if op == "masked_fill":
        return values[node.inputs[0]].masked_fill(replay.constant(node.inputs[1]), 0.0)
    operands = {}
    for index in node.inputs:
        if index in values:
            operands[index] = values[index]
        else:
            constant = replay.constant(index)
            operands[index] = constant.double() if constant.is_floating_point() else constant
    if op in ("where", "cat", "stack"):  # parts that are constant are shifts
        condition = node.inputs[0] if op == "where" else None
        for index in set(node.inputs) - set(values) - {condition}:
            operands[index] = torch.zeros_like(operands[index])
    if any(key == "dtype" for key, _ in node.keywords):
        kept = tuple((key, v) for key, v in node.keywords if key != "dtype")
        node = Node(**{**vars(node), "keywords": kept})
    return run(node, operands)


def _sum(node: Node, values: Mapping[int, Tensor]) -> Tensor:
    total: Tensor | None = None
    for argument, factor in zip(node.arguments[:2], signed_factors(node)):
        if isinstance(argument, Ref) and argument.index in values:
            term = factor * values[argument.index].expand(node.shape)
            total = term if total is None else total + term
    assert total is not None
    return total


def signed_factors(node: Node) -> tuple[float, float]:
    """(a, b) of an `add`, `sub` or `rsub` node: a first + b second."""
    alpha = dict(node.keywords).get("alpha", node.arguments[2] if len(node.arguments) > 2 else 1)
    return {"add": (1.0, alpha), "sub": (1.0, -alpha), "rsub": (-alpha, 1.0)}[node.op]
