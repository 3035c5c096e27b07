"""The path norm: the sum over all paths through a network of the products of squared weights along them.

It is one evaluation of the recorded computation on ones with every weight and bias squared. Batch normalisation is
folded in, and shifts of one unit that follow each other are one bias, so that rescaling units changes nothing;
where branches are added each keeps its own. What has no parameter stays as it is: averages average, maxima are
maxima.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gapbench.computation.activations import NoLipschitzConstant, argument
from gapbench.computation.multiaffine import BATCH_NORM, batch_norm_trains
from gapbench.computation.padding import FunctionalPadding
from gapbench.computation.replay import Replay, run, run_linear, signed_factors
from gapbench.computation.tracing import FACTORIES, Node, Ref, Trace, trace
from gapbench.computation.values import BIJECTIVE
from gapbench.computation.windows import MAX_POOLS
from gapbench_base.errors import NotDefined

# Copy entries, or fill with zero.
SELECTIONS = BIJECTIVE | frozenset(
    "select slice unbind split split_with_sizes chunk unsafe_split unsafe_chunk narrow diagonal constant_pad_nd "
    "expand repeat index index_select unfold im2col reflection_pad1d reflection_pad2d reflection_pad3d "
    "replication_pad1d replication_pad2d replication_pad3d".split()
)
# Weighted sums with fixed weights, none negative.
AVERAGES = frozenset(
    "mean sum avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d upsample_nearest1d "
    "upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d".split()
)
MAXIMA = MAX_POOLS | {"amax", "max", "maximum"}
PRODUCTS = frozenset("mm bmm matmul linear mv addmm baddbmm addmv".split())


class NoPathNorm(NotDefined):
    """The network has an operation through which no paths go; the message names it."""


@dataclass(frozen=True)
class _Sum:
    """`paths`: sums over the paths to each unit, but for its own bias `shift`, not squared yet; both float64."""

    paths: Tensor
    shift: Tensor | None = None

    @property
    def whole(self) -> Tensor:
        return self.paths if self.shift is None else self.paths + self.shift.pow(2)

    def mapped(self, function: Callable[[Tensor], Tensor]) -> _Sum:
        return _Sum(function(self.paths), None if self.shift is None else function(self.shift))

    def shifted(self, by: Tensor) -> _Sum:
        by = by.expand(self.paths.shape)
        return _Sum(self.paths, by if self.shift is None else self.shift + by)

    def scaled(self, by: Tensor) -> _Sum:
        return _Sum(self.paths * by.pow(2), None if self.shift is None else self.shift * by)


@torch.no_grad()
def path_norm(network: nn.Module, example: Tensor) -> float:
    """The path norm with exponent 2 of `network` in eval mode on inputs of the shape of `example` (n, ...).

    Returns:
        Sum over outputs; infinite beyond the range of floating point numbers.

    Raises:
        NoPathNorm: an operation that is not positively homogeneous (softmax, GELU, layer normalisation, clipping),
            products or differences of activations, learned slopes.
    """
    if not example.is_floating_point():
        raise NoPathNorm("inputs that are whole numbers (token ids) have no paths")
    with FunctionalPadding():
        recorded = trace(network, example)
    if recorded.opaque:
        raise NoPathNorm("memory is aliased in a way that hides the data flow")
    if recorded.reads:
        raise NoPathNorm("values are read as numbers: other inputs may take another branch")
    leaves = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    try:
        found = _Walk(recorded, Replay(recorded, leaves), example).run()
    except NoLipschitzConstant as reason:  # of a weight that is no fixed number
        raise NoPathNorm(str(reason)) from reason
    return float(found.sum()) / len(example)


class _Walk:
    def __init__(self, recorded: Trace, replay: Replay, example: Tensor):
        self.trace, self.replay, self.example = recorded, replay, example
        self.values: dict[int, _Sum] = {}  # of nodes that depend on the input

    def run(self) -> Tensor:
        for node in self.trace.reachable():
            if node.index == self.trace.input:
                self.values[node.index] = _Sum(torch.ones_like(self.example, dtype=torch.float64))
            elif node.op not in FACTORIES and any(i in self.values for i in node.inputs):
                self.values[node.index] = self._visit(node)
        if self.trace.output not in self.values:
            raise NoPathNorm("the output does not depend on the input")
        return self.values[self.trace.output].whole

    def _visit(self, node: Node) -> _Sum:
        active = [i for i in node.inputs if i in self.values]
        if node.op in SELECTIONS:
            return self._selection(node, active)
        if node.op in ("convolution", "_convolution"):
            return self._convolution(node)
        if node.op in PRODUCTS:
            return self._product(node)
        if node.op in BATCH_NORM:
            return self._batch_norm(node)
        if node.op in ("add", "sub", "rsub"):
            return self._sum(node)
        if node.op in ("mul", "div", "true_divide"):
            return self._factor(node)
        if node.op in ("cat", "stack"):
            constants = {i: self.replay.double(i).pow(2) for i in node.inputs if i not in self.values}
            return _Sum(run(node, {**{i: self.values[i].whole for i in active}, **constants}))
        if node.op in AVERAGES:
            return _Sum(run_linear(node, {active[0]: self.values[active[0]].whole}, self.replay))
        if node.op in MAXIMA:
            if len(active) < len(set(node.inputs)) or node.output != 0:
                raise NoPathNorm(f"{node.op} with something that is not an activation has no paths")
            return _Sum(run(node, {i: self.values[i].whole for i in active}))
        if _passes_positive(node):
            return _Sum(self.values[active[0]].whole)
        raise NoPathNorm(f"{node.op} is not positively homogeneous: there are no paths through it")

    def _selection(self, node: Node, active: list[int]) -> _Sum:
        if node.inputs[0] not in self.values or len(set(active)) > 1:
            raise NoPathNorm(f"{node.op} at places that depend on the input has no paths")
        if node.op == "constant_pad_nd" and float(argument(node, 2, "value", 0.0) or 0.0) != 0.0:
            raise NoPathNorm("padding with a number that is not 0 has no paths")
        source = node.inputs[0]
        return self.values[source].mapped(lambda x: run_linear(node, {source: x}, self.replay))

    def _convolution(self, node: Node) -> _Sum:
        source, weight, bias, *rest = node.arguments
        if not isinstance(weight, Ref) or weight.index in self.values or source.index not in self.values:
            raise NoPathNorm("a convolution whose kernel depends on the input has no paths")
        kernel = self.replay.double(weight.index).pow(2)
        paths = torch.ops.aten.convolution(self.values[source.index].whole, kernel, None, *rest[:6])
        found = _Sum(paths.clamp_min(0.0))
        if bias is None:
            return found
        channels = (1, -1, *[1] * (paths.dim() - 2))
        return found.shifted(self.replay.double(bias.index).reshape(channels))

    def _product(self, node: Node) -> _Sum:
        first = 1 if node.op.startswith("add") or node.op == "baddbmm" else 0
        pair = node.arguments[first : first + 2]
        if any(float(dict(node.keywords).get(key, 1)) != 1.0 for key in ("alpha", "beta")):
            raise NoPathNorm(f"{node.op} with factors of its own is not covered")
        inside = [a.index in self.values for a in pair]
        if inside == [True, True] or inside == [False, False]:
            raise NoPathNorm("a product of two activations (attention) has no paths")
        left, right = (
            self.values[a.index].whole if active else self.replay.double(a.index).pow(2)
            for a, active in zip(pair, inside)
        )
        if node.op == "linear":
            if not inside[0]:
                raise NoPathNorm("linear with an activation as its weight has no paths")
            right = right.T
        found = _Sum(left @ right)
        shift = (
            node.arguments[0] if first else argument(node, 2, "bias", None) if node.op == "linear" else None
        )
        if shift is None:
            return found
        if shift.index in self.values:
            return _Sum(found.paths + self.values[shift.index].whole)
        return found.shifted(self.replay.double(shift.index))

    def _batch_norm(self, node: Node) -> _Sum:
        if batch_norm_trains(node):
            raise NoPathNorm("batch normalisation with the statistics of the batch has no paths")
        source, weight, bias, mean, variance = node.arguments[:5]
        if node.output != 0 or not isinstance(source, Ref) or source.index not in self.values:
            raise NoPathNorm(f"{node.op} whose parameters depend on the input has no paths")
        # The last float among the arguments is eps in every variant of the operator.
        eps = [a for a in node.arguments if isinstance(a, float)][-1]
        shape = (1, -1, *[1] * (len(node.shape) - 2))
        scale = torch.rsqrt(self.replay.double(variance.index) + eps)
        scale = scale if weight is None else scale * self.replay.double(weight.index)
        shift = -self.replay.double(mean.index) * scale
        shift = shift if bias is None else shift + self.replay.double(bias.index)
        return self.values[source.index].scaled(scale.reshape(shape)).shifted(shift.reshape(shape))

    def _sum(self, node: Node) -> _Sum:
        terms: list[tuple[_Sum, float]] = []
        shift: Tensor | None = None
        for item, factor in zip(node.arguments, signed_factors(node)):
            if isinstance(item, Ref) and item.index in self.values:
                if not factor > 0:
                    raise NoPathNorm("a difference, or the negative of an activation, is not covered")
                terms.append((self.values[item.index], float(factor)))
            elif isinstance(item, Ref):
                shift = factor * self.replay.double(item.index)
            elif float(item) != 0.0:
                raise NoPathNorm("a shift by a number that is no parameter is not covered")
        if len(terms) == 1 and terms[0][1] == 1.0 and terms[0][0].paths.shape == node.shape:
            found = terms[0][0]
        else:
            found = _Sum(
                sum((factor * term.whole for term, factor in terms), torch.zeros(())).expand(node.shape)
            )
        return found if shift is None else found.shifted(shift)

    def _factor(self, node: Node) -> _Sum:
        first, second = node.arguments[:2]
        active = [isinstance(a, Ref) and a.index in self.values for a in (first, second)]
        rounded = dict(node.keywords).get("rounding_mode") is not None
        if active == [True, True] or (active[1] and node.op != "mul") or rounded:
            raise NoPathNorm(f"{node.op} by an activation has no paths")
        value, factor = (first, second) if active[0] else (second, first)
        if isinstance(factor, Ref):
            by = self.replay.double(factor.index)
            found = self.values[value.index]
            found = found.mapped(lambda x: x.expand(node.shape))
            return found.scaled(by if node.op == "mul" else 1.0 / by)
        number = float(factor) if node.op == "mul" else 1.0 / float(factor)
        if number < 0:
            raise NoPathNorm("a negative factor that is no parameter is not covered")
        return _Sum(self.values[value.index].whole * number)


def _passes_positive(node: Node) -> bool:
    """Whether an operator leaves numbers that are not negative as they are, and scales with all others."""

    def number(position: int, name: str, default: Any) -> float | None:
        value = argument(node, position, name, default)
        return None if value is None or isinstance(value, Ref) else float(value)

    if node.op in ("relu", "abs"):
        return True
    if node.op == "leaky_relu":
        slope = number(1, "negative_slope", 0.01)
        return slope is not None and abs(slope) <= 1.0
    if node.op == "threshold":
        return number(1, "threshold", math.nan) == 0.0 and number(2, "value", math.nan) == 0.0
    if node.op == "clamp_min":
        return number(1, "min", math.nan) == 0.0
    if node.op == "clamp":
        return number(1, "min", None) == 0.0 and argument(node, 2, "max", None) is None
    return False
