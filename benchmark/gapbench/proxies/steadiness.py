"""Whether a network, left alone in eval mode, stays the same and gives the same outputs for the same inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gapbench.proxies.guard import guarded

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
"""Of outputs, relative to the largest: sums on a GPU may be taken in another order."""
DRAWS = "it draws random numbers in eval mode (dropout or noise that does not ask self.training)"


def unsteady(network: nn.Module, inputs: Tensor) -> str:
    """What changes when the network is evaluated twice on `inputs` (n, ...).

    Its tensors and the global random state are restored.

    Returns:
        It in words; empty where nothing changes.
    """
    with guarded(network, 0) as report, torch.no_grad():
        first = network(inputs.clone())
        second = network(inputs.clone())
        differ = not _equal(first, second)
    causes = [_cause(change) for change in report.changes]
    if not differ and not causes:
        return ""
    said = ", and ".join(dict.fromkeys(causes))
    if not differ:
        return f"the network does not stay as it is when it is evaluated: {said}"
    unknown = "its forward keeps count of its calls, or draws from a generator of its own"
    return f"the network gives different outputs for the same inputs: {said or unknown}"


def _cause(change: str) -> str:
    """A change that `guarded` found, told of the network."""
    if change.startswith("it drew from the global random state"):
        return DRAWS
    for kind in ("buffer", "weights"):
        name = change.removeprefix(f"it changed the {kind} ")
        if name != change:
            return f"its forward changes its own {kind} {name}"
    return change.replace("it ", "its forward ", 1)


def _equal(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape:
        return False
    finite = first[first.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    allowed = TOLERANCE.get(first.dtype, 0.05) * scale
    return bool(torch.isclose(first, second, rtol=0.0, atol=allowed, equal_nan=True).all())
