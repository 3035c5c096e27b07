"""Circular padding without writing into a fresh tensor, which a trace could not follow."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


def circular_pad(x: Tensor, padding: tuple[int, ...]) -> Tensor:
    """`F.pad(x, padding, mode="circular")` as concatenations of slices."""
    for axis in range(len(padding) // 2):
        dim, (low, high) = x.dim() - 1 - axis, padding[2 * axis : 2 * axis + 2]
        size = x.shape[dim]
        kept = x.narrow(dim, max(0, -low), size + min(low, 0) + min(high, 0))
        parts = [x.narrow(dim, size - low, low)] if low > 0 else []
        parts.append(kept)
        parts += [x.narrow(dim, 0, high)] if high > 0 else []
        x = torch.cat(parts, dim) if len(parts) > 1 else kept
    return x


class FunctionalPadding(TorchFunctionMode):
    """Within, circular padding is `circular_pad`; everything else runs as it is."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (F.pad, torch._C._nn.pad):
            given = dict(zip(("input", "pad", "mode", "value"), args)) | kwargs
            padding = tuple(int(p) for p in given["pad"])
            if given.get("mode", "constant") == "circular" and _wraps_once(given["input"], padding):
                return circular_pad(given["input"], padding)
        return func(*args, **kwargs)


def _wraps_once(x: Tensor, padding: tuple[int, ...]) -> bool:
    """Padding of one sign on each axis and no wider than the axis; torch itself sees to the rest."""
    pairs = zip(padding[::2], padding[1::2])
    sizes = reversed(x.shape[x.dim() - len(padding) // 2 :])
    return all(low >= 0 and high >= 0 and max(low, high) <= size for (low, high), size in zip(pairs, sizes))
