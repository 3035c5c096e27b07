"""A Lipschitz constant of a network, composed over its recorded computation, and its linear layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gapbench.computation.activations import POINTWISE, SLOPES, NoLipschitzConstant, slope, written_out
from gapbench.computation.layers import Layers
from gapbench.computation.linear_maps import LinearMap
from gapbench.computation.multiaffine import BATCH_NORM
from gapbench.computation.padding import FunctionalPadding
from gapbench.computation.replay import Replay, run, signed_factors
from gapbench.computation.tracing import FACTORIES, Node, Ref, Trace, plain_kernels, trace
from gapbench.computation.values import LINEAR, Stretches, Value
from gapbench.computation.windows import MAX_POOLS, window_counts

__all__ = ["SLOPES", "Composition", "NoLipschitzConstant", "compose"]

# Each result is a function of constant 1 of entries that no other result reads.
GROUPS = frozenset("amax amin max min logsumexp sort topk kthvalue median".split())
PRODUCTS = frozenset("addmm mm linear matmul bmm baddbmm mv addmv convolution _convolution".split())
# The first result counts; the others are indices or buffers.
ONE_RESULT = MAX_POOLS | GROUPS | {"log_sigmoid_forward", *BATCH_NORM}


@dataclass(frozen=True)
class Composition:
    """The layers of a network and the Lipschitz constant composed over its graph.

    `log_lipschitz` of input -> output in Euclidean norms, the `layers` in order of execution, `widest` the
    largest number of units of any layer or of the input, `chain`: whether no branches are added or concatenated.

    `obstacles`: why the theorem of Bartlett, Foster and Telgarsky (2017) does not cover the network; it is about
    chains of linear maps without shifts and of fixed nonlinearities that are 0 at 0.
    """

    log_lipschitz: float
    layers: tuple[LinearMap, ...]
    widest: int
    chain: bool
    obstacles: tuple[str, ...] = ()


@torch.no_grad()
def compose(network: nn.Module, example: Tensor, reference: nn.Module | None = None) -> Composition:
    """Walk through the computation of `network` (eval mode) on `example` (2, ...).

    Batch normalisation is folded into the linear map before it; where there is none it is a diagonal map. Padding
    and other selections of entries, fixed factors too, are folded into the linear map after them; other fixed
    linear operators between layers count with the norm of their composition, as nonlinearities do.
    Sums add Lipschitz constants, concatenations add their squares.

    Returns:
        The layers, with distances to those of `reference` (the same architecture), else to zero.

    Raises:
        NoLipschitzConstant: attention, products of activations, layer and group normalisation, and unknown
            operations.
    """
    with FunctionalPadding():
        recorded = trace(network, example)
    if recorded.opaque:
        raise NoLipschitzConstant("memory is aliased in a way that hides the data flow")
    if recorded.reads:
        raise NoLipschitzConstant("values are read as numbers: other inputs may take another branch")
    if not example.is_floating_point():
        raise NoLipschitzConstant("inputs that are whole numbers (token ids) have no distances")
    if len(example) > 1:
        _require_independent_examples(network, example)
    return _Walk(recorded, network, reference, example).run()


def _require_independent_examples(network: nn.Module, example: Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(example.shape, generator=generator, dtype=torch.float64).to(example)
    other = torch.cat([drawn[:1], 2.0 * drawn[1:].flip(-1)])
    with plain_kernels():
        first, second = network(drawn), network(other)
    if first.shape[:1] != example.shape[:1] or not torch.allclose(
        first[0], second[0], rtol=1e-3, atol=1e-5, equal_nan=True
    ):
        raise NoLipschitzConstant("the output depends on other examples of the batch, or on chance")


class _Walk:
    def __init__(self, recorded: Trace, network: nn.Module, reference: nn.Module | None, example: Tensor):
        self.trace, self.example = recorded, example
        self.replay = Replay(recorded, _leaves(network))
        other = None if reference is None else Replay(recorded, _leaves(reference))
        self.stretches = Stretches(recorded, self.replay, example.device)
        self.layers = Layers(recorded, self.replay, other, self.stretches, len(example))
        self.values: dict[int, Value | NoLipschitzConstant] = {}  # of nodes that depend on the input

    def run(self) -> Composition:
        for node in self.trace.reachable():
            if node.index == self.trace.input:
                self.values[node.index] = Value(node.index, node.index, node.index, 0.0)
            elif node.op not in FACTORIES and any(i in self.values for i in node.inputs):
                try:
                    self.values[node.index] = self._visit(node)
                except NoLipschitzConstant as reason:  # which a later node may still explain: x * sigmoid(x)
                    self.values[node.index] = self._formula(node) or reason
        output = self.values.get(self.trace.output)
        if output is None:
            raise NoLipschitzConstant("the output does not depend on the input")
        if isinstance(output, NoLipschitzConstant):
            raise output
        units = [math.prod(self.trace.nodes[self.trace.input].shape[1:])]
        layers = self.layers.found
        units += [max(layer.inputs, layer.outputs) for layer in layers]
        obstacles = output.obstacles
        chain = not any(o.startswith("branches") for o in obstacles)
        log = self.stretches.log(output)
        return Composition(log, tuple(layers), max(units), chain, tuple(sorted(obstacles)))

    def _visit(self, node: Node) -> Value:
        several = len({i for i in node.inputs if i in self.values}) > 1
        if several and (formula := self._formula(node)) is not None:
            return formula
        active = [self._value(i) for i in node.inputs if i in self.values]
        if node.output != 0 and node.op in ONE_RESULT:
            raise NoLipschitzConstant(f"the other results of {node.op} have no Lipschitz constant")
        if node.op in ("mul", "div", "true_divide"):
            self._require_one_factor(node)
            if self.layers.parametric(node):
                return self._new(node, self.layers.diagonal(node, active[0]), active)
        if node.op in LINEAR:
            return self._linear(node, active)
        if node.op in PRODUCTS:
            if len(active) > 1:
                raise NoLipschitzConstant(
                    "a product of two activations (attention) has no Lipschitz constant"
                )
            return self._new(node, self.layers.product(node, active[0]), active)
        if node.op in BATCH_NORM:
            return self._new(node, self.layers.batch_norm(node, active[0]), active)
        return self._nonlinear(node, active)

    def _formula(self, node: Node) -> Value | None:
        """The value of an activation that is written out, as x * sigmoid(x) is silu."""
        if node.op not in POINTWISE or node.op in SLOPES:
            return None
        found = written_out(self.trace, node, frozenset(self.values))
        origin = None if found is None else self.values[found[0]]
        if found is None or not isinstance(origin, Value):
            return None
        return self._new(node, self.stretches.log(origin) + math.log(found[1]), [origin], zero=True)

    def _value(self, index: int) -> Value:
        value = self.values[index]
        if isinstance(value, NoLipschitzConstant):
            raise value
        return value

    def _require_one_factor(self, node: Node) -> None:
        factors = [a for a in node.arguments if isinstance(a, Ref) and a.index in self.values]
        if len(factors) > 1 or (factors[0] != node.arguments[0] and node.op != "mul"):
            raise NoLipschitzConstant("a product of two activations has no global Lipschitz constant")
        if dict(node.keywords).get("rounding_mode") is not None:
            raise NoLipschitzConstant("a rounded quotient jumps: it has no Lipschitz constant")

    def _new(self, node: Node, log: float, sources: list[Value], zero: bool = False) -> Value:
        """A new root; `zero`: it is known to be 0 where its sources are."""
        obstacles = frozenset().union(*(s.obstacles for s in sources))
        if not zero and not self._zero_at_zero(node):
            obstacles |= {f"{self.layers.name(node)} is not 0 at 0"}
        return Value(node.index, node.index, node.index, log, obstacles=obstacles)

    def _zero_at_zero(self, node: Node) -> bool:
        values = {}
        for index in node.inputs:
            shape = self.trace.nodes[index].shape
            if index in self.values or self.trace.nodes[index].op in FACTORIES:
                values[index] = torch.zeros(shape, dtype=self.example.dtype, device=self.example.device)
            else:
                values[index] = self.replay.constant(index)
        return not bool(run(node, values).any())

    def _linear(self, node: Node, active: list[Value]) -> Value:
        kind = dict(node.keywords).get("dtype")
        if kind is not None and not kind.is_floating_point:
            raise NoLipschitzConstant(f"a conversion to {kind} jumps: it has no Lipschitz constant")
        if node.op == "where" and node.inputs[0] in self.values:
            raise NoLipschitzConstant("a condition on activations has no Lipschitz constant")
        if node.op in ("masked_fill", "index", "index_select", "gather", "take") and len(active) > 1:
            raise NoLipschitzConstant(
                f"{node.op} at places that depend on the input has no Lipschitz constant"
            )
        if len({value.key for value in active}) > 1:
            return self._join(node)
        first = active[0]
        path = tuple(sorted({i for value in active for i in value.path} | {node.index}))
        passed = frozenset().union(*(value.passed for value in active))
        obstacles = frozenset().union(*(value.obstacles for value in active))
        if node.op in _MAY_SHIFT and not self._zero_at_zero(node):
            obstacles |= {f"{self.layers.name(node)} is not 0 at 0"}
        return replace(first, index=node.index, path=path, passed=passed, obstacles=obstacles)

    def _join(self, node: Node) -> Value:
        """Of values with different roots: constants of summands add up, those of parts add their squares."""
        parts: list[float] = []
        sources: list[Value] = []
        if node.op in ("add", "sub", "rsub"):
            for argument, factor in zip(node.arguments, signed_factors(node)):
                if isinstance(argument, Ref) and argument.index in self.values:
                    sources.append(self._value(argument.index))
                    copies = math.prod(node.shape) / math.prod(self.trace.nodes[argument.index].shape)
                    parts.append(self.stretches.log(sources[-1]) + _log(abs(factor) * math.sqrt(copies)))
            log = _log_sum(parts)
        elif node.op in ("cat", "stack", "where", "maximum", "minimum"):
            for index in node.inputs:
                if index in self.values:
                    sources.append(self._value(index))
                    copies = max(1.0, math.prod(node.shape) / math.prod(self.trace.nodes[index].shape))
                    copies = 1.0 if node.op in ("cat", "stack") else copies
                    parts.append(self.stretches.log(sources[-1]) + 0.5 * math.log(copies))
            log = 0.5 * _log_sum([2.0 * part for part in parts])
        else:
            raise NoLipschitzConstant(f"{node.op} of several activations is not covered")
        value = self._new(node, log, sources)
        return replace(value, obstacles=value.obstacles | {f"branches meet in {node.op}"})

    def _nonlinear(self, node: Node, active: list[Value]) -> Value:
        op, first = node.op, active[0]
        if op in MAX_POOLS:
            return self._new(node, self._max_pool(node, first), active)
        if op in ("maximum", "minimum") or (op in ("max", "min") and len(node.inputs) > 1):
            if len(active) > 1:
                return self._join(replace(node, op="maximum"))
            value = self._pointwise(node, first, 1.0)
            if any(self.trace.made_of_parameters(i) for i in node.inputs if i not in self.values):
                value = replace(value, obstacles=value.obstacles | {f"the limits of {op} are learned"})
            return value
        if op in GROUPS:
            return self._new(node, self.stretches.log(first), active)
        if op in ("prelu", "_prelu_kernel"):
            if len(active) > 1 or node.inputs[0] not in self.values:
                raise NoLipschitzConstant("slopes that depend on the input")
            steepest = max(1.0, float(self.replay.double(node.inputs[1]).abs().max()))
            value = self._new(node, self.stretches.log(first) + math.log(steepest), active)
            return replace(value, obstacles=value.obstacles | {"the slopes of prelu are learned"})
        if op in ("norm", "linalg_vector_norm"):
            order = node.arguments[1] if len(node.arguments) > 1 else 2
            if not isinstance(order, int | float) or order < 2:
                raise NoLipschitzConstant(f"{op} of order {order} is not covered")
            return self._new(node, self.stretches.log(first), active)
        if "softmax" in op or "attention" in op:
            raise NoLipschitzConstant(f"{op}: attention has no global Lipschitz constant")
        if op in ("native_layer_norm", "native_group_norm", "_fused_rms_norm"):
            raise NoLipschitzConstant(f"{op}: its Lipschitz constant, 1 / sqrt(eps), makes the bound vacuous")
        constant = slope(node)
        if constant is None:
            raise NoLipschitzConstant(f"no Lipschitz constant is known for the operation {op}")
        if len(active) > 1 or node.inputs[0] not in self.values:
            raise NoLipschitzConstant(f"{op} with limits that depend on the input is not covered")
        value = self._pointwise(node, first, constant)
        if any(self.trace.made_of_parameters(i) for i in node.inputs if i not in self.values):
            value = replace(value, obstacles=value.obstacles | {f"the limits of {op} are learned"})
        return value

    def _pointwise(self, node: Node, value: Value, steepest: float) -> Value:
        """After a selection the operator may as well act before it, which gives layers that fold the selection."""
        zero = self._zero_at_zero(node)
        alike = sum(1 for a in node.arguments if isinstance(a, Ref)) == 1 or node.op == "rrelu_with_noise"
        if value.path and alike and node.shape == self.trace.nodes[value.index].shape:
            selection = None if self.stretches.bijective(value) else self.stretches.selection(value)
            if selection is not None and (zero or not selection.has_zeros):
                obstacles = value.obstacles if zero else value.obstacles | {f"{node.op} is not 0 at 0"}
                return Value(
                    node.index,
                    node.index,
                    value.root,
                    value.log_root + math.log(steepest),
                    (*value.path, node.index),
                    value.passed | {node.index},
                    obstacles,
                )
        return self._new(node, self.stretches.log(value) + math.log(steepest), [value])

    def _max_pool(self, node: Node, value: Value) -> float:
        """The root of how many windows one unit may be the largest of; copies of a unit count together."""
        shape = self.trace.nodes[value.index].shape
        counts = window_counts(node, shape)
        if not self.stretches.bijective(value):
            selection = self.stretches.selection(value)
            if selection is not None:
                each = counts.to(selection.index.device).broadcast_to(shape).flatten()
                total = each.new_zeros(selection.units + 1).index_add(0, selection.index.flatten(), each)
                return value.log_root + 0.5 * _log(float(total[1:].max()))
        return self.stretches.log(value) + 0.5 * _log(float(counts.max()))


_MAY_SHIFT = frozenset("add sub rsub constant_pad_nd masked_fill where cat stack".split())


def _leaves(network: nn.Module) -> dict[str, Tensor]:
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _log_sum(logs: list[float]) -> float:
    top = max(logs)
    return top if top == -math.inf else top + math.log(sum(math.exp(value - top) for value in logs))
