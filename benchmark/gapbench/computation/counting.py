"""What is counted in a recorded computation: layers one after another, multiplications, kernels."""

from __future__ import annotations

import math

from gapbench.computation.multiaffine import BATCH_NORM, LINEAR, PIECEWISE
from gapbench.computation.tracing import FACTORIES, Node, Ref, Trace
from gapbench_base.errors import NotDefined

CONVOLUTIONS = frozenset("convolution _convolution".split())
MATRIX_PRODUCTS = frozenset("addmm mm linear matmul bmm baddbmm addbmm mv addmv dot vdot".split())
LOOKUPS = frozenset("embedding _embedding_bag".split())  # of a row: a product with a unit vector
# What a parameter may meet an activation in without being the matrix of a layer.
ELEMENTWISE = (
    LINEAR
    | PIECEWISE
    | BATCH_NORM
    | frozenset(
        "mul div true_divide pow where masked_fill index index_put copy prelu _prelu_kernel native_layer_norm "
        "native_group_norm _fused_rms_norm _trilinear".split()
    )
)


def _dependent(trace: Trace) -> set[int]:
    """The values that depend on the input."""
    found = {trace.input}
    for node in trace.nodes:
        if node.op not in FACTORIES and any(i in found for i in node.inputs):
            found.add(node.index)
    return found


def _steps(trace: Trace, dependent: set[int]) -> list[Node]:
    """Operators on the way from the input to the output.

    Returns:
        The nodes, in order.

    Raises:
        NotDefined: an operator that hides what it does with its parameters.
    """
    if trace.hidden:
        raise NotDefined("memory is aliased in a way that hides the data flow")
    found = []
    for node in trace.reachable():
        if node.kind != "op" or node.index not in dependent or node.op in FACTORIES:
            continue
        known = node.op in CONVOLUTIONS | MATRIX_PRODUCTS | LOOKUPS | ELEMENTWISE
        if not known and any(trace.made_of_parameters(i) for i in node.inputs if i not in dependent):
            raise NotDefined(f"what {node.op} does with its parameters is not seen")
        found.append(node)
    return found


def _weight(node: Node, dependent: set[int]) -> int | None:
    """The index of the matrix, kernel or table that a layer multiplies by; None for anything but a layer."""
    if node.op in CONVOLUTIONS:
        candidates = node.arguments[1:2]
    elif node.op in LOOKUPS:
        candidates = node.arguments[:1]
    elif node.op == "_trilinear":
        candidates = node.arguments[1:2]
    elif node.op in MATRIX_PRODUCTS:
        first = 1 if node.op.startswith("add") or node.op == "baddbmm" else 0
        candidates = node.arguments[first : first + 2]
    else:
        return None
    fixed = [a.index for a in candidates if isinstance(a, Ref) and a.index not in dependent]
    return fixed[0] if fixed else None


def depth(trace: Trace) -> int:
    """The most layers on one path from the input to the output.

    A layer is a convolution, a matrix product with something that does not depend on the input, a bilinear form or
    a lookup in a table. Products of two activations (attention), normalisations, factors and shifts of single units
    are none, and a shortcut adds none.

    Returns:
        The number of layers.

    Raises:
        NotDefined: the computation is not seen (recurrent layers in one operator, aliased memory).
    """
    dependent = _dependent(trace)
    level = {trace.input: 0}
    for node in _steps(trace, dependent):
        before = max(level.get(i, 0) for i in node.inputs if i in dependent)
        level[node.index] = before + (_weight(node, dependent) is not None)
    return level.get(trace.output, 0)


def multiply_adds(trace: Trace) -> int:
    """Multiplications of an activation in convolutions and matrix products, attention's too, for all examples.

    Those at padded borders count as well, as usual; shifts, factors of single units, normalisations, activations
    and pooling do not.

    Returns:
        The number of multiply-add pairs.

    Raises:
        NotDefined: the computation is not seen, or has an operator whose multiplications are not known.
    """
    total = 0
    shapes = [node.shape for node in trace.nodes]
    for node in _steps(trace, _dependent(trace)):
        if node.output != 0:
            continue
        if node.op == "_trilinear" or "attention" in node.op or "fft" in node.op or "cdist" in node.op:
            raise NotDefined(f"the multiplications of {node.op} are not counted")
        if node.op in CONVOLUTIONS:
            source, weight = node.arguments[0].index, node.arguments[1].index
            transposed = bool(node.arguments[6])
            moved = shapes[source] if transposed else node.shape
            total += math.prod(moved) * math.prod(shapes[weight][1:])
        elif node.op in MATRIX_PRODUCTS:
            first = 1 if node.op.startswith("add") or node.op == "baddbmm" else 0
            left, right = (shapes[a.index] for a in node.arguments[first : first + 2])
            if node.op == "addbmm":  # sums over the batch
                total += math.prod(left) * right[-1]
            else:
                total += math.prod(node.shape) * left[-1]
    return total


def kernels(trace: Trace) -> list[tuple[int, ...]]:
    """Shapes of the learned kernels and matrices of convolutions and matrix products, each used often once.

    Returns:
        (out, in / groups, ...) for a convolution, the matrix's shape for a product, in order of execution.

    Raises:
        NotDefined: the computation is not seen.
    """
    dependent = _dependent(trace)
    found: dict[int, tuple[int, ...]] = {}
    for node in _steps(trace, dependent):
        index = None if node.op in LOOKUPS or node.op == "_trilinear" else _weight(node, dependent)
        if index is not None and trace.made_of_parameters(index):
            found.setdefault(_origin(trace, index), trace.nodes[index].shape)
    return list(found.values())


def _origin(trace: Trace, index: int) -> int:
    """The parameter that a value is a view of; itself where it is computed."""
    while trace.nodes[index].op in ("t", "transpose", "view", "permute", "alias", "detach", "expand"):
        index = trace.nodes[index].inputs[0]
    return index
