"""Whether outputs are as precise as the network's own type."""

from __future__ import annotations

import torch
from torch import Tensor

from gapbench_base.errors import NotDefined

PRECISE = 1e-3  # outputs of a float32 network may differ by that much from those of a float64 copy
HALF = (torch.float16, torch.bfloat16)


def refuse_half(outputs: Tensor, dtype: torch.dtype) -> None:
    """Raise `NotDefined` for outputs of half precision from a network of a larger type."""
    if outputs.dtype in HALF and dtype not in HALF:
        raise NotDefined(
            f"the network computes in {str(outputs.dtype).removeprefix('torch.')} inside, whose rounding is "
            "larger than what is measured"
        )


def agree(found: Tensor, true: Tensor) -> bool:
    """Whether outputs (n, ...) in float64 are those of a float64 copy, up to `PRECISE` of their size."""
    finite = found.isfinite() & true.isfinite()
    return not bool(finite.any()) or float((found - true)[finite].abs().max()) <= PRECISE * _spread(
        true, finite
    )


def _spread(outputs: Tensor, finite: Tensor) -> float:
    """A size for differences of outputs (n, ...): that of the columns, but for a few far larger ones."""
    columns = torch.where(finite, outputs, torch.zeros_like(outputs)).abs().reshape(len(outputs), -1)
    largest = columns.max(dim=0).values
    quartile = float(largest.quantile(0.25, interpolation="lower"))
    kept = largest[largest <= 1e3 * quartile] if quartile > 0 else largest
    return float(kept.max()) or 1.0
