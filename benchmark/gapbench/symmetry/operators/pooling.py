"""How labels pass through means, pooling windows, padding and softmax."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gapbench.computation.tracing import Node
from gapbench.symmetry.classes import distinct
from gapbench.symmetry.interpreter import Handler, Interpreter
from gapbench.symmetry.labels import Activation, frozen


def mean(run: Interpreter, node: Node) -> Activation:
    """A mean over axes: a channel keeps its variable, its shift is the mean of the shifts."""
    x = run.first(node)
    axes = node.arguments[1] if len(node.arguments) > 1 and node.arguments[1] is not None else None
    axes = tuple(range(x.scale.dim())) if axes is None else tuple(a % x.scale.dim() for a in axes)
    scale, shift, null = (_reduced_last(part, axes) for part in (x.scale, x.shift, x.null))
    kept = run.one_per_channel(scale)
    means = run.shift.mean(shift.numpy())
    mixed = (null != null[:, :1]).any(dim=1)
    out_null = null[:, 0].clone()
    for row in torch.nonzero(mixed)[:, 0].tolist():  # any average of common directions is one
        out_null[row] = run.nulls.atom(*set(null[row].tolist()))
    return Activation(
        torch.from_numpy(kept).reshape(node.shape),
        torch.from_numpy(means).reshape(node.shape),
        out_null.reshape(node.shape),
    )


def _reduced_last(labels: Tensor, axes: tuple[int, ...]) -> Tensor:
    kept = [a for a in range(labels.dim()) if a not in axes]
    size = int(np.prod([labels.shape[a] for a in axes]))
    return labels.permute(*kept, *axes).reshape(-1, size)


def pool(run: Interpreter, node: Node) -> Activation:
    """Windows over the trailing axes: a channel keeps its variable, and its shift where that is constant."""
    x = run.first(node)
    spatial = 1 if "1d" in node.op else 3 if "3d" in node.op else 2
    lead = x.scale.shape[: x.scale.dim() - spatial]
    flat = x.scale.reshape(int(np.prod(lead)), -1)
    maximum = "max" in node.op
    if maximum:
        run.found.diagonal.append(distinct(flat.numpy()))
        run.meet(("max", node.index), flat)
    kept = torch.from_numpy(run.one_per_channel(flat))
    shift = torch.from_numpy(run.one_shift(x.shift.reshape(int(np.prod(lead)), -1)))
    padded = not maximum and "adaptive" not in node.op and _pads(node)
    if padded:
        run.shift.tied.fix(distinct(shift.numpy()))
        shift = torch.zeros_like(shift)
    null = x.null.reshape(int(np.prod(lead)), -1)
    if bool(null.any()):
        run.nulls.spoil(null)
    shape = (*lead, *[1] * spatial)
    out = Activation(
        kept.reshape(shape).expand(node.shape).contiguous(),
        shift.reshape(shape).expand(node.shape).contiguous(),
        torch.zeros(node.shape, dtype=torch.int64),
    )
    return run.fresh(out) if maximum or padded else out


def _pads(node: Node) -> bool:
    padding = node.arguments[3] if len(node.arguments) > 3 else 0
    return any(padding) if isinstance(padding, tuple | list) else bool(padding)


def softmax(run: Interpreter, node: Node) -> Activation:
    """Unchanged by what is common to all entries along its axis."""
    x = run.first(node)
    axis = int(node.arguments[1]) % x.scale.dim()
    run.scale.fix(distinct(x.scale.numpy()))
    size = x.scale.shape[axis]
    run.one_shift(x.shift.movedim(axis, -1).reshape(-1, size))
    run.nulls.over_sets(x.null.movedim(axis, -1).reshape(-1, size))
    out = frozen(node.shape)
    return replace(out, rows_sum_to_one=axis == x.scale.dim() - 1)


def pad(run: Interpreter, node: Node) -> Activation:
    """Added zeros may be rescaled with their channel but not shifted; other constants allow neither."""
    x = run.first(node)
    value = node.arguments[2] if len(node.arguments) > 2 else 0
    widths = list(node.arguments[1])

    def padded(labels: Tensor, fill: int = 0) -> Tensor:
        return torch.nn.functional.pad(labels, widths, value=fill)

    scale, shift, null = padded(x.scale), padded(x.shift), padded(x.null)
    if value == 0:  # along padded axes a channel's own variable fits the zeros
        outside = padded(torch.ones_like(x.scale)) == 0
        axes = [x.scale.dim() - 1 - i for i in range(len(widths) // 2) if widths[2 * i] or widths[2 * i + 1]]
        rest = [1 if i in axes else n for i, n in enumerate(x.scale.shape)]
        order = [i for i in range(x.scale.dim()) if i not in axes] + axes
        own = run.one_per_channel(x.scale.permute(order).reshape(int(np.prod(rest)), -1))
        zeros = run.scale.new(len(own))  # a name of their own: a zero is not what a normalisation gives
        run.scale.tie(zeros, own)
        scale = torch.where(outside, torch.from_numpy(zeros).reshape(rest).expand(node.shape), scale)
    run.nulls.spoil(x.null)
    return Activation(scale, shift, torch.zeros_like(null))


HANDLERS: dict[str, Handler] = {
    "mean": mean,
    **dict.fromkeys(
        (
            "avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d "
            "max_pool2d_with_indices max_pool3d_with_indices max_pool1d max_pool2d adaptive_max_pool2d"
        ).split(),
        pool,
    ),
    **dict.fromkeys(("_softmax", "softmax", "_safe_softmax"), softmax),
    "constant_pad_nd": pad,
}
