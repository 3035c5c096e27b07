"""Bring a run up to date: hold its lock, see that it is of the same suite and protocol, train, measure, note."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gapbench.population import shards
from gapbench.population.admission import Budget
from gapbench.population.choosing import in_order
from gapbench.population.crew import MakeCrew
from gapbench.population.driver import Driver
from gapbench.population.jobs import Setup
from gapbench.population.plan import PROTOCOL, Cell, protocol_of
from gapbench.population.pool import local_crew
from gapbench.population.progress import Progress, Silent
from gapbench.population.shards import Shard
from gapbench.proxies.registry import proxy_entry
from gapbench.runs.environment import environment
from gapbench.runs.folder import check_folder
from gapbench.runs.half import refuse_half
from gapbench.runs.identity import identity_in
from gapbench.runs.known import META, kept, known_in
from gapbench.runs.lock import sole_driver
from gapbench.runs.scoring_time import ScoringTime
from gapbench.runs.session import ASKED, asked, troubled
from gapbench.runs.store import Store
from gapbench.runs.tables import axis_values
from gapbench.runs.weight_location import settle
from gapbench.suites.requests import ProxyRequest, stored_request
from gapbench.suites.suite import Suite
from gapbench_base.errors import GapbenchError


def brought_up_to_date(
    suite: Suite,
    setup: Setup,
    plan: Sequence[Cell],
    requests: Sequence[ProxyRequest],
    workers: int,
    *,
    crew: MakeCrew = local_crew,
    limit: int | None = None,
    shard: Shard | None = None,
    retry_failed: bool = False,
    repeats: int = 1,
    progress: Progress | None = None,
    scored: bool = False,
    failed_only: bool = False,
    budget: Budget | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> list[str]:
    """Train and measure what the run of `setup` does not have yet of a plan.

    Args:
        suite: which the folder holds a run of.
        setup: of all jobs, with the folder.
        plan: all cells of the run.
        requests: what is measured.
        workers: processes; 0 works in this one.
        crew: makes those who do the jobs.
        limit: only so many cells, the first.
        shard: only this part of them; that which the run remembers if none is given.
        retry_failed: repeat what has failed.
        repeats: how often every proxy is measured, 1 or 2.
        progress: hears of every result.
        scored: whether the caller scores the run when it is done: the time left then counts it.
        failed_only: nothing is done but what has failed, with `retry_failed`.
        budget: only what is done in this time, scoring counted if the run is `scored`.
        weights: where weight files are kept, if not in the run's folder; as before if None.

    Returns:
        What could not be done, in words.
    """
    check_folder(setup.run)
    with sole_driver(setup.run), Store(setup.run) as store:
        _same_suite(store, suite, setup.run)
        _same_protocol(store, setup.run)
        refuse_half(store, setup.run)
        setup = replace(setup, weights=settle(setup.run, weights, begun=bool(store.statuses("cells"))))
        shown = progress or Silent()
        cells = _part(store, suite, plan, shard, setup.run, shown)[:limit]
        cells = _troubled(store, plan) if failed_only else cells
        if not failed_only:
            store.set_meta(ASKED, asked(cells, requests, repeats, workers))
        own = {cell.key for cell in cells}
        _note(store, suite, plan, requests, setup.device)
        shown.about(suite.axes)
        scoring = _scoring(suite, cells, requests) if scored else None
        driver = Driver(
            store,
            setup,
            cells,
            requests,
            shown,
            retry_failed,
            repeats,
            others=[cell for cell in plan if cell.key not in own],
            afterwards=scoring.predicted if scoring is not None else lambda networks: 0.0,
            failed_only=failed_only,
            crew=crew,
            budget=budget,
            order=in_order(cells, suite.axes),
        )
        try:
            outcome = driver.bring_up_to_date(workers)
        finally:
            if scoring is not None:
                scoring.note(Path(setup.run))
        if budget is not None:  # what it left out is not waited for
            there = store.statuses("cells")
            store.set_meta(ASKED, asked([c for c in cells if c.key in there], requests, repeats, workers))
        store.set_meta("population", identity_in(store).as_dict())
    return outcome.problems


def _note(
    store: Store, suite: Suite, plan: Sequence[Cell], requests: Sequence[ProxyRequest], device: str
) -> None:
    """Keep in the run what it is of, and where it is worked on."""
    store.set_meta("suite", {"name": suite.name, "version": suite.version, "text": suite.text})
    store.set_meta("plan", [cell.key for cell in plan])
    store.set_meta("proxies", _labelled(store, requests))
    store.set_meta(META, kept(suite, requests, known_in(store)))
    store.set_meta(f"environment {time.time():.6f}", environment(device))


def part_of_plan(suite: Suite, plan: Sequence[Cell], shard: Shard | None) -> Sequence[Cell]:
    """The cells of a part of a plan; siblings stay together where the suite has proxies that need both."""
    if shard is None:
        return plan
    return shards.part_of(plan, shard, any("sibling" in proxy_entry(r.proxy).needs for r in suite.proxies))


def _part(
    store: Store, suite: Suite, plan: Sequence[Cell], shard: Shard | None, folder: Path, shown: Progress
) -> Sequence[Cell]:
    """The cells that a run is to have, and a note in it of which part they are."""
    stored = store.meta(shards.META)
    chosen, remembered = shards.of_run(stored, shard, store.meta("suite") is None, folder)
    cells = part_of_plan(suite, plan, chosen)
    if remembered != stored:
        store.set_meta(shards.META, remembered)
    if chosen is not None and shard is None:
        shown.message(f"{folder} holds the part {chosen.text} of its suite: only that is worked on.")
    return cells


def _troubled(store: Store, plan: Sequence[Cell]) -> list[Cell]:
    """The cells of a plan on which something failed."""
    failed = troubled(store)
    return [cell for cell in plan if cell.key in failed]


def _scoring(suite: Suite, cells: Sequence[Cell], requests: Sequence[ProxyRequest]) -> ScoringTime:
    """What scoring these networks will take."""
    others = [axis for axis in suite.axes if axis != "width"]
    networks = [
        axis_values(cell.description, others)
        | {
            "cell": cell.key,
            "task": cell.configuration.task,
            "family": cell.configuration.family,
            "width": cell.configuration.width,
        }
        for cell in cells
    ]
    noisy = any(row.get("label_noise") for row in networks)
    return ScoringTime(networks, suite.axes, len(requests), 4 if noisy else 3)


def _same_suite(store: Store, suite: Suite, folder: Path) -> None:
    stored = store.meta("suite")
    if stored is None or stored["text"] == suite.text:
        return
    what = (
        f"the suite {stored['name']} version {stored['version']}"
        if (stored["name"], stored["version"]) != (suite.name, suite.version)
        else f"another text of the suite {suite.name} version {suite.version}"
    )
    raise GapbenchError(
        f"{folder} holds a run of {what}. Choose another folder with --out; nothing was changed."
    )


def _same_protocol(store: Store, folder: Path) -> None:
    found = protocol_of(store.descriptions())
    if found != PROTOCOL:
        raise GapbenchError(
            f"The networks of {folder} were trained by protocol {found} of an earlier gapbench, this one trains "
            f"by protocol {PROTOCOL}: they are not of one population. Its board, submissions and audits go on "
            "working; to train, choose another folder with --out. Nothing was changed."
        )


def _labelled(store: Store, requests: Sequence[ProxyRequest]) -> list[list[object]]:
    """All requests that this run has seen, by label; a label keeps its meaning for the life of a run."""
    known = {entry[2]: entry for entry in store.meta("proxies") or ()}
    for request in requests:
        entry = stored_request(request)
        if known.setdefault(request.label, entry) != entry:
            raise GapbenchError(
                f"The label {request.label!r} already stands for other options in this run; choose another."
            )
    return list(known.values())
