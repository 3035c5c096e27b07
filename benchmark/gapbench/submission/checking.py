"""Check a proxy on a small population: what `gapbench check` and `gapbench.testing` do."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gapbench.errors import GapbenchError
from gapbench.proxies.results import Measurement
from gapbench.submission import bubblewrap, findings
from gapbench.submission.check_population import RANKED, check_population
from gapbench.submission.findings import Evidence
from gapbench.submission.fleet import Fleet
from gapbench.submission.handover import Handover, handover_of
from gapbench.submission.invariances import audit, summary
from gapbench.submission.launching import Host
from gapbench.submission.limits import Limits
from gapbench.submission.population import Member, Population
from gapbench.submission.report import FAIL, INFORMATION, Point, Report
from gapbench.submission.request import checked_options, choose
from gapbench.submission.source import read_source
from gapbench.submission.trials import Bench

Say = Callable[[str], None]
POINTS = (
    "loads",
    "isolation",
    "purity",
    "values",
    "variation",
    "repeatability",
    "seeds",
    "families",
    "cost",
    "invariances",
    "baselines",
)
"""The points of a report, in order."""

OTHER_SEEDS = (1, 2, 3)
AUDITED = ("plain/mlp", "torchvision/vgg11_bn")
LIMITS = Limits(seconds=20.0)


def check(
    file: str | os.PathLike[str],
    *,
    proxy: str | None = None,
    options: Mapping[str, Any] | None = None,
    limits: Limits = LIMITS,
    unsandboxed: bool = False,
    say: Say = lambda text: None,
    hosts: Sequence[Host] | None = None,
) -> Report:
    """Check the proxy in `file`; see `POINTS`. In the sandbox where this machine has one, unless `unsandboxed`.

    Raises `GapbenchError` for wrong usage; whatever the proxy does is in the report.
    """
    started = time.monotonic()
    source = read_source(file)
    population = check_population(say)
    safe = not unsandboxed and not bubblewrap.unavailable()
    fleet = Fleet(
        source,
        limits,
        sandboxed=safe,
        workers=2,
        packages=population.packages(),
        hosts=hosts,
        preload=("timm.models", "torchvision.models"),
    )
    with fleet:  # the hosts start while the networks are built here
        networks = {member.key: handover_of(member, population) for member in population.members}
        loaded = fleet.describe()

        def report(points: Sequence[Point], name: str) -> Report:
            order = [point for wanted in POINTS for point in points if point.name == wanted]
            return Report(name, tuple(order), safe, time.monotonic() - started)

        points = [findings.loads(loaded)]
        if loaded.reason:
            if loaded.violations:
                points.append(findings.isolation(loaded.violations))
            return report(points, source.file_name)
        try:
            description = choose(loaded, proxy)
            chosen = checked_options(description, dict(options or {}))
        except GapbenchError as error:
            if proxy is not None or options:
                raise  # wrong usage
            points = [Point("loads", FAIL, str(error), "register exactly one proxy, or choose with --proxy")]
            return report(points, source.file_name)
        fleet.proxy, fleet.options = description["name"], chosen
        evidence = _measure(fleet, population, networks, loaded.violations, description["name"])
        points += findings.judge(evidence)
        if evidence.audits is not None:
            points.append(evidence.audits)
        return report(points, description["name"])


def _measure(
    fleet: Fleet,
    population: Population,
    networks: Mapping[str, Handover],
    violations: tuple[str, ...],
    name: str,
) -> Evidence:
    """All networks once on either side, in opposite orders; some with other seeds; the audit."""
    ranked = [m for m in population.members if m.configuration.family in RANKED]
    forward = [(member.key, 0) for member in population.members]
    with (
        Bench(fleet, networks, disturbed=False) as here,
        Bench(fleet, networks, disturbed=True) as there,
        ThreadPoolExecutor(2) as pool,
    ):
        second = pool.submit(there.run, forward[::-1])
        first = here.run(forward)
        others = second.result()
        more = here.run([(m.key, seed) for m in ranked[::3] for seed in OTHER_SEEDS])
        answers = {**first, **more}
        valued = any(answer.measurement.value is not None for answer in first.values())
        evidence = Evidence(
            name=name,
            population=population,
            ranked=tuple(ranked),
            first=answers,
            second=others,
            violations=violations,
            limits=fleet.limits,
            ended=here.ends + there.ends,
        )
        if valued and not evidence.all_violations():
            evidence.audits = _audits(here, population, networks)
        return evidence


def _audits(bench: Bench, population: Population, networks: Mapping[str, Handover]) -> Point:
    """The invariances on two networks, one with batch normalisation."""
    lines = []
    for family in AUDITED:
        member = _widest(population, family)
        if member is None:
            continue
        given = networks[member.key]

        def measure(network: Any, given: Handover = given) -> Measurement:
            changed = Handover(
                network,
                given.inputs,
                given.targets,
                given.initial,
                given.all_inputs,
                given.all_targets,
                given.loss,
            )
            return bench.measure(changed, 0).measurement

        results = audit(measure, given.model, given.inputs[:2], seed=0)
        lines += [f"{family}: {line}" for line in summary(results).splitlines()]
    return Point("invariances", INFORMATION, "\n".join(lines) or "no network to audit")


def _widest(population: Population, family: str) -> Member | None:
    members = [m for m in population.members if m.configuration.family == family]
    with contextlib.suppress(ValueError):
        return max(members, key=lambda member: member.configuration.width)
    return None
