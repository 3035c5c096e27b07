"""The layers with parameters on the way through a network, with batch normalisation and padding folded in."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from gapbench.computation.activations import NoLipschitzConstant
from gapbench.computation.linear_maps import (
    Before,
    LinearMap,
    bilinear_map,
    dense_map,
    diagonal_map,
    merged_columns,
    rows_after_selection,
)
from gapbench.computation.multiaffine import BATCH_NORM, batch_norm_trains
from gapbench.computation.replay import Replay, run
from gapbench.computation.selections import fold_dense, spatial_plane
from gapbench.computation.tracing import FACTORIES, Node, Ref, Trace
from gapbench.computation.values import Stretches, Value

ADDED_FIRST = frozenset("addmm baddbmm addmv".split())


class Layers:
    """Makes the `LinearMap` of each layer as it is met; each method returns the constant's logarithm after it."""

    def __init__(
        self, trace: Trace, replay: Replay, reference: Replay | None, stretches: Stretches, examples: int
    ):
        self.trace, self.replay, self.reference = trace, replay, reference
        self.stretches, self.examples = stretches, examples
        self.consumers = trace.consumers()
        self.dependent = {trace.input}
        for node in trace.nodes:
            if node.op not in FACTORIES and any(i in self.dependent for i in node.inputs):
                self.dependent.add(node.index)
        self.folded: set[int] = set()  # batch normalisations that went into the layer before them
        self.found: list[LinearMap] = []

    def product(self, node: Node, value: Value) -> float:
        """The logarithm of the Lipschitz constant up to and including a product of an activation and a weight."""
        if node.op in ("convolution", "_convolution"):
            return self._convolution(node, value)
        first = 1 if node.op in ADDED_FIRST else 0
        left, right = node.arguments[first : first + 2]
        if not isinstance(left, Ref) or not isinstance(right, Ref):
            raise NoLipschitzConstant(f"{node.op} of something that is not a tensor is not covered")
        if value.index not in (left.index, right.index):
            raise NoLipschitzConstant(f"{node.op} with an activation as its summand is not covered")
        alpha = float(dict(node.keywords).get("alpha", 1))
        if value.index == left.index and len(self.trace.nodes[right.index].shape) == 2:
            return self._dense(node, value, right.index, alpha)
        return self._product(node, value, (left.index, right.index), alpha)

    def diagonal(self, node: Node, value: Value) -> float:
        """A factor that is a parameter, or made of parameters."""
        index = next(i for i in node.inputs if i != value.index)
        factor, reference = self._weight(index)
        if node.op != "mul":
            factor, reference = 1.0 / factor, None if reference is None else 1.0 / reference
        source = (1, *self.trace.nodes[value.index].shape[1:])
        if len(self.trace.nodes[value.index].shape) < len(node.shape):
            raise NoLipschitzConstant("a factor that adds a dimension before the batch is not covered")
        factor = _for_one_row(factor, node)
        reference = None if reference is None else _for_one_row(reference, node)
        layer = diagonal_map(self._name(index, node), factor, reference, source, (1, *node.shape[1:]))
        return self._add(_repeated(layer, self._copies(node.shape[0])), self.stretches.log(value))

    def batch_norm(self, node: Node, value: Value) -> float:
        """Logarithm of the Lipschitz constant up to and including a batch normalisation with fixed statistics."""
        if batch_norm_trains(node):
            raise NoLipschitzConstant("batch normalisation with the statistics of the batch")
        log = self.stretches.log(value)
        if node.index in self.folded:
            return log
        shape = (1, *node.shape[1:])
        view = (1, -1, *[1] * (len(node.shape) - 2))
        scale, reference = self._batch_norm_scales(node)
        reference = None if reference is None else reference.reshape(view)
        layer = diagonal_map(self.name(node), scale.reshape(view), reference, shape, shape)
        return self._add(_repeated(layer, self._copies(node.shape[0])), log)

    def parametric(self, node: Node) -> bool:
        """Whether some operand without the input is made of parameters."""
        return any(self.trace.made_of_parameters(i) for i in node.inputs if i not in self.dependent)

    def name(self, node: Node) -> str:
        """The name of the first parameter that goes into `node`, else its operator."""
        for index in node.inputs:
            if index not in self.dependent:
                found = self._parameter_name(index)
                if found and "running_" not in found:
                    return found
        return node.op

    def _name(self, weight: int, node: Node) -> str:
        return self._parameter_name(weight) or node.op

    def _convolution(self, node: Node, value: Value) -> float:
        source, weight_ref, _, *rest = node.arguments
        if not isinstance(weight_ref, Ref) or source.index != value.index:
            raise NoLipschitzConstant("a convolution whose kernel depends on the input")
        transposed, groups = bool(rest[3]), int(rest[5])

        def convolve(x: Tensor, weight: Tensor) -> Tensor:
            result = torch.ops.aten.convolution(x, weight, None, *rest[:6])
            assert isinstance(result, Tensor)
            return result

        def channelwise(x: Tensor, kernel: Tensor) -> Tensor:
            result = torch.ops.aten.convolution(x, kernel, None, *rest[:5], 1)
            assert isinstance(result, Tensor)
            return result

        weight, reference = self._weight(weight_ref.index)
        scale, reference_scale = self._fold(node)
        weight = _scaled_kernel(weight, scale, transposed, groups)
        if reference is not None:
            reference = _scaled_kernel(reference, reference_scale, transposed, groups)
        shape = self.trace.nodes[source.index].shape
        before = self._before_convolution(value, channelwise, transposed)
        if before is not None:
            layer = bilinear_map(
                self._name(weight_ref.index, node),
                "convolution",
                convolve,
                weight,
                reference,
                shape,
                before,
                self.examples,
            )
            return self._add(layer, value.log_root)
        copies = self._copies(shape[0])
        layer = bilinear_map(
            self._name(weight_ref.index, node), "convolution", convolve, weight, reference, (1, *shape[1:])
        )
        return self._add(_repeated(layer, copies), self.stretches.log(value))

    def _before_convolution(self, value: Value, channelwise: object, transposed: bool) -> Before | None:
        """The selection to fold in, None if there is none or it stays apart with a norm of its own."""
        if self.stretches.bijective(value):
            return None
        selection = self.stretches.selection(value)
        shape = self.stretches.shape(value)
        if selection is None:
            scaled = self.stretches.scaled_selection(value)
            return None if scaled is None else Before(shape, lambda x: self.stretches.apply(value, x))
        if selection.injective and not selection.has_zeros:
            return None
        if selection.injective:
            return Before(shape, lambda x: self.stretches.apply(value, x))
        plane = None if transposed else spatial_plane(selection)
        if plane is None:
            return None
        assert callable(channelwise)
        return Before(
            shape,
            lambda x: self.stretches.apply(value, x),
            lambda weight: rows_after_selection(
                plane, channelwise, weight, self.trace.nodes[value.index].shape[0]
            ),
        )

    def _dense(self, node: Node, value: Value, right: int, alpha: float) -> float:
        weight, reference = self._weight(right)
        if node.op != "linear":  # x @ w: the map is w'
            weight, reference = weight.T, None if reference is None else reference.T
        scale, reference_scale = self._fold(node)
        weight = _scaled(alpha * weight, scale)
        reference = None if reference is None else _scaled(alpha * reference, reference_scale)
        positions = self._copies(math.prod(node.shape[:-1]))
        log, inputs = self.stretches.log(value), None
        kernel = weight if reference is None else weight - reference
        if positions == 1 and not self.stretches.bijective(value):
            selection = self.stretches.selection(value)
            factors = None
            if selection is None:
                selection, factors = self.stretches.scaled_selection(value) or (None, None)
            if factors is not None:
                row = factors.reshape(-1, weight.shape[1])[0]
                weight, reference = weight * row, None if reference is None else reference * row
            scaled = factors is not None
            if selection is not None and (scaled or selection.has_zeros or not selection.injective):
                source = fold_dense(selection, weight.shape[1])
                weight = merged_columns(weight, source)
                reference = None if reference is None else merged_columns(reference, source)
                log, inputs = value.log_root, selection.units // self.examples
        layer = dense_map(self._name(right, node), weight, reference, positions, inputs, kernel)
        return self._add(layer, log)

    def _product(self, node: Node, value: Value, factors: tuple[int, int], alpha: float) -> float:
        """A matrix product with the weight on the left, or batched."""
        other = factors[1] if value.index == factors[0] else factors[0]
        plain = {"baddbmm": "bmm", "addmv": "mv"}.get(node.op)
        weight, reference = self._weight(other)

        def multiply(x: Tensor, w: Tensor) -> Tensor:
            if node.op == "linear":
                raise NoLipschitzConstant("linear with an activation as its weight is not covered")
            left, right = (x, w) if value.index == factors[0] else (w, x)
            if plain is None and node.op != "addmm":
                return run(node, {factors[0]: left, factors[1]: right})
            return left @ right

        shape = self.trace.nodes[value.index].shape
        reference = None if reference is None else alpha * reference
        layer = bilinear_map(
            self._name(other, node),
            "product",
            multiply,
            alpha * weight,
            reference,
            shape,
            None,
            self.examples,
        )
        return self._add(layer, self.stretches.log(value))

    def _weight(self, index: int) -> tuple[Tensor, Tensor | None]:
        reference = None if self.reference is None else self.reference.double(index)
        return self.replay.double(index), reference

    def _fold(self, node: Node) -> tuple[Tensor | None, Tensor | None]:
        """Scale of the batch normalisation that alone reads this linear node, in network and reference."""
        users = self.consumers.get(node.index, [])
        if len(users) != 1:
            return None, None
        user = self.trace.nodes[users[0]]
        channels = len(user.shape) > 1 and len(user.shape) == len(node.shape)
        channels = channels and (len(user.shape) == 2 or node.op in ("convolution", "_convolution"))
        if user.op not in BATCH_NORM or batch_norm_trains(user) or user.output != 0 or not channels:
            return None, None
        self.folded.add(user.index)
        return self._batch_norm_scales(user)

    def _batch_norm_scales(self, node: Node) -> tuple[Tensor, Tensor | None]:
        reference = None if self.reference is None else _batch_norm_scale(node, self.reference)
        return _batch_norm_scale(node, self.replay), reference

    def _copies(self, rows: int) -> int:
        """How many of `rows`, the length of a leading dimension, belong to one example."""
        if rows % self.examples:
            raise NoLipschitzConstant("a layer that mixes the examples of a batch")
        return rows // self.examples

    def _add(self, layer: LinearMap, log: float) -> float:
        self.found.append(layer)
        return log + (math.log(layer.sigma) if layer.sigma > 0 else -math.inf)

    def _parameter_name(self, index: int) -> str:
        """The first parameter or buffer that a value is computed from, in the order of the arguments."""
        seen, stack = set(), [index]
        while stack:
            i = stack.pop()
            if i in seen:
                continue
            seen.add(i)
            node = self.trace.nodes[i]
            if node.kind != "op" and node.name:
                return node.name
            stack.extend(reversed(node.inputs))
        return ""


