"""Runs a recorded computation on labels: which log-scale variable and which shift each element carries.

Gauge view: activations may be transformed by x -> exp(s) x + v channel by channel if every operation passes
the transformation on or a parameter absorbs it. Operators that allow less tie or fix the variables. What is
unknown fixes everything that touches it, so that the group found may be too small but never too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gapbench.computation.tracing import FACTORIES, Node, Ref, Trace
from gapbench.symmetry.classes import Ids, TiedVariables, distinct
from gapbench.symmetry.expressions import Expressions
from gapbench.symmetry.labels import Activation, Computed, Constant, ParameterView, Value, frozen
from gapbench.symmetry.null_labels import NullDirections
from gapbench.symmetry.structure import (
    Additive,
    BatchNormUse,
    Findings,
    LinearUse,
    Meeting,
    NormUse,
    ScaleUse,
    place,
)

RESHAPES = frozenset("view _unsafe_view reshape _reshape_alias unflatten flatten as_strided squeeze".split())
LITERAL = frozenset(
    "t transpose permute expand select slice unbind split split_with_sizes chunk unsqueeze cat stack flip roll "
    "narrow movedim swapaxes unfold pixel_shuffle pixel_unshuffle channel_shuffle index index_select gather "
    "diagonal unsafe_split unsafe_chunk repeat repeat_interleave".split()
)
SAME = frozenset("clone alias detach contiguous _to_copy to lift_fresh dropout native_dropout".split())
KNOWN_NONLINEAR = frozenset(
    "gelu silu mish tanh sigmoid hardsigmoid hardswish hardtanh relu6 elu celu softplus exp log clamp clamp_min "
    "clamp_max threshold hardshrink softshrink softsign erf sin cos pow rsqrt sqrt reciprocal logit".split()
)
PARAMETER_VIEWS = RESHAPES | LITERAL | SAME


Handler = Callable[["Interpreter", Node], Value]
"""How the labels of a node follow from those of its inputs."""


class Interpreter:
    """Runs `trace` on labels. `handlers` by ATen name; operators without one block what touches them."""

    def __init__(
        self,
        trace: Trace,
        handlers: Mapping[str, Handler],
        offsets: dict[str, tuple[int, torch.Size]],
        buffers: dict[str, Tensor],
        theta: np.ndarray,
        logit_shift: bool,
    ):
        self.trace, self.handlers = trace, handlers
        self.offsets, self.buffers, self.theta = offsets, buffers, theta
        self.logit_shift = logit_shift
        self.found = Findings()
        self.scale = TiedVariables()
        self.shift = Expressions()
        self.nulls = NullDirections(self.found.spoiled)
        self.values: dict[int, Value] = {}
        self.used = np.zeros(len(theta), np.int32)  # node + 1 that uses a parameter as a weight
        self.shared: set[int] = set()
        self.as_activation = np.zeros(len(theta), np.int64)
        self.as_shift = np.zeros(len(theta), np.int64)
        self.root_mean_squares: dict[int, int] = {}  # final node of a decomposed normalisation -> its input
        self.consumers = trace.consumers()
        self.names: list[tuple[int, int, str]] = sorted(
            (start, start + math.prod(shape), name) for name, (start, shape) in offsets.items()
        )

    # ---- driving -------------------------------------------------------------------------------------------

    def run(self) -> Findings:
        """Label every value that the output depends on, in order."""
        for node in self.trace.reachable():
            self.values[node.index] = self._visit(node)
            if node.index in self.trace.reads:
                self._read(node)
            for index in set(node.inputs):
                if self.consumers[index][-1] == node.index and isinstance(self.values[index], ParameterView):
                    del self.values[index]  # as large as the parameter, and asked for no more
        output = self.values[self.trace.output]
        if isinstance(output, Activation):
            self._output(output)
        self._shared_parameters()
        return self.found

    def _read(self, node: Node) -> None:
        """A value that is read as a number must not change: what follows may branch on it."""
        self.note("values read as numbers")
        value = self.values[node.index]
        if isinstance(value, Activation):
            self.freeze(value)
        elif isinstance(value, ParameterView):
            self.weight_use(node, value.index)
        elif isinstance(value, Computed):
            self.weight_use(node, value.owners)

    def _visit(self, node: Node) -> Value:
        if node.index == self.trace.input:
            return frozen(node.shape)
        if node.kind == "parameter":
            start, shape = self.offsets[node.name]
            return ParameterView(torch.arange(start, start + math.prod(shape)).reshape(shape))
        if node.kind == "buffer":
            return Constant(self.buffers[node.name])
        if node.kind != "op":
            return Constant(None)
        if node.op in FACTORIES:
            return Constant(None)
        kinds = [self.values[i] for i in node.inputs]
        if any(isinstance(k, Activation) for k in kinds):
            return self._active(node)
        if any(isinstance(k, ParameterView | Computed) for k in kinds):
            return self._parametric(node)
        return Constant(None if node.index in self.trace.volatile else self._constant(node))

    def _constant(self, node: Node) -> Tensor | None:
        for index in node.inputs:
            value = self.values[index]
            assert isinstance(value, Constant)  # anything else was met before
            if value.value is None:
                return None
        try:
            return self._literal(node, lambda v: v.value)
        except (RuntimeError, IndexError, TypeError):
            return None

    def _literal(self, node: Node, read: Callable[[Any], Tensor]) -> Tensor:
        def value(argument: Any) -> Any:
            if isinstance(argument, Ref):
                found = self.values[argument.index]
                return found.value if isinstance(found, Constant) else read(found)
            if isinstance(argument, tuple):
                return [value(a) for a in argument]
            return argument

        if node.op in (*RESHAPES, *SAME):
            first: Tensor = value(node.arguments[0])
            return first.reshape(node.shape) if node.op in RESHAPES else first
        result = node.function(*map(value, node.arguments), **{k: value(v) for k, v in node.keywords})
        flat = [result] if isinstance(result, Tensor) else [v for v in result if isinstance(v, Tensor)]
        return flat[node.output]

    def _parametric(self, node: Node) -> Value:
        values = [self.values[i] for i in node.inputs]
        if node.op in PARAMETER_VIEWS and all(isinstance(v, ParameterView | Constant) for v in values):
            try:
                return ParameterView(self._literal(node, lambda v: v.index))
            except (RuntimeError, IndexError, TypeError, AttributeError):
                pass
        owners = [v.index.reshape(-1) for v in values if isinstance(v, ParameterView)]
        owners += [v.owners for v in values if isinstance(v, Computed)]
        return Computed(torch.unique(torch.cat(owners)))

    # ---- activations ---------------------------------------------------------------------------------------

    def _active(self, node: Node) -> Value:
        op = node.op
        if op in SAME:
            return self.first(node)
        if op in RESHAPES or op in LITERAL:
            return self._rearranged(node)
        handler = self.handlers.get(op)
        if handler is not None:
            return handler(self, node)
        return self.blocked(node, known=op in KNOWN_NONLINEAR)

    def first(self, node: Node) -> Activation:
        """Labels of the first argument."""
        value = self.values[node.arguments[0].index]
        return value if isinstance(value, Activation) else self.labels(value, node)

    def labels(self, value: Value, node: Node) -> Activation:
        """Labels of anything used as an activation: parameters get variables of their own."""
        if isinstance(value, Activation):
            return value
        if isinstance(value, ParameterView):
            index = value.index
            flat = distinct(index.numpy())
            flat = flat[flat >= 0]
            fresh = flat[self.as_activation[flat] == 0]
            self.as_activation[fresh] = self.scale.new(len(fresh))
            self.as_shift[fresh] = self.shift.new(len(fresh))
            if len(fresh):
                self.found.additive.append(
                    Additive(
                        self.name(fresh), fresh, self.as_activation[fresh].copy(), self.as_shift[fresh].copy()
                    )
                )
            zero = index < 0
            scale = torch.from_numpy(self.as_activation)[index.clamp_min(0)].masked_fill(zero, 0)
            shift = torch.from_numpy(self.as_shift)[index.clamp_min(0)].masked_fill(zero, 0)
            return Activation(scale, shift, torch.zeros_like(scale))
        if isinstance(value, Computed):
            self.note(f"parameters computed before {node.op}")
            self.weight_use(node, value.owners)
            return frozen((1,))
        return frozen(() if value.value is None else tuple(value.value.shape))

    def _rearranged(self, node: Node) -> Value:
        values = [self.values[i] for i in node.inputs]
        if any(isinstance(v, Computed) for v in values) or (
            node.op == "as_strided" and not _only_squeezes(self.trace.nodes[node.inputs[0]].shape, node.shape)
        ):
            return self.blocked(node)
        labels = {id(v): self.labels(v, node) for v in values if isinstance(v, Activation | ParameterView)}
        if node.op in ("cat", "stack"):
            shapes = {i: self.trace.nodes[i].shape for i in node.inputs}
            for i, v in zip(node.inputs, values):
                if isinstance(v, Constant):  # a constant may not be rescaled or shifted
                    self.values[i] = v = frozen(shapes[i])
                labels[id(v)] = self.labels(v, node)
        try:
            scale = self._literal(node, lambda v: labels[id(v)].scale)
            shift = self._literal(node, lambda v: labels[id(v)].shift)
            null = self._literal(node, lambda v: labels[id(v)].null)
        except (RuntimeError, IndexError, TypeError, KeyError):
            return self.blocked(node)
        first = values[0]
        keeps = (
            isinstance(first, Activation)
            and first.rows_sum_to_one
            and node.op in (*RESHAPES, "expand", "unsqueeze")
            and node.shape[-1] == self.trace.nodes[node.inputs[0]].shape[-1]
        )
        return Activation(scale, shift, null, rows_sum_to_one=keeps)

    # ---- bookkeeping ---------------------------------------------------------------------------------------

    def name(self, parameters: Ids) -> str:
        """The name of the tensor that the first of these positions belongs to."""
        if not len(parameters):
            return ""
        position = int(parameters.reshape(-1)[0])
        return next(name for start, stop, name in self.names if start <= position < stop)

    def note(self, what: str) -> None:
        """Count something that was not understood."""
        self.found.uncovered[what] = self.found.uncovered.get(what, 0) + 1

    def meet(self, role: tuple[object, ...], variables: Tensor | Ids) -> None:
        """Record that an operation in this role met these variables."""
        array = variables.numpy() if isinstance(variables, Tensor) else variables
        found = distinct(array)
        self.found.meetings.append(Meeting(role, found[found != 0]))

    def freeze(self, x: Activation) -> None:
        """Nothing may change here."""
        self.scale.fix(distinct(x.scale.numpy()))
        self.shift.tied.fix(distinct(x.shift.numpy()))
        self.nulls.spoil(x.null)

    def blocked(self, node: Node, known: bool = False) -> Activation:
        """An operation through which nothing passes; noted as not understood unless `known`."""
        for index in node.inputs:
            value = self.values[index]
            if isinstance(value, Activation):
                self.freeze(value)
            elif isinstance(value, ParameterView):
                self.weight_use(node, value.index)
            elif isinstance(value, Computed):
                self.weight_use(node, value.owners)
        if not known:
            self.note(node.op)
        return frozen(node.shape)

    def fresh(self, x: Activation, diagonal: bool = False) -> Activation:
        """The same transformation under new names, so that a variable's name tells where it was made."""
        old = distinct(x.scale.numpy())
        old = old[old != 0]
        new = self.scale.new(len(old))
        self.scale.tie(new, old)
        if diagonal:
            self.found.diagonal.append(old)
        table = np.zeros(self.scale.count, np.int64)
        table[old] = new
        return replace(x, scale=torch.from_numpy(table)[x.scale], rows_sum_to_one=False)

    def shift_scaled(self, shift: Tensor, factor: float) -> Tensor:
        """factor * shift, elementwise."""
        return torch.from_numpy(self.shift.scale(shift.numpy(), factor))

    def weight_use(self, node: Node, index: Tensor | slice) -> None:
        """Note that parameters at these positions are used as weights; used twice they can absorb nothing."""
        flat: Ids | slice = index if isinstance(index, slice) else place(index.numpy())
        if not isinstance(flat, slice):
            flat = flat[flat >= 0]
        before = self.used[flat]
        before = before[before != 0] if before.any() else before[:0]
        for other in distinct(before[before != node.index + 1].astype(np.int64)):
            self.shared |= {int(other) - 1, node.index}
        self.used[flat] = node.index + 1

    def one_per_channel(self, labels: Tensor) -> Ids:
        """(c, m) labels -> one for each c, all others tied to it."""
        first = labels[:, 0].numpy().copy()
        self.scale.tie(labels.numpy(), first[:, None])
        return first

    def one_shift(self, labels: Tensor) -> Ids:
        """(c, m) shifts -> one for each c, all others tied to it."""
        first = labels[:, 0].numpy().copy()
        self.shift.tied.tie(labels.numpy(), first[:, None])
        return first

    def _shared_parameters(self) -> None:
        acting = [a.parameters for a in self.found.additive]
        both = np.concatenate([*acting, np.zeros(0, np.int64)])
        both = distinct(both[self.used[both] > 0])
        self.shared |= {int(i) - 1 for i in distinct(self.used[both].astype(np.int64))}
        self.scale.fix(self.as_activation[both])
        self.shift.tied.fix(self.as_shift[both])
        for index in self.shared:
            self.note(f"parameter shared by several operations ({self.trace.nodes[index].op})")
        shared = self.shared
        uses: list[LinearUse | ScaleUse | BatchNormUse | NormUse] = [
            *self.found.linear, *self.found.scales, *self.found.batch_norms, *self.found.norms
        ]  # fmt: skip
        for use in uses:
            if use.node in shared:
                self.scale.fix(use.writes.reshape(-1))
                if not isinstance(use, NormUse):
                    self.scale.fix(use.reads.reshape(-1))
                for name in ("shift_in", "shift_out"):
                    if hasattr(use, name):
                        self.shift.tied.fix(getattr(use, name).reshape(-1))
                self.found.spoiled.add(use.node)
        self.found.linear = [u for u in self.found.linear if u.node not in shared]
        self.found.scales = [u for u in self.found.scales if u.node not in shared]
        self.found.batch_norms = [u for u in self.found.batch_norms if u.node not in shared]
        norms = []
        for norm in self.found.norms:
            if norm.node in shared:
                self.scale.fix(distinct(norm.sets))
            else:
                norms.append(norm)
        self.found.norms = norms

    def _output(self, x: Activation) -> None:
        if self.logit_shift and x.scale.dim() == 2 and x.scale.shape[1] > 1:
            self.scale.fix(distinct(x.scale.numpy()))
            self.one_shift(x.shift)
            self.nulls.over_sets(x.null)
            self.found.logits = x.scale[0].numpy().copy()
        else:
            self.freeze(x)


def _only_squeezes(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    return [n for n in before if n != 1] == [n for n in after if n != 1]
