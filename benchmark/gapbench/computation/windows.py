"""How many pooling windows each position belongs to."""

from __future__ import annotations

import torch
from torch import Tensor

from gapbench.computation.activations import argument
from gapbench.computation.tracing import Node

MAX_POOLS = frozenset(
    "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices "
    "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d".split()
)


def window_counts(node: Node, shape: tuple[int, ...]) -> Tensor:
    """The windows of a max-pooling node around each position of space.

    A maximum over windows is Lipschitz with the root of the largest count, which impulses attain.

    Returns:
        Counts, int64, for an activation of `shape`.
    """
    adaptive = node.op.startswith("adaptive")
    dims = int(node.op.split("pool")[1][0])
    sizes, outputs = shape[-dims:], node.shape[-dims:]
    counts = torch.ones((), dtype=torch.int64)
    for axis, (size, output) in enumerate(zip(sizes, outputs)):
        line = torch.zeros(size, dtype=torch.int64)
        if adaptive:
            for j in range(output):
                line[j * size // output : -(-(j + 1) * size // output)] += 1
        else:
            kernel, stride, padding, dilation = (_entry(a, axis) for a in _geometry(node))
            for j in range(output):
                taps = torch.arange(kernel) * dilation + j * stride - padding
                line[taps[(taps >= 0) & (taps < size)]] += 1
        counts = counts[..., None] * line
    return counts


def _geometry(node: Node) -> tuple[object, ...]:
    kernel = argument(node, 1, "kernel_size", None)
    stride = argument(node, 2, "stride", ()) or kernel
    return kernel, stride, argument(node, 3, "padding", 0), argument(node, 4, "dilation", 1)


def _entry(value: object, axis: int) -> int:
    if isinstance(value, list | tuple):
        return int(value[axis] if len(value) > 1 else value[0])
    assert isinstance(value, int)
    return value
