"""A Lipschitz constant of a network, composed over its recorded computation, and its linear layers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gapbench.curvature.linear_maps import (
    LinearMap,
    convolution_map,
    dense_map,
    diagonal_map,
    operator_norm,
)
from gapbench.curvature.multiaffine import BATCH_NORM, batch_norm_trains
from gapbench.curvature.tracing import Node, Ref, Trace, evaluate, trace

# Largest slopes of pointwise nonlinearities; those of smooth ones are maxima of the derivative.
SLOPES = {
    "relu": 1.0,
    "relu6": 1.0,
    "hardtanh": 1.0,
    "clamp": 1.0,
    "clamp_min": 1.0,
    "clamp_max": 1.0,
    "abs": 1.0,
    "tanh": 1.0,
    "celu": 1.0,
    "softplus": 1.0,
    "sigmoid": 0.25,
    "hardsigmoid": 1.0 / 6.0,
    "gelu": 1.1289042,
    "silu": 1.0998394,
    "hardswish": 1.5,
    "mish": 1.0885,
}
SAME = frozenset(
    "view _unsafe_view reshape _reshape_alias t transpose permute clone alias detach select slice unbind split "
    "split_with_sizes chunk unsqueeze squeeze constant_pad_nd flip roll contiguous _to_copy narrow flatten".split()
)
FIXED = frozenset(
    "mean sum avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d expand upsample_nearest2d "
    "upsample_bilinear2d".split()
)
MULTIPLICATIONS = frozenset("addmm mm linear matmul bmm".split())


class NoLipschitzConstant(ValueError):
    """The network has an operation without a useful global Lipschitz constant; the message names it."""


@dataclass(frozen=True)
class Composition:
    """`log_lipschitz` of input -> output in Euclidean norms, the `layers` in order of execution, `widest` the
    largest number of units of any layer or of the input, and whether the network is a plain chain."""

    log_lipschitz: float
    layers: tuple[LinearMap, ...]
    widest: int
    chain: bool


@torch.no_grad()
def compose(model: nn.Module, example: Tensor, reference: nn.Module | None = None) -> Composition:
    """Walk through the computation of `model` (eval mode) on `example` (2, ...).

    Batch normalisation is folded into the linear map before it; where there is none it is a diagonal map.
    Sums add Lipschitz constants, concatenations add their squares. Distances to the layers of `reference`
    (the same architecture), else to zero. Raises `NoLipschitzConstant` for attention, products of
    activations, layer and group normalisation, and unknown operations.
    """
    recorded = trace(model, example)
    if recorded.opaque:
        raise NoLipschitzConstant("memory is aliased in a way that hides the data flow")
    return _Walk(recorded, model, reference, len(example)).run()


class _Walk:
    def __init__(self, recorded: Trace, model: nn.Module, reference: nn.Module | None, batch: int):
        self.trace, self.batch = recorded, batch
        self.leaves = _leaves(model)
        self.reference = None if reference is None else _leaves(reference)
        self.consumers = recorded.consumers()
        self.log: dict[int, float] = {}  # of values that depend on the input
        self.folded: dict[int, int] = {}  # batch normalisation node -> linear node it went into
        self.layers: list[LinearMap] = []
        self.chain = True

    def run(self) -> Composition:
        for node in self.trace.reachable():
            if node.index == self.trace.input:
                self.log[node.index] = 0.0
            elif node.kind == "op" and any(i in self.log for i in node.inputs):
                self.log[node.index] = self._visit(node)
        if self.trace.output not in self.log:
            raise NoLipschitzConstant("the output does not depend on the input")
        units = [math.prod(self.trace.nodes[self.trace.input].shape[1:])]
        units += [max(layer.inputs, layer.outputs) for layer in self.layers]
        return Composition(self.log[self.trace.output], tuple(self.layers), max(units), self.chain)

    def _visit(self, node: Node) -> float:
        active = [i for i in node.inputs if i in self.log]
        logs = [self.log[i] for i in active]
        first = logs[0]
        op = node.op
        if op in SAME:
            return first
        if op in SLOPES:
            return first + math.log(SLOPES[op])
        if op == "elu":
            given = [float(a) for a in node.arguments[1:4]]
            alpha, scale, input_scale = given + [1.0] * (3 - len(given))
            return first + math.log(abs(scale) * max(1.0, abs(alpha * input_scale)))
        if op == "threshold" and node.arguments[1] == node.arguments[2]:
            return first
        if op == "leaky_relu":
            slope = node.arguments[1] if len(node.arguments) > 1 else 0.01
            return first + math.log(max(1.0, abs(slope)))
        if op in ("_prelu_kernel", "prelu"):
            slopes = self._value(node.arguments[1])
            return first + math.log(max(1.0, float(slopes.abs().max())))
        if op in ("add", "sub", "rsub"):
            return self._sum(node)
        if op == "cat":
            if len(active) > 1:
                self.chain = False
            return 0.5 * _log_sum([2.0 * value for value in logs])
        if op in ("mul", "div"):
            return self._scale(node, active)
        if op in MULTIPLICATIONS:
            return self._dense(node, active)
        if op in ("convolution", "_convolution"):
            return self._convolution(node, active)
        if op in BATCH_NORM:
            return self._batch_norm(node, active)
        if op in ("max_pool2d_with_indices", "max_pool2d"):
            return first + 0.5 * math.log(_pool_overlap(node))
        if op in FIXED:
            return first + self._fixed(node, active[0])
        if "softmax" in op or "attention" in op:
            raise NoLipschitzConstant("attention has no global Lipschitz constant")
        if op in ("native_layer_norm", "native_group_norm", "_fused_rms_norm"):
            raise NoLipschitzConstant(f"{op}: its Lipschitz constant, 1 / sqrt(eps), makes the bound vacuous")
        raise NoLipschitzConstant(f"no Lipschitz constant is known for the operation {op}")

    def _sum(self, node: Node) -> float:
        terms = []
        alpha = dict(node.keywords).get("alpha", 1)
        for position, argument in enumerate(node.arguments[:2]):
            if isinstance(argument, Ref) and argument.index in self.log:
                scaled = position == (0 if node.op == "rsub" else 1)
                terms.append(self.log[argument.index] + (math.log(abs(alpha)) if scaled else 0.0))
        if len(terms) > 1:
            self.chain = False
        return _log_sum(terms)

    def _scale(self, node: Node, active: list[int]) -> float:
        if len(active) > 1 or (node.op == "div" and isinstance(node.arguments[1], Ref)):
            raise NoLipschitzConstant("a product of two activations has no global Lipschitz constant")
        other = next(a for a in node.arguments if not (isinstance(a, Ref) and a.index in self.log))
        log = self.log[active[0]]
        if not isinstance(other, Ref):
            factor = abs(float(other))
            return log + math.log(factor if node.op == "mul" else 1.0 / factor)
        shape = (1, *self.trace.nodes[node.index].shape[1:])
        diagonal = self._value(other)
        if not self._parametric(other.index):
            return log + _log(float(diagonal.abs().max()))
        return self._add(diagonal_map(self._name(other.index), diagonal, self._reference(other), shape), log)

    def _dense(self, node: Node, active: list[int]) -> float:
        if len(active) > 1:
            raise NoLipschitzConstant("a product of two activations (attention) has no Lipschitz constant")
        factors = node.arguments[1:3] if node.op == "addmm" else node.arguments[:2]
        left, right = factors
        if dict(node.keywords).get("alpha", 1) != 1:
            raise NoLipschitzConstant(f"{node.op} with a factor alpha is not covered")
        if left.index not in self.log or len(self.trace.nodes[right.index].shape) != 2:
            raise NoLipschitzConstant(f"{node.op} with the activation on this side is not covered")
        weight, reference = self._value(right), self._reference(right)
        if node.op != "linear":  # x @ w: the map is w'
            weight, reference = weight.T, None if reference is None else reference.T
        scale, reference_scale = self._fold(node)
        positions = math.prod(node.shape[:-1]) // self.batch
        layer = dense_map(
            self._name(right.index),
            _scaled(weight, scale),
            None if reference is None else _scaled(reference, reference_scale),
            positions,
        )
        return self._add(layer, self.log[active[0]])

    def _convolution(self, node: Node, active: list[int]) -> float:
        if len(active) > 1:
            raise NoLipschitzConstant("a convolution of two activations has no Lipschitz constant")
        inputs, weight_ref, _, *rest = node.arguments

        def convolve(x: Tensor, weight: Tensor) -> Tensor:
            result = torch.ops.aten.convolution(x, weight, None, *rest[:6])
            assert isinstance(result, Tensor)
            return result

        transposed, groups = bool(rest[3]), int(rest[5])
        weight, reference = self._value(weight_ref), self._reference(weight_ref)
        scale, reference_scale = self._fold(node)
        if transposed and groups == 1:
            weight = _scaled(weight.transpose(0, 1), scale).transpose(0, 1)
            if reference is not None:
                reference = _scaled(reference.transpose(0, 1), reference_scale).transpose(0, 1)
        elif transposed and scale is not None:
            raise NoLipschitzConstant("batch normalisation after a grouped transposed convolution")
        else:
            weight = _scaled(weight, scale)
            reference = None if reference is None else _scaled(reference, reference_scale)
        shape = (1, *self.trace.nodes[inputs.index].shape[1:])
        layer = convolution_map(self._name(weight_ref.index), convolve, weight, reference, shape)
        return self._add(layer, self.log[active[0]])

    def _batch_norm(self, node: Node, active: list[int]) -> float:
        if batch_norm_trains(node):
            raise NoLipschitzConstant("batch normalisation with the statistics of the batch")
        log = self.log[active[0]]
        if node.index in self.folded:
            return log
        shape = (1, *node.shape[1:])
        view = (1, -1, *[1] * (len(node.shape) - 2))
        scale = self._batch_norm_scale(node, self.leaves).reshape(view)
        reference = (
            None if self.reference is None else self._batch_norm_scale(node, self.reference).reshape(view)
        )
        weight = node.arguments[1]
        name = self._name(weight.index) if isinstance(weight, Ref) else f"batch_norm_{node.index}"
        return self._add(diagonal_map(name, scale, reference, shape), log)

    def _batch_norm_scale(self, node: Node, leaves: dict[str, Tensor]) -> Tensor:
        weight, variance = node.arguments[1], node.arguments[4]
        # The last float among the arguments is eps in every variant of the operator.
        eps = [a for a in node.arguments if isinstance(a, float)][-1]
        scale = torch.rsqrt(evaluate(self.trace, variance.index, leaves).double() + eps)
        return scale if weight is None else scale * evaluate(self.trace, weight.index, leaves).double()

    def _fold(self, node: Node) -> tuple[Tensor | None, Tensor | None]:
        """Scale of the batch normalisation that alone reads this linear node, in model and reference."""
        users = self.consumers.get(node.index, [])
        if len(users) != 1:
            return None, None
        user = self.trace.nodes[users[0]]
        if user.op not in BATCH_NORM or batch_norm_trains(user) or user.output != 0:
            return None, None
        self.folded[user.index] = node.index
        reference = None if self.reference is None else self._batch_norm_scale(user, self.reference)
        return self._batch_norm_scale(user, self.leaves), reference

    def _fixed(self, node: Node, source: int) -> float:
        shape = (1, *self.trace.nodes[source].shape[1:])

        def apply(x: Tensor) -> Tensor:
            arguments = [
                _one_example(x if isinstance(a, Ref) else a, node, self.batch) for a in node.arguments
            ]
            result = node.function(*arguments, **dict(node.keywords))
            assert isinstance(result, Tensor)
            return result

        like = next(iter(self.leaves.values()))
        return _log(operator_norm(apply, shape, like))

    def _add(self, layer: LinearMap, log: float) -> float:
        self.layers.append(layer)
        return log + _log(layer.sigma)

    def _value(self, argument: Any) -> Tensor:
        try:
            return evaluate(self.trace, argument.index, self.leaves).detach()
        except KeyError:
            raise NoLipschitzConstant("a factor that is neither parameter nor buffer") from None

    def _reference(self, argument: Any) -> Tensor | None:
        if self.reference is None:
            return None
        return evaluate(self.trace, argument.index, self.reference).detach()

    def _parametric(self, index: int) -> bool:
        node = self.trace.nodes[index]
        return node.kind == "parameter" or any(self._parametric(i) for i in node.inputs)

    def _name(self, index: int) -> str:
        node = self.trace.nodes[index]
        if node.kind != "op":
            return node.name
        return next((self._name(i) for i in node.inputs if self._parametric(i)), node.op)


def _leaves(model: nn.Module) -> dict[str, Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _scaled(weight: Tensor, scale: Tensor | None) -> Tensor:
    weight = weight.double()
    return weight if scale is None else weight * scale.reshape(-1, *[1] * (weight.dim() - 1))


def _one_example(argument: Any, node: Node, batch: int) -> Any:
    """Sizes given to `expand` name the batch that was recorded; here there is one example."""
    if node.op == "expand" and isinstance(argument, tuple):
        return [1 if i == 0 and size == batch else size for i, size in enumerate(argument)]
    return list(argument) if isinstance(argument, tuple) else argument


def _pool_overlap(node: Node) -> int:
    """How many windows one unit may be the maximum of; 1 for pooling without overlap."""
    kernel = node.arguments[1]
    stride = node.arguments[2] if len(node.arguments) > 2 and node.arguments[2] else kernel
    return math.prod(-(-k // s) for k, s in zip(kernel, stride))


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _log_sum(logs: list[float]) -> float:
    top = max(logs)
    return top if top == -math.inf else top + math.log(sum(math.exp(value - top) for value in logs))
