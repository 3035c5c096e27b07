"""Which transformations that keep a network's function a proxy's value keeps too.

The one place where `check` meets the invariance audit. Transformed networks are made on this side and
measured in the sandbox like any other network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from gapbench.invariance import AuditResult, audit_measure
from gapbench.proxies.results import Measurement


def audit(
    measure: Callable[[nn.Module], Measurement], network: nn.Module, inputs: Tensor, *, seed: int
) -> list[AuditResult]:
    """The audit of one network."""
    return audit_measure(measure, network, inputs, seed=seed)


def summary(results: Sequence[AuditResult]) -> str:
    """One line per kind of transformation: its verdict over all strengths, and the largest change."""
    kinds: dict[str, list[AuditResult]] = {}
    for result in results:
        kinds.setdefault(result.kind, []).append(result)
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