def _batch_norm_scale(node: Node, replay: Replay) -> Tensor:
    weight, variance = node.arguments[1], node.arguments[4]
    # The last float among the arguments is eps in every variant of the operator.
    eps = [a for a in node.arguments if isinstance(a, float)][-1]
    scale = torch.rsqrt(replay.double(variance.index) + eps)
    return scale if weight is None else scale * replay.double(weight.index)


def _scaled(weight: Tensor, scale: Tensor | None) -> Tensor:
    return weight if scale is None else weight * scale.reshape(-1, *[1] * (weight.dim() - 1))


def _scaled_kernel(weight: Tensor, scale: Tensor | None, transposed: bool, groups: int) -> Tensor:
    """A kernel (out, in / groups, ...), or transposed (in, out / groups, ...), times a factor per output."""
    if scale is None or not transposed:
        return _scaled(weight, scale)
    parts = weight.reshape(groups, -1, *weight.shape[1:])  # (groups, in / groups, out / groups, ...)
    factors = scale.reshape(groups, 1, -1, *[1] * (weight.dim() - 2))
    return torch.flatten(parts * factors, 0, 1)


def _for_one_row(factor: Tensor, node: Node) -> Tensor:
    """A factor that was expanded over the batch, for one example."""
    if factor.dim() < len(node.shape) or len(factor) == 1:
        return factor
    if not bool((factor == factor[:1]).all()):
        raise NoLipschitzConstant("a factor that differs among the examples of a batch")
    return factor[:1]


def _repeated(layer: LinearMap, copies: int) -> LinearMap:
    """The same layer at `copies` independent positions."""
    return replace(
        layer,
        norm_2_1=layer.norm_2_1 * copies,
        frobenius=layer.frobenius * math.sqrt(copies),
        inputs=layer.inputs * copies,
        outputs=layer.outputs * copies,
    )
