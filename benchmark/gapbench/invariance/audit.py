"""A proxy before and after transformations that leave the network's function as it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from gapbench.invariance.transformations import KINDS, NotPossible, Transformer
from gapbench.proxies.results import Measurement

RELATIVE_TOLERANCE = 1e-4  # float64; larger than what an ascent's path differs by
STANDARD_ERRORS = 4.0


@dataclass(frozen=True)
class AuditResult:
    """One kind of transformation at one strength.

    `relative_change` = |after - before| / |before| (None where it was not measured). `verdict`: "invariant",
    "not invariant" or "not applicable", with `reason`. `before`, `after` are the values. The logit scale
    changes the loss: there "not invariant" is no defect.
    """

    kind: str
    strength: float
    relative_change: float | None
    verdict: str
    reason: str = ""
    before: float | None = None
    after: float | None = None


def audit_measure(
    measure: Callable[[nn.Module], Measurement],
    network: nn.Module,
    inputs: Tensor,
    *,
    seed: int,
    kinds: Sequence[str] | None = None,
    strengths: Sequence[float] = (0.5,),
) -> list[AuditResult]:
    """Measure a float64 copy of `network` before and after each kind of transformation.

    `measure` gets a network and returns a `Measurement` (of the same data, with the same seed each time). A value
    counts as unchanged within a relative 1e-4, or within four standard errors of the difference where the proxy
    states one. `inputs` (n, ...): two of them are used to find the symmetries. `kinds`: see `KINDS`.
    """
    transformer = Transformer.of(network, inputs)
    before = measure(transformer.network)
    results = []
    for kind in KINDS if kinds is None else kinds:
        for strength in strengths:
            results.append(_one(measure, transformer, before, kind, strength, seed))
    return results


def _one(
    measure: Callable[[nn.Module], Measurement],
    transformer: Transformer,
    before: Measurement,
    kind: str,
    strength: float,
    seed: int,
) -> AuditResult:
    def not_applicable(reason: str) -> AuditResult:
        return AuditResult(kind, strength, None, "not applicable", reason)

    if before.status != "ok" or before.value is None:
        return not_applicable(f"the proxy itself is {before.status}: {before.reason}")
    try:
        changed = transformer.apply(kind, strength, seed)
    except NotPossible as reason:
        return not_applicable(str(reason))
    after = measure(changed)
    if after.status != "ok" or after.value is None:
        what = f"after the transformation the proxy is {after.status}: {after.reason}"
        return AuditResult(kind, strength, None, "not invariant", what, before.value, None)
    difference = abs(after.value - before.value)
    size = abs(before.value)
    relative = difference / size if size > 0 else (0.0 if difference == 0 else math.inf)
    spread = STANDARD_ERRORS * math.hypot(before.standard_error or 0.0, after.standard_error or 0.0)
    unchanged = relative <= RELATIVE_TOLERANCE or difference <= spread
    note = "changes the loss" if kind == "logit scale" else ""
    verdict = "invariant" if unchanged else "not invariant"
    return AuditResult(kind, strength, relative, verdict, note, before.value, after.value)
