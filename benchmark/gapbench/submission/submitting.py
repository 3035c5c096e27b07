"""Submit a proxy: measure it on a trained population, apart from everything else, and add it to the board."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapbench.population.stored import Member, Population, open_population
from gapbench.runs.countdown import SANDBOX, Countdown
from gapbench.runs.entries import load_entries, write_entry
from gapbench.runs.entry import Entry
from gapbench.runs.records import stored_measurement
from gapbench.sandbox.described import choose
from gapbench.sandbox.fleet import Assignment, same_value
from gapbench.sandbox.launching import Host
from gapbench.sandbox.limits import LATE, Limits
from gapbench.sandbox.sandbox import Answer
from gapbench.sandbox.source import ProxyFile, read_source
from gapbench.submission.drafting import About, draft_entry
from gapbench.submission.fleets import ProxyFleet, Where, measuring
from gapbench.submission.request import PROTOCOL, Request, default_name, note_refusal, request_for

Say = Callable[[str], None]
TYPICAL = 0.3
"""Seconds that a measurement in a process of its own takes on two cores, until some are made."""


@dataclass(frozen=True)
class Submitted:
    """What came of a submission. `entry` is None where it was refused, for the `refusals`.

    `changed` is False where the same entry was there before; `failures` are networks without a value, in words.
    """

    entry: Entry | None
    changed: bool = True
    refusals: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


def submit(
    file: str | os.PathLike[str],
    run: str | os.PathLike[str],
    *,
    name: str | None = None,
    authors: str = "",
    paper: str = "",
    proxy: str | None = None,
    options: Mapping[str, object] | None = None,
    limits: Limits | None = None,
    unsandboxed: bool = False,
    workers: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    retry_failed: bool = False,
    say: Say = lambda text: None,
    hosts: Sequence[Host] | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Submitted:
    """Measure the proxy in `file` on every trained network of `run` and add it to the run's board.

    `name` is its name on the board (default: that in the file), `proxy` chooses one of several that a file
    registers, `options` replace its defaults. Killed at any moment, the same call goes on; the same file again
    changes nothing; a changed file or other options are a new version. `hosts`: two processes started before
    (`gapbench.sandbox.launching.Host`), to be shared by several submissions. `engine` = "ray" measures on the
    nodes of a Ray cluster, that at `address`, each in a sandbox of its own; this process alone writes the run.

    Returns:
        The entry; a proxy that cannot be entered is a result with `refusals`.

    Raises:
        GapbenchError: for wrong usage.
    """
    from gapbench.runs.lock import sole_driver
    from gapbench.runs.run import open_run
    from gapbench.runs.scoring_time import scoring_of

    source, limits = read_source(file), limits or Limits()
    where = Where(unsandboxed, workers, engine, address, hosts)
    where.check()
    population = open_population(run, data_dir)
    same = _same_before(population, source, name, proxy, dict(options or {}))
    if same is not None and not (retry_failed and same.statuses.get("failed")):
        with sole_driver(population.folder):
            _complete_board(population.folder, same, say)
        return Submitted(same, changed=False)
    with sole_driver(population.folder):
        networks = len(population.members) + len(population.one_of_each())
        with (
            scoring_of(open_run(population.folder), more=1) as scoring,
            measuring(where, source, limits, population.packages()) as fleet,
        ):
            countdown = Countdown(
                networks, say, scoring.predicted, "measurements", typical=TYPICAL, before=SANDBOX
            )
            loaded = fleet.describe()
            if loaded.reason or loaded.violations:
                why = [*loaded.violations, *([loaded.reason] if loaded.reason else [])]
                return Submitted(None, refusals=tuple(why))
            description = choose(loaded, proxy)
            request = request_for(population, source, description, name, dict(options or {}))
            known = [entry for entry in load_entries(population.folder) if entry.id == request.identity]
            current = known[0] if known else None
            fleet.proxy, fleet.options = description["name"], request.options
            note_refusal(population.folder, request, ())
            refusals = _measure(fleet, population, source, request, retry_failed, countdown)
        if refusals:
            note_refusal(population.folder, request, refusals)
            return Submitted(None, refusals=tuple(refusals))
        about = About(authors, paper, where.sandbox)
        entry, scores = draft_entry(population, source, request, limits, about, current, say)
        write_entry(population.folder, entry)
        _build_board(population.folder, say, scores)
    return Submitted(entry, failures=tuple(_failures(entry)))


def _same_before(
    population: Population, source: ProxyFile, name: str | None, proxy: str | None, options: dict[str, object]
) -> Entry | None:
    """The entry that the same call made before, on the same networks."""
    for entry in load_entries(population.folder):
        same = (
            entry.source_sha256 == source.sha256
            and population.is_that_of(entry)
            and entry.name == (name or default_name(entry.proxy, entry.options, entry.default_options))
            and proxy in (None, entry.proxy)
            and entry.options == {**entry.default_options, **options}
        )
        if same:
            return entry
    return None


def seed_of(seed: str, cell: str) -> int:
    """The seed of one network's measurement."""
    from gapbench_base.seeds import named_seed

    return named_seed("submission", seed, cell)


