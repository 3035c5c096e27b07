"""Check a proxy on a small population: what `gapbench check` and `gapbench.testing` do."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from gapbench.checking import findings
from gapbench.checking.findings import Evidence
from gapbench.checking.invariances import audit, summary
from gapbench.checking.population import (
    LOADING,
    RANKED,
    AuditCase,
    CheckPopulation,
    check_packages,
    check_population,
    expected_loading,
    is_made,
    remember_loading,
)
from gapbench.checking.printed import printed
from gapbench.checking.report import FAIL, INFORMATION, Point, Report
from gapbench.checking.trials import Bench, Expected, Hopeless
from gapbench.population.stored import Member, Population
from gapbench.proxies.results import Measurement
from gapbench.runs.countdown import Countdown
from gapbench.sandbox import bubblewrap
from gapbench.sandbox.described import choose, options_with
from gapbench.sandbox.fleet import Fleet
from gapbench.sandbox.launching import Host
from gapbench.sandbox.limits import Limits
from gapbench.sandbox.sandbox import Answer, Loaded
from gapbench.sandbox.source import ProxyFile, read_source
from gapbench_base.errors import GapbenchError

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
LIMITS = Limits(seconds=20.0)
TYPICAL = 0.18
"""Seconds that a measurement takes, mean over the networks, until some are made, where loading takes `LOADING`."""
SESSION = 0.3
"""Of the time of loading a file: what the processes that measure take to begin after it."""
EVERY = 0.02
"""Seconds that a measurement takes beside what grows with the network."""


def check(
    file: str | os.PathLike[str],
    *,
    proxy: str | None = None,
    options: Mapping[str, object] | None = None,
    limits: Limits = LIMITS,
    unsandboxed: bool = False,
    say: Say = lambda text: None,
    hosts: Sequence[Host] | None = None,
) -> Report:
    """Check the proxy in `file`; see `POINTS`. In the sandbox where this machine has one, unless `unsandboxed`.

    Returns:
        What was found; whatever the proxy does is in it.

    Raises:
        GapbenchError: wrong usage.
    """
    started = time.monotonic()
    source = read_source(file)
    safe = not unsandboxed and not bubblewrap.unavailable()
    took = None
    if not is_made():  # a file that cannot be measured does not wait for the networks
        early, took = _loaded(source, limits, safe, hosts, say)
        look = _looked_at(early, proxy, options)
        if look.description is None:
            return Report(
                source.file_name, look.points, safe, time.monotonic() - started, printed(early, None)
            )
    prepared = check_population(say)
    population = prepared.population
    if took is not None and hosts is None:  # else it tells nothing of a start
        remember_loading(population.folder, took)
    fleet = Fleet(
        source,
        limits,
        sandboxed=safe,
        workers=2,
        packages=population.packages(),
        hosts=hosts,
        preload=("timm.models", "torchvision.models"),
    )
    times = _times(prepared)
    loading = expected_loading(population.folder)
    expected = Expected(times, TYPICAL * loading / LOADING, costs=_costs(prepared))
    before = loading * (1.0 + SESSION)
    countdown = Countdown(
        sum(times.values()), say, what="measurements", before=before, expected=expected.seconds
    )
    with fleet:
        opened = time.monotonic()
        loaded = fleet.describe()
        if hosts is None:  # else it tells nothing of a start
            _learn(time.monotonic() - opened, population, expected, countdown)

        def report(points: Sequence[Point], name: str, evidence: Evidence | None = None) -> Report:
            order = [point for wanted in POINTS for point in points if point.name == wanted]
            return Report(name, tuple(order), safe, time.monotonic() - started, printed(loaded, evidence))

        look = _looked_at(loaded, proxy, options)
        if look.description is None:
            return report(look.points, source.file_name)
        name = str(look.description["name"])
        fleet.proxy, fleet.options = name, look.options
        evidence = _measure(fleet, prepared, loaded.violations, name, countdown, expected)
        points = [*look.points, *findings.judge(evidence)]
        if evidence.audits is not None:
            points.append(evidence.audits)
        return report(points, name, evidence)


def _loaded(
    source: ProxyFile, limits: Limits, safe: bool, hosts: Sequence[Host] | None, say: Say
) -> tuple[Loaded, float]:
    """What a file registers, before there are networks, and the seconds that loading it took."""
    began = time.monotonic()
    say(f"Loading {source.file_name}.")
    with Fleet(source, limits, sandboxed=safe, workers=1, packages=check_packages(), hosts=hosts) as fleet:
        return fleet.describe(), time.monotonic() - began


@dataclass(frozen=True)
class _Look:
    """What a file is by its loading alone; without a `description` where it cannot be measured."""

    points: tuple[Point, ...]
    description: Mapping[str, object] | None = None
    options: dict[str, object] = field(default_factory=dict)


def _looked_at(loaded: Loaded, proxy: str | None, options: Mapping[str, object] | None) -> _Look:
    """Which proxy of a file is meant. Raises `GapbenchError` for wrong usage."""
    if loaded.reason:
        refused = (findings.isolation(loaded.violations),) if loaded.violations else ()
        return _Look((findings.loads(loaded), *refused))
    try:
        description = choose(loaded, proxy)
        chosen = options_with(description, dict(options or {}))
    except GapbenchError as error:
        if proxy is not None or options:
            raise  # wrong usage
        return _Look(
            (Point("loads", FAIL, str(error), "register exactly one proxy, or choose with --proxy"),)
        )
    return _Look((findings.loads(loaded, description["name"]),), description, chosen)


def _learn(took: float, population: Population, expected: Expected, countdown: Countdown) -> None:
    """Forecast what is ahead by the seconds that loading the file took."""
    remember_loading(population.folder, took)
    expected.typically(TYPICAL * took / LOADING)
    countdown.soon(SESSION * took)


def _measure(
    fleet: Fleet,
    prepared: CheckPopulation,
    violations: tuple[str, ...],
    name: str,
    countdown: Countdown,
    expected: Expected,
) -> Evidence:
    """All networks once on either side, in opposite orders; some with other seeds; the audit.

    Returns:
        What was measured. A proxy that fails on all of the first is not tried on the rest.
    """
    population, hopeless = prepared.population, Hopeless()
    families = {member.key: member.configuration.family for member in population.members}
    ranked = _ranked(population)
    forward = [(member.key, 0) for member in population.members]
    further = [(member.key, seed) for member in ranked[::3] for seed in OTHER_SEEDS]
    countdown.say(f"Measuring {name} on {len(forward)} networks, {countdown.total} times in all.")

    def told(network: str, seconds: float) -> None:
        expected.heard(network, seconds)
        countdown.more()

    def answered(side: str) -> Callable[[str, Answer], None]:
        return lambda network, answer: hopeless.heard(families[network], answer, side)

    with (
        Bench(fleet, prepared.packed, prepared.modules, disturbed=False, measured=told) as here,
        Bench(fleet, prepared.packed, prepared.modules, disturbed=True, measured=told) as there,
        ThreadPoolExecutor(2) as pool,
    ):
        second = pool.submit(there.run, forward[::-1], hopeless, answered("backwards"))
        first = here.run(forward, hopeless, answered("in order"))
        others = second.result()
        evidence = Evidence(
            name=name,
            population=population,
            ranked=tuple(ranked),
            first=first,
            second=others,
            violations=violations,
            limits=fleet.limits,
            ended=0,
            baselines=prepared.baselines,
        )
        valued = any(answer.measurement.value is not None for answer in first.values())
        if valued and not evidence.all_violations():
            audits = pool.submit(_audits, there, prepared)
            more = here.run(further)
            evidence.first = {**first, **more}
            evidence.audits = audits.result()
        evidence.ended = here.ends + there.ends
        return evidence


def _ranked(population: Population) -> list[Member]:
    return [m for m in population.members if m.configuration.family in RANKED]


def _times(prepared: CheckPopulation) -> Counter[str]:
    """How often each network is measured in a check; audited ones by their family."""
    times = Counter({member.key: 2 for member in prepared.population.members})
    times.update({member.key: len(OTHER_SEEDS) for member in _ranked(prepared.population)[::3]})
    times.update(case.family for case in prepared.audits if case.file)
    return times


def _audits(bench: Bench, prepared: CheckPopulation) -> Point:
    """The invariances of one network of each audited family."""

    def measure(case: AuditCase) -> Measurement:
        return bench.measure(case.family, prepared.audit_network(case), 0).measurement

    lines = [
        f"{family}: {line}"
        for family, results in audit(measure, prepared.audits).items()
        for line in summary(results).splitlines()
    ]
    return Point("invariances", INFORMATION, "\n".join(lines) or "no network to audit")


def _costs(prepared: CheckPopulation) -> dict[str, float]:
    """What measuring costs beside others: a pass over the data and what every measurement takes."""
    members = prepared.population.members
    costs = {member.key: EVERY + prepared.passes[member.key] for member in members}
    for member in members:  # the widest network of a family is the one that is audited
        family = member.configuration.family
        costs[family] = max(costs.get(family, 0.0), costs[member.key])
    return costs
