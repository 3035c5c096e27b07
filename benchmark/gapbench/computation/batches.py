"""Does an example's output depend on the others that are evaluated with it, or on when it is evaluated?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gapbench.computation.tracing import own_type, plain_kernels
from gapbench_base.errors import NotDefined

WHOLE = 512  # examples in the batch that is looked at
ALONE = 4  # of them that are evaluated alone
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3}


@torch.no_grad()
def why_mixed(network: nn.Module, inputs: Tensor) -> str | None:
    """Whether examples meet in the network's computation.

    Up to `WHOLE` examples are evaluated together, in two halves in another order, and some alone. A network that
    cannot evaluate one example alone, or gives it outputs of another shape, counts as mixed as well: it must get
    the whole batch. Nothing can be said of a single example. What the network raises on the batch is raised here.

    Returns:
        None if examples are treated separately, else in words why they are not.

    Raises:
        NotDefined: the same batch gives other outputs the second time.
    """
    part = inputs[:WHOLE]
    n = len(part)
    with plain_kernels(own_type(network)):
        whole = network(part)
        tolerance = TOLERANCE.get(whole.dtype, 0.05)
        if not whole.is_floating_point() or not whole.numel() or whole.dim() == 0 or len(whole) != n:
            return "the network does not give one row of outputs for each example"
        # By output: one that is far larger than the others (a masked class) hides nothing.
        scale = torch.where(whole.isfinite(), whole, torch.zeros_like(whole)).abs().reshape(n, -1).amax(0)
        usual = scale.double().quantile(0.25, interpolation="lower").to(scale)
        scale = torch.maximum(scale, 1e-3 * usual)
        allowed = (tolerance * scale).reshape(whole.shape[1:])

        def differs(found: Tensor, rows: Tensor) -> bool:
            expected = whole[rows]
            if found.shape != expected.shape:
                return True
            same = (found - expected).abs() <= allowed
            unequal = ~same & (found != expected) & ~(found.isnan() & expected.isnan())
            return bool(unequal.any())

        everything = torch.arange(n, device=part.device)
        if differs(network(part), everything):
            raise NotDefined("the network's outputs change from one evaluation to the next")
        if n < 2:
            return None
        mixed = "an example's outputs depend on the others in its batch"
        order = everything.flip(0)
        if n >= 4:
            for rows in (order[: n // 2], order[n // 2 :]):
                if differs(network(part[rows]), rows):
                    return mixed
        for i in sorted({round(j * (n - 1) / (ALONE - 1)) for j in range(ALONE)}):
            try:
                alone = network(part[i : i + 1])
            except (RuntimeError, ValueError, IndexError, TypeError):
                return "one example alone cannot be evaluated"
            if alone.shape != whole[i : i + 1].shape:
                return "one example alone has outputs of another shape"
            if differs(alone, everything[i : i + 1]):
                return mixed
    return None