def task_for(population: Population, member: Member, seed: str, disturbed: bool = False) -> Assignment:
    """The measurement of one network."""
    from gapbench.population.network import handover_of

    return Assignment(
        member.key, lambda: handover_of(member, population), seed_of(seed, member.key), disturbed
    )


def _description(population: Population, member: Member, request: Request) -> dict[str, object]:
    """All that the measurement on one network depends on; its key is the hash of this."""
    return {
        "protocol": PROTOCOL,
        "submission": request.identity,
        "cell": member.key,
        "weights": member.sha256,
        "seed": request.seed,
        "samples": population.suite.samples,
        "loss": population.suite.loss,
        "measure_seed": population.suite.measure_seed,
    }


def _measure(
    fleet: ProxyFleet,
    population: Population,
    source: ProxyFile,
    request: Request,
    retry_failed: bool,
    countdown: Countdown,
) -> list[str]:
    """Measure what is missing, each result stored at once. Returns why the proxy cannot be entered."""
    from gapbench.runs.store import Store
    from gapbench_base.keys import content_key

    say = countdown.say
    described = {member.key: _description(population, member, request) for member in population.members}
    keys = {cell: content_key(description) for cell, description in described.items()}
    with Store(population.folder) as store:
        statuses = store.statuses("measurements")
        missing = [
            member
            for member in population.members
            if keys[member.key] not in statuses or (retry_failed and statuses[keys[member.key]] == "failed")
        ]

        def keep(cell: str, answer: Answer) -> None:
            record = stored_measurement(
                answer.measurement,
                key=keys[cell],
                cell=cell,
                label=request.label,
                description=described[cell],
                device=population.device,
            )
            store.add_measurements([record])

        if missing:
            _tell_power(population.folder, say)
            tried = population.one_of_each()
            further = [member for member in missing if member not in tried]
            countdown.total = 2 * len(tried) + len(further)
            say(f"Trying {request.label} on {len(tried)} networks, twice each.")
            first = _try(fleet, population, request, countdown)
            if first.refusals:
                return first.refusals
            for cell, answer in first.answers.items():
                if any(member.key == cell for member in missing):
                    keep(cell, answer)
            say(f"Measuring {request.label} on {len(further)} further networks.")
            tasks = [task_for(population, member, request.seed) for member in further]
            for task, answer in fleet.measure(tasks):
                if answer.violations:
                    return [f"{reason} (on one network of several)" for reason in answer.violations]
                keep(task.name, answer)
                countdown.more()
        rows = [row for row in store.measurements() if row.measurement in set(keys.values())]
    values = [row.value for row in rows if row.value is not None]
    if not values:
        reasons = sorted({row.reason for row in rows})[:5]
        return [f"it has no value on any network: {reason}" for reason in reasons]
    if len(values) > 1 and len(set(values)) == 1:
        return [f"it is {values[0]:g} for every network, so it ranks nothing"]
    return []


