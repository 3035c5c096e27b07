"""The audit of a whole run: every proxy, on a sample of its networks, under every kind of transformation."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from gapbench.invariance.audit import Measure, audit_measures
from gapbench.invariance.results import AuditResult, untold
from gapbench.invariance.transformations import KINDS
from gapbench.proxies.results import Measurement
from gapbench.runs.countdown import Countdown
from gapbench.suites.requests import ProxyRequest
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from gapbench.population.stored import Member
    from gapbench.sandbox.handover import Handover

Say = Callable[[str], None]


def audit_run(
    run: Path,
    *,
    networks: int = 6,
    proxies: Sequence[str] | None = None,
    strengths: Sequence[float] = (0.5,),
    data_dir: str | None = None,
    seed: int = 0,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """Audit the proxies of a run's suite on some of its networks.

    The sample takes one network of each task and family in turn, in the order of the plan. For each proxy and
    kind: the median relative change, the rank correlation (tau-b) of the values before and after over the
    sample, and a verdict: "not invariant" if it is so on any network, "invariant" if on all that have the
    symmetry.

    Args:
        run: the run's directory.
        networks: size of the sample.
        proxies: labels of the suite, all by default.
        strengths: positive; see `Symmetry.transform`.
        data_dir: the data folder.
        seed: of the transformations.
        say: told of progress.

    Returns:
        The content of `invariances.json`.

    Raises:
        GapbenchError: an unknown label, or a strength that is not positive.
    """
    from gapbench.population.network import handover_of
    from gapbench.population.stored import open_population

    for strength in strengths:
        if not (math.isfinite(strength) and strength > 0):
            raise GapbenchError(f"The strength {strength} must be a positive number.")
    if proxies is not None and not proxies:
        raise GapbenchError("No proxy is named: give at least one label, or leave the option out.")
    population = open_population(run, data_dir)
    requests = [r for r in population.suite.proxies if proxies is None or r.label in proxies]
    unknown = set(proxies or ()) - {r.label for r in requests}
    if unknown:
        known = ", ".join(r.label for r in population.suite.proxies)
        raise GapbenchError(f"The run has no proxy {', '.join(sorted(unknown))}. It has: {known}.")
    members = _sample(population.members, networks)
    found: dict[str, list[AuditResult]] = defaultdict(list)
    values = len(members) * len(requests) * (1 + len(KINDS) * len(strengths))
    countdown = Countdown(values, say, what="values")
    for number, member in enumerate(members, 1):
        given = handover_of(member, population)
        c = member.configuration
        say(f"[{number}/{len(members)}] {c.task}  {c.family}  width {c.width:g}")
        measures: dict[str, Measure] = {}
        for request in requests:
            measures[request.label] = _measure_of(request.on(c), given, seed)
        audited = audit_measures(
            measures, given.model, given.inputs, seed=seed, strengths=strengths, told=countdown.more
        )
        for label, results in audited.items():
            found[label] += results
    return {
        "networks": len(members),
        "seed": seed,
        "proxies": {label: _summary(results) for label, results in found.items()},
    }


def _measure_of(request: ProxyRequest, given: Handover, seed: int) -> Measure:
    """The measuring of one proxy as a function of the network alone."""
    from gapbench.population.network import context_of
    from gapbench.proxies.measuring import measure_in
    from gapbench.proxies.registry import checked_options, proxy_entry
    from gapbench_base.seeds import named_seed

    entry = proxy_entry(request.proxy)
    options = checked_options(entry, dict(request.options))

    def measure(network: nn.Module) -> Measurement:
        return measure_in(context_of(given, network), entry, options, named_seed("audit", seed))

    return measure


def _sample(members: Sequence[Member], count: int) -> list[Member]:
    """`count` members, taking tasks and families in turn."""
    groups: dict[tuple[str, str], list[Member]] = defaultdict(list)
    for member in members:
        groups[member.configuration.task, member.configuration.family].append(member)
    chosen: list[Member] = []
    while len(chosen) < min(count, len(members)):
        for group in groups.values():
            if group and len(chosen) < count:
                chosen.append(group.pop(len(group) // 2))
    return chosen


def _summary(results: Sequence[AuditResult]) -> list[dict[str, Any]]:
    from gapbench_leaderboard.statistics import kendall_tau

    groups: dict[tuple[str, float], list[AuditResult]] = defaultdict(list)
    for result in results:
        groups[result.kind, result.strength].append(result)
    rows = []
    for (kind, strength), group in groups.items():
        applicable = [r for r in group if r.verdict != "not applicable"]
        changes = [r.relative_change for r in applicable if r.relative_change is not None]
        pairs = [(r.before, r.after) for r in applicable if r.before is not None and r.after is not None]
        correlation: float | None = None
        if len(pairs) > 2:
            tau = kendall_tau([a for a, _ in pairs], [b for _, b in pairs], variant="b")
            correlation = tau if math.isfinite(tau) else None
        hidden = [r for r in group if untold(r)]
        if hidden and not any(r.verdict == "not invariant" for r in applicable):
            verdict, reason = (
                "not applicable",
                f"on {len(hidden)} of {len(group)} networks {hidden[0].reason}",
            )
        elif not applicable:
            verdict, reason = "not applicable", group[0].reason
        else:
            changed = [r for r in applicable if r.verdict == "not invariant"]
            verdict = "not invariant" if changed else "invariant"
            reason = next((r.reason for r in changed or applicable if r.reason), "")
        median = statistics.median(changes) if changes else None
        rows.append(
            {
                "kind": kind,
                "strength": strength,
                "relative_change": median if median is None or math.isfinite(median) else None,
                "rank_correlation": correlation,
                "verdict": verdict,
                "reason": reason,
                "networks": len(applicable),
            }
        )
    return rows
