"""Does a proxy change when the network's function does not?"""

from gapbench.invariance.audit import AuditResult, audit_measure

__all__ = ["AuditResult", "audit_measure"]