def _tell_power(run: Path, say: Say) -> None:
    """What the population can decide, as its board says, before anything is measured."""
    from gapbench_leaderboard.scoring.resolving import LARGEST_DIFFERENCE

    try:
        board = json.loads((run / "board" / "data.json").read_text(encoding="utf-8"))
        resolution = board["decision"]["resolution"]
        half, smallest = resolution["half_width"], resolution["smallest_difference"]
    except (OSError, ValueError, KeyError, TypeError):
        return  # no board was built yet, or an earlier gapbench built it
    if not isinstance(half, float) or not isinstance(smallest, float):
        say("This population is too small to say what it can decide: no headline on it means much.")
        return
    decided = "no difference of two can be significant"
    if smallest <= LARGEST_DIFFERENCE:
        decided = f"a difference of two below {smallest:.2f} cannot be significant"
    say(f"On this population a headline is known to about ± {half:.2f}, and {decided}.")


@dataclass(frozen=True)
class _Trial:
    answers: dict[str, Answer]
    refusals: list[str]


def _try(fleet: ProxyFleet, population: Population, request: Request, countdown: Countdown) -> _Trial:
    """One network of each task and family, twice: the second time under other surroundings."""
    members = population.one_of_each()
    tasks = [
        task_for(population, member, request.seed, disturbed)
        for member in members
        for disturbed in (False, True)
    ]
    answers: dict[tuple[str, bool], Answer] = {}
    refusals: dict[str, None] = {}
    for task, answer in fleet.measure(tasks):
        answers[task.name, task.disturbed] = answer
        countdown.more()
        refusals.update(dict.fromkeys(answer.violations))
        if len(answers) == len(members) and all(a.measurement.status == "failed" for a in answers.values()):
            break  # as many measurements as there are kinds, and not one with a result
    if refusals:
        return _Trial({}, list(refusals))
    if all(answer.measurement.status == "failed" for answer in answers.values()):
        reasons = dict.fromkeys(answer.measurement.reason for answer in answers.values())
        return _Trial(
            {}, [f"it failed on every network that was tried: {reason}" for reason in list(reasons)[:5]]
        )
    for member in members:
        reason = repeated(answers[member.key, False], answers[member.key, True], population.suite.name)
        if reason:
            return _Trial({}, [reason])
    return _Trial({member.key: answers[member.key, False] for member in members}, [])


def repeated(first: Answer, second: Answer, where: str) -> str:
    """Why two measurements with the same seed do not agree, in words; empty where they do."""
    a, b = first.measurement, second.measurement
    if a.reason.startswith(LATE) or b.reason.startswith(LATE):
        return ""  # how busy the machine was decides on which of two times a slow proxy is late
    if a.status != b.status:
        failed = a if a.status == "failed" else b
        return (
            f"it is {a.status} in one process and {b.status} in another with the same seed "
            f"({failed.reason or 'no reason'}); it must depend on its context alone"
        )
    if a.value is None or b.value is None or same_value(a.value, b.value):
        return ""
    return (
        f"it is {a.value:.9g} in one process and {b.value:.9g} in another with the same seed (of {where}): it "
        "depends on the clock, on global random state, on the process or on earlier calls; use "
        "context.generator"
    )


def _failures(entry: Entry) -> list[str]:
    return [
        f"{entry.label} on {cell}: {value.reason}"
        for cell, value in entry.values.items()
        if value.status == "failed"
    ]


def _complete_board(run: Path, entry: Entry, say: Say) -> None:
    """Build the board if a kill left it without the entry."""
    path = run / "board" / "data.json"
    try:
        labels = {row["label"] for row in json.loads(path.read_text(encoding="utf-8"))["proxies"]}
    except (OSError, ValueError, KeyError, TypeError):
        labels = set()
    if entry.label not in labels:
        _build_board(run, say)


def _build_board(run: Path, say: Say, scores: Any = None) -> None:
    from gapbench.runs.run import open_run

    page = open_run(run).build_board(scores)
    say(f"Board: {page}")
