"""What a proxy printed while it was checked."""

from __future__ import annotations

from gapbench.checking.findings import Evidence
from gapbench.sandbox.sandbox import Loaded

MOST_LINES = 12


def printed(loaded: Loaded, evidence: Evidence | None) -> str:
    """What the file printed when it was imported, and its proxy on one network, the first that failed if one did.

    Returns:
        Lines under headings; empty where nothing was printed. A file that cannot be imported has its output in the
        point `loads`.
    """
    parts = []
    if loaded.output and not loaded.reason:
        parts.append(_labelled("Printed by the file when it was imported", loaded.output))
    given = {} if evidence is None else evidence.first
    answers = {name: answer for (name, seed), answer in given.items() if seed == 0 and answer.output}
    if evidence is not None and answers:
        failed = [name for name, answer in answers.items() if answer.measurement.status == "failed"]
        name = [*failed, *answers][0]
        where = f"on a network of {evidence.family(name)}"
        where += f" (it printed on {len(answers)} of {len(evidence.measurements())} networks)"
        parts.append(
            _labelled(
                f"Printed by the proxy {evidence.name}, or by what it calls, {where}", answers[name].output
            )
        )
    return "\n".join(parts)


def _labelled(heading: str, output: str) -> str:
    lines = output.splitlines()
    more = ["..."] if len(lines) > MOST_LINES else []
    return "\n".join([f"{heading}:", *(f"  | {line}" for line in [*lines[:MOST_LINES], *more])])
