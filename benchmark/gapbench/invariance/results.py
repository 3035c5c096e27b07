"""Verdicts of an audit, from values before and after a transformation. Imports no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gapbench.proxies.results import Measurement

RELATIVE_TOLERANCE = 1e-4  # float64; larger than what an ascent's path differs by
STANDARD_ERRORS = 4.0
UNTOLD = "cannot be told"
BLIND = 0.5
"""Changes of up to this share of the value must be seen where a value is said to be unchanged."""


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


def untold(result: AuditResult) -> bool:
    """Whether the proxy was measured, and its sampling error hides what there is to see."""
    return result.verdict == "not applicable" and result.reason.startswith(UNTOLD)


def not_applicable(kind: str, strength: float, reason: str) -> AuditResult:
    """Where there is nothing to compare."""
    return AuditResult(kind, strength, None, "not applicable", reason)


def unmeasured(before: Measurement) -> str:
    """Why a value cannot be audited at all; empty if it can."""
    if before.status == "ok" and before.value is not None:
        return ""
    return f"the proxy itself {_ended(before)}: {before.reason}"


def _ended(found: Measurement) -> str:
    return "failed" if found.status == "failed" else f"is {found.status.replace('_', ' ')}"


def compared(kind: str, strength: float, before: Measurement, after: Measurement) -> AuditResult:
    """The verdict on one transformation; `before` has a value.

    A value counts as unchanged within a relative 1e-4, or within four standard errors of the difference where
    the proxy states one; where these are more than half of the value, a difference within them says nothing.

    Returns:
        The result; its reason says how small a change could have been seen.
    """
    assert before.value is not None
    if after.status != "ok" or after.value is None:
        what = f"after the transformation the proxy {_ended(after)}: {after.reason}"
        return AuditResult(kind, strength, None, "not invariant", what, before.value, None)
    difference = abs(after.value - before.value)
    size = abs(before.value)
    relative = difference / size if size > 0 else (0.0 if difference == 0 else math.inf)
    spread = STANDARD_ERRORS * math.hypot(before.standard_error or 0.0, after.standard_error or 0.0)
    unchanged = relative <= RELATIVE_TOLERANCE or difference <= spread
    notes = ["changes the loss"] if kind == "logit scale" else []
    if unchanged and relative > RELATIVE_TOLERANCE:
        seen = f"{spread / size:.2g} x the value" if size > 0 else f"{spread:.1g}"
        if spread > BLIND * size:
            what = f"{UNTOLD}: a change below {seen} is within its sampling error"
            return not_applicable(kind, strength, "; ".join([what, *notes]))
        notes.append(f"a change below {seen} is within its sampling error")
    verdict = "invariant" if unchanged else "not invariant"
    return AuditResult(kind, strength, relative, verdict, "; ".join(notes), before.value, after.value)
