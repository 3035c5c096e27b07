"""Does a proxy change when the network's function does not?

Names are imported on first use: results can be read without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_ORIGIN = {
    "AuditResult": "gapbench.invariance.results",
    "audit_measure": "gapbench.invariance.audit",
    "audit_measures": "gapbench.invariance.audit",
}
__all__ = ["AuditResult", "audit_measure", "audit_measures"]

if TYPE_CHECKING:
    from gapbench.invariance.audit import audit_measure as audit_measure
    from gapbench.invariance.audit import audit_measures as audit_measures
    from gapbench.invariance.results import AuditResult as AuditResult


def __getattr__(name: str) -> Any:
    if name not in _ORIGIN:
        raise AttributeError(f"module 'gapbench.invariance' has no attribute {name!r}")
    return getattr(importlib.import_module(_ORIGIN[name]), name)
