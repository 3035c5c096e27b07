"""Does an example's output depend on the others that are evaluated with it?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gapbench.curvature.tracing import plain_kernels

WHOLE = 16  # examples in the batch
ALONE = 4  # of them that are evaluated alone
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}


@torch.no_grad()
def why_mixed(network: nn.Module, inputs: Tensor) -> str | None:
    """None if examples are treated separately, else in words why they are not.

    The first examples are evaluated together, in two halves in another order, and alone. A network that cannot
    evaluate one example alone, or gives it outputs of another shape, counts as mixed as well: it must get
    the whole batch. Nothing can be said of a single example. Raises whatever the network raises on the batch.
    """
    part = inputs[:WHOLE]
    n = len(part)
    if n < 2:
        return None
    with plain_kernels():
        whole = network(part)
        tolerance = TOLERANCE.get(whole.dtype, 0.05)
        scale = float(whole.abs().max()) if whole.numel() and whole.is_floating_point() else 1.0

        def differs(found: Tensor, rows: Tensor) -> bool:
            expected = whole[rows]
            if found.shape != expected.shape:
                return True
            return not torch.allclose(found, expected, rtol=0.0, atol=tolerance * scale, equal_nan=True)

        order = torch.arange(n, device=part.device).flip(0)
        if n >= 4:
            for rows in (order[: n // 2], order[n // 2 :]):
                if differs(network(part[rows]), rows):
                    return "an example's outputs depend on the others in its batch"
        for i in range(min(ALONE, n)):
            try:
                alone = network(part[i : i + 1])
            except (RuntimeError, ValueError, IndexError, TypeError):
                return "one example alone cannot be evaluated"
            if alone.shape != whole[i : i + 1].shape:
                return "one example alone has outputs of another shape"
            if differs(alone, torch.tensor([i], device=part.device)):
                return "an example's outputs depend on the others in its batch"
    return None
