"""Which transformations that keep a network's function a proxy's value keeps too.

The one place where `check` meets the invariance audit. Transformed networks are made on this side and
measured in the sandbox like any other network.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from gapbench.proxies.results import Measurement

Audit = list[Any]
"""Of results with `kind`, `strength`, `relative_change`, `verdict` and `reason`."""


def audit(
    measure: Callable[[nn.Module], Measurement], network: nn.Module, inputs: Tensor, *, seed: int
) -> Audit | None:
    """The audit of one network; None where this version of gapbench has none."""
    try:
        module = importlib.import_module("gapbench.invariance")
    except ModuleNotFoundError as error:
        if error.name != "gapbench.invariance":
            raise
        return None
    results: Audit = module.audit_measure(measure, network, inputs, seed=seed)
    return results


def summary(results: Audit) -> str:
    """One line per kind of transformation: its verdict over all strengths, and the largest change."""
    kinds: dict[str, list[Any]] = {}
    for result in results:
        kinds.setdefault(str(result.kind), []).append(result)
    lines = []
    for kind, found in kinds.items():
        verdicts = {result.verdict for result in found}
        if "not invariant" in verdicts:
            changes = [r.relative_change for r in found if r.relative_change is not None]
            largest = f" (changes by up to {max(changes):.2g} of its value)" if changes else ""
            lines.append(f"{kind}: not invariant{largest}")
        elif "invariant" in verdicts:
            lines.append(f"{kind}: invariant")
        else:
            lines.append(f"{kind}: not applicable ({found[0].reason})")
    return "\n".join(lines)
