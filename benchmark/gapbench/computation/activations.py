"""Lipschitz constants of pointwise nonlinearities, one for each form and each argument, and their recognition.

Constants of smooth activations are maxima of the derivative: closed forms where there is one, else the root of the
second derivative found with forty digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gapbench.computation.tracing import Node, Ref, Trace
from gapbench_base.errors import NotDefined


class NoLipschitzConstant(NotDefined):
    """The network has an operation without a useful global Lipschitz constant; the message names it."""


GELU_ERF = 0.5 * (1.0 + math.erf(1.0)) + math.exp(-1.0) / math.sqrt(math.pi)  # at sqrt(2)
GELU_TANH = 1.1289930686587717655  # at 1.4185040087908283556
SILU = 1.0998393201288669170  # at 2.3993572805154676678
MISH = 1.0884981612511277279  # at 1.4905711794854284593

# Those whose constant does not depend on their arguments.
SLOPES = {
    "relu": 1.0,
    "relu6": 1.0,
    "hardtanh": 1.0,
    "clamp": 1.0,
    "clamp_min": 1.0,
    "clamp_max": 1.0,
    "abs": 1.0,
    "tanh": 1.0,
    "softshrink": 1.0,
    "log_sigmoid_forward": 1.0,
    "sin": 1.0,
    "cos": 1.0,
    "atan": 1.0,
    "arctan": 1.0,
    "asinh": 1.0,
    "arcsinh": 1.0,
    "erf": 2.0 / math.sqrt(math.pi),
    "erfc": 2.0 / math.sqrt(math.pi),
    "sigmoid": 0.25,
    "hardsigmoid": 1.0 / 6.0,
    "gelu": GELU_ERF,
    "silu": SILU,
    "hardswish": 1.5,
    "mish": MISH,
}
DISCONTINUOUS = frozenset(
    "hardshrink threshold sign sgn round floor ceil trunc fix frac heaviside remainder fmod floor_divide "
    "bernoulli argmax argmin gt ge lt le eq ne".split()
)
# Operators that act on each entry alone: what a written-out activation may consist of.
POINTWISE = (
    frozenset(SLOPES)
    | frozenset("leaky_relu elu celu softplus mul div add sub rsub neg pow square sqrt rsqrt exp".split())
    | frozenset("expm1 log log1p reciprocal maximum minimum detach alias clone".split())
)
# Activations by name, in float64, with their constants; all are 0 at 0.
KNOWN: tuple[tuple[Callable[[Tensor], Tensor], float], ...] = (
    (F.silu, SILU),
    (F.mish, MISH),
    (F.gelu, GELU_ERF),
    (lambda x: F.gelu(x, approximate="tanh"), GELU_TANH),
    (lambda x: x * torch.sigmoid(1.702 * x), SILU),  # silu(a x) / a has the slopes of silu
    (F.hardswish, 1.5),
    (F.softsign, 1.0),
    (F.tanhshrink, 1.0),
)
SOFTPLUS_THRESHOLD = 20.0
MOST_NODES = 24


def argument(node: Node, position: int, name: str, default: Any) -> Any:
    """The argument of `node` at `position`, or called `name`, or `default`."""
    if len(node.arguments) > position:
        return node.arguments[position]
    return dict(node.keywords).get(name, default)


def slope(node: Node) -> float | None:
    """The Lipschitz constant of a pointwise operator of one value.

    Returns:
        The constant; None for operators of other kinds.

    Raises:
        NoLipschitzConstant: the operator, as called, has none.
    """
    op = node.op
    if op == "gelu":
        return GELU_TANH if argument(node, 1, "approximate", "none") == "tanh" else GELU_ERF
    if op in SLOPES:
        return SLOPES[op]
    if op == "elu":
        alpha, scale, inner = (
            float(argument(node, i, name, 1.0))
            for i, name in ((1, "alpha"), (2, "scale"), (3, "input_scale"))
        )
        if inner < 0:
            raise NoLipschitzConstant("elu with a negative input scale has no Lipschitz constant")
        return abs(scale) * max(1.0, abs(alpha * inner))
    if op == "celu":
        if not float(argument(node, 1, "alpha", 1.0)) > 0:
            raise NoLipschitzConstant("celu with a negative alpha has no Lipschitz constant")
        return 1.0
    if op == "leaky_relu":
        return max(1.0, abs(float(argument(node, 1, "negative_slope", 0.01))))
    if op == "rrelu_with_noise":
        if argument(node, 4, "training", False):
            raise NoLipschitzConstant("rrelu in training mode draws random slopes")
        lower, upper = argument(node, 2, "lower", 1.0 / 8.0), argument(node, 3, "upper", 1.0 / 3.0)
        return max(1.0, abs(0.5 * (float(lower) + float(upper))))
    if op == "softplus":
        return _softplus(node)
    if op == "threshold" and float(node.arguments[1]) == float(node.arguments[2]):
        return 1.0
    if op in DISCONTINUOUS:
        raise NoLipschitzConstant(f"{op} jumps: it has no Lipschitz constant")
    return None


def _softplus(node: Node) -> float:
    beta, threshold = float(argument(node, 1, "beta", 1.0)), float(argument(node, 2, "threshold", 20.0))
    if beta == 0 or threshold < SOFTPLUS_THRESHOLD:
        raise NoLipschitzConstant("softplus jumps where its threshold sets in: it has no Lipschitz constant")
    return 1.0


def written_out(trace: Trace, node: Node, active: frozenset[int]) -> tuple[int, float] | None:
    """Whether `node` is a known activation, spelled as a formula.

    The formula is replayed on 4,001 numbers and compared with the activations in `KNOWN`.

    Returns:
        The node of the activation's argument and the activation's Lipschitz constant; None for anything else.
    """
    x = torch.cat([torch.linspace(-12.0, 12.0, 4001), torch.tensor([-300.0, -40.0, 40.0, 300.0])]).double()
    for root, path in _regions(trace, node, active):
        try:
            found = _formula(trace, root, path, x)
        except (RuntimeError, TypeError, KeyError, IndexError):
            return None
        for function, constant in KNOWN:
            if found.shape == x.shape and torch.allclose(found, function(x), rtol=1e-9, atol=1e-9):
                return root, constant
    return None


def _regions(trace: Trace, node: Node, active: frozenset[int]) -> Iterator[tuple[int, list[Node]]]:
    """The single values that `node` is a pointwise function of, nearest first, and the nodes from there on."""
    frontier: set[int] = {node.index}
    path: list[Node] = []
    while len(path) < MOST_NODES:
        index = max(frontier)
        current = trace.nodes[index]
        sources = {i for i in current.inputs if i in active}
        unchanged = all(trace.nodes[i].shape == node.shape for i in sources)
        if current.op not in POINTWISE or not sources or not unchanged:
            return
        frontier = (frontier - {index}) | sources
        path.append(current)
        if len(frontier) == 1:
            yield next(iter(frontier)), path[::-1]


def _formula(trace: Trace, root: int, path: list[Node], x: Tensor) -> Tensor:
    values = {root: x}

    def value(item: Any) -> Any:
        if isinstance(item, Ref):
            if item.index in values:
                return values[item.index].clone()
            return _number(trace, item.index)
        return [value(i) for i in item] if isinstance(item, tuple) else item

    for node in path:
        keywords = {key: value(v) for key, v in node.keywords}
        values[node.index] = node.function(*map(value, node.arguments), **keywords)
    return values[path[-1].index]


def _number(trace: Trace, index: int) -> Tensor:
    """A constant of one entry that was recorded; `KeyError` for anything else."""
    constant = trace.constants[index]
    if constant.numel() != 1:
        raise KeyError(index)
    return constant.double().cpu().reshape(())
