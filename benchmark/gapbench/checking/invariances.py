"""Which transformations that keep a network's function a proxy's value keeps too: the audit within `check`.

Networks were transformed on the trusted side, when the population was made, and are measured in the sandbox
like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gapbench.checking.population import AuditCase
from gapbench.invariance.results import AuditResult, compared, not_applicable, unmeasured, untold
from gapbench.proxies.results import Measurement


def audit(
    measure: Callable[[AuditCase], Measurement], cases: Sequence[AuditCase]
) -> dict[str, list[AuditResult]]:
    """Results by family. `measure` measures a case's network, each time with the same seed and data."""
    before: dict[str, Measurement] = {}
    results: dict[str, list[AuditResult]] = {}
    for case in cases:
        if not case.kind:
            before[case.family], results[case.family] = measure(case), []
            continue
        why = unmeasured(before[case.family]) or case.reason
        found = results[case.family]
        if why:
            found.append(not_applicable(case.kind, case.strength, why))
        else:
            found.append(compared(case.kind, case.strength, before[case.family], measure(case)))
    return results


def summary(results: Sequence[AuditResult]) -> str:
    """Which transformations change the proxy's value, in words.

    Returns:
        One line per kind of transformation, its verdict over all strengths and the largest change; then what is
        not applicable, by reason.
    """
    kinds: dict[str, list[AuditResult]] = {}
    for result in results:
        kinds.setdefault(result.kind, []).append(result)
    lines, missing = [], dict[str, list[str]]()
    for kind, found in kinds.items():
        verdicts = {result.verdict for result in found}
        if "not invariant" in verdicts:
            changes = [r.relative_change for r in found if r.relative_change is not None]
            notes = [f"changes by up to {max(changes):.2g} of its value"] if changes else []
            notes += dict.fromkeys(r.reason for r in found if r.verdict == "not invariant" and r.reason)
            lines.append(f"{kind}: not invariant" + (f" ({'; '.join(notes)})" if notes else ""))
        elif hidden := [r.reason for r in found if untold(r)]:
            first, _, why = hidden[0].partition(": ")
            lines.append(f"{kind}: {first} ({why})")
        elif "invariant" in verdicts:
            notes = list(dict.fromkeys(r.reason for r in found if r.verdict == "invariant" and r.reason))
            lines.append(f"{kind}: invariant" + (f" ({'; '.join(notes)})" if notes else ""))
        else:
            missing.setdefault(found[0].reason, []).append(kind)
    lines += [f"not applicable: {', '.join(names)} ({reason})" for reason, names in missing.items()]
    return "\n".join(lines)
