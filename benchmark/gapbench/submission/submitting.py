"""Submit a proxy: measure it on a trained population, apart from everything else, and add it to the board."""

from __future__ import annotations

import datetime
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gapbench.errors import GapbenchError, did_you_mean
from gapbench.submission.entry import FORMAT, NAME, RULES, Entry, load_entries, plain, write_entry
from gapbench.submission.fleet import Fleet, Task, same_value, sandboxed
from gapbench.submission.limits import Limits
from gapbench.submission.population import Member, Population, open_population
from gapbench.submission.protocol import clean
from gapbench.submission.sandbox import Answer, Host, Loaded
from gapbench.submission.source import Source, read_source

PROTOCOL = 1
Say = Callable[[str], None]


@dataclass(frozen=True)
class Submitted:
    """What came of a submission. `entry` is None where it was refused, for the `refusals`.

    `changed` is False where the same entry was there before; `failures` are networks without a value, in words.
    """

    entry: Entry | None
    changed: bool = True
    refusals: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Request:
    """A submission after the file was loaded."""

    identity: str
    name: str
    label: str
    version: int
    seed: str
    description: dict[str, Any] = field(repr=False)
    options: dict[str, Any] = field(default_factory=dict)


def submit(
    file: str | os.PathLike[str],
    run: str | os.PathLike[str],
    *,
    name: str | None = None,
    authors: str = "",
    paper: str = "",
    proxy: str | None = None,
    options: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    unsandboxed: bool = False,
    workers: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    retry_failed: bool = False,
    say: Say = lambda text: None,
    hosts: Sequence[Host] | None = None,
) -> Submitted:
    """Measure the proxy in `file` on every trained network of `run` and add it to the run's board.

    `name` is its name on the board (default: that in the file), `proxy` chooses one of several that a file
    registers, `options` replace its defaults. Killed at any moment, the same call goes on; the same file again
    changes nothing; a changed file or other options are a new version. `hosts`: two processes started before
    (`gapbench.submission.sandbox.Host`), to be shared by several submissions.

    Raises `GapbenchError` for wrong usage. A proxy that cannot be entered is a result with `refusals`.
    """
    from gapbench.environment import usable_cores
    from gapbench.population.lock import sole_driver

    source, limits = read_source(file), limits or Limits()
    safe = sandboxed(unsandboxed)
    population = open_population(run, data_dir)
    same = _same_before(population, source, name, proxy, dict(options or {}))
    if same is not None and not (retry_failed and same["statuses"].get("failed")):
        with sole_driver(population.folder):
            _complete_board(population.folder, same, say)
        return Submitted(same, changed=False)
    with sole_driver(population.folder):
        fleet = Fleet(
            source,
            limits,
            sandboxed=safe,
            workers=workers or usable_cores(),
            packages=population.packages(),
            hosts=hosts,
        )
        with fleet:
            loaded = fleet.describe()
            if loaded.reason or loaded.violations:
                why = [*loaded.violations, *([loaded.reason] if loaded.reason else [])]
                return Submitted(None, refusals=tuple(why))
            description = choose(loaded, proxy)
            request = _request(population, source, description, name, dict(options or {}))
            known = [entry for entry in load_entries(population.folder) if entry["id"] == request.identity]
            current = known[0] if known else None
            fleet.proxy, fleet.options = description["name"], request.options
            refusals = _measure(fleet, population, source, request, retry_failed, say)
        if refusals:
            return Submitted(None, refusals=tuple(refusals))
        about = {"authors": authors, "paper": paper, "sandbox": "bubblewrap" if safe else "none"}
        entry, scores = _entry(population, source, request, limits, about, current, say)
        write_entry(population.folder, entry)
        _build_board(population.folder, say, scores)
    return Submitted(entry, failures=tuple(_failures(entry)))


def _same_before(
    population: Population, source: Source, name: str | None, proxy: str | None, options: dict[str, Any]
) -> Entry | None:
    """The entry that the same call made before, on the same networks."""
    for entry in load_entries(population.folder):
        same = (
            entry["source_sha256"] == source.sha256
            and entry["population"]["fingerprint"] == population.fingerprint
            and entry["name"] == (name or entry["proxy"])
            and proxy in (None, entry["proxy"])
            and entry["options"] == {**entry["default_options"], **options}
        )
        if same:
            return entry
    return None


def choose(loaded: Loaded, proxy: str | None) -> dict[str, Any]:
    """The one proxy that is meant, checked. Raises `GapbenchError`."""
    from gapbench.proxies.registry import DIRECTIONS

    names = [str(entry.get("name")) for entry in loaded.proxies]
    if not names:
        raise GapbenchError("The file registers no proxy: put @gapbench.proxy(NAME) before a function.")
    if proxy is None and len(names) > 1:
        raise GapbenchError(f"The file registers {', '.join(names)}. Choose one with --proxy NAME.")
    chosen = [entry for entry in loaded.proxies if proxy in (None, entry.get("name"))]
    if not chosen:
        hint = did_you_mean(proxy, names)
        raise GapbenchError(f"The file registers no proxy {proxy!r}.{hint} It has: {', '.join(names)}.")
    found = chosen[0]
    fits = (
        isinstance(found.get("name"), str)
        and NAME.fullmatch(found["name"]) is not None
        and isinstance(found.get("version"), int)
        and found.get("higher_means") in DIRECTIONS
        and isinstance(found.get("options"), dict)
        and all(v is None or isinstance(v, bool | int | float | str) for v in found["options"].values())
    )
    if not fits:
        raise GapbenchError("The file's process sent a garbled description of the proxy.")
    text = {key: clean(found.get(key) or "") for key in ("summary", "reference")}
    return {**found, **text}


def _request(
    population: Population,
    source: Source,
    description: dict[str, Any],
    name: str | None,
    options: dict[str, Any],
) -> _Request:
    """Name, version and seed of a submission; new ones are drawn and kept in the run's database."""
    from gapbench.population.plan import content_key
    from gapbench.population.store import Store
    from gapbench.proxies.registry import list_proxies
    from gapbench_leaderboard.scores import BASELINES

    chosen = checked_options(description, options)
    label = name or description["name"]
    if not 1 <= len(label) <= 64 or not label.isprintable() or label != label.strip():
        raise GapbenchError(f"The name {label!r} must be 1 to 64 printable characters.")
    taken = {*list_proxies(), *BASELINES, *(request.label for request in population.suite.proxies)}
    if label in taken:
        raise GapbenchError(f"The board already has a row {label!r}. Choose another name with --name.")
    identity = content_key(
        {
            "protocol": PROTOCOL,
            "name": label,
            "proxy": description["name"],
            "source": source.sha256,
            "options": chosen,
            "suite": population.suite.text,
        }
    )
    with Store(population.folder) as store:
        kept: dict[str, Any] = store.meta("submissions") or {}
        if identity not in kept:
            version = 1 + max((s["version"] for s in kept.values() if s["name"] == label), default=0)
            shown = label if version == 1 else f"{label} v{version}"
            # Drawn now: seeds that could be computed before would tell a proxy which network it looks at.
            kept[identity] = {
                "name": label,
                "version": version,
                "label": shown,
                "seed": secrets.token_hex(16),
            }
            store.set_meta("submissions", kept)
    mine = kept[identity]
    return _Request(identity, label, mine["label"], mine["version"], mine["seed"], description, chosen)


def checked_options(description: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults and given options together. Raises `GapbenchError` for an unknown one or one of another type."""
    defaults: dict[str, Any] = description["options"]
    for option, value in options.items():
        if option not in defaults:
            hint, known = did_you_mean(option, defaults), ", ".join(defaults) or "none"
            raise GapbenchError(f"{description['name']} has no option {option!r}.{hint} Options: {known}.")
        default = defaults[option]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if isinstance(default, bool) != isinstance(value, bool) or (
            isinstance(default, int | float) and not isinstance(default, bool) and not number
        ):
            raise GapbenchError(f"{option} = {value!r} is not of the kind of its default {default!r}.")
    return {**defaults, **options}


def seed_of(seed: str, cell: str) -> int:
    """The seed of one network's measurement."""
    from gapbench_tasks.seeds import named_seed

    return named_seed("submission", seed, cell)


def task_for(population: Population, member: Member, seed: str, disturbed: bool = False) -> Task:
    """The measurement of one network."""
    from gapbench.submission.handover import handover_of

    return Task(member.key, lambda: handover_of(member, population), seed_of(seed, member.key), disturbed)


def _measure(
    fleet: Fleet, population: Population, source: Source, request: _Request, retry_failed: bool, say: Say
) -> list[str]:
    """Measure what is missing, each result stored at once. Returns why the proxy cannot be entered."""
    from gapbench.population.plan import content_key
    from gapbench.population.store import Store

    described = {
        member.key: {
            "protocol": PROTOCOL,
            "submission": request.identity,
            "cell": member.key,
            "weights": member.sha256,
            "seed": request.seed,
            "samples": population.suite.samples,
            "loss": population.suite.loss,
            "measure_seed": population.suite.measure_seed,
        }
        for member in population.members
    }
    keys = {cell: content_key(description) for cell, description in described.items()}
    with Store(population.folder) as store:
        statuses = store.statuses("measurements")
        missing = [
            member
            for member in population.members
            if keys[member.key] not in statuses or (retry_failed and statuses[keys[member.key]] == "failed")
        ]

        def keep(cell: str, answer: Answer) -> None:
            found = answer.measurement
            record = {
                "measurement": keys[cell],
                "cell": cell,
                "proxy": request.description["name"],
                "label": request.label,
                "description": json.dumps(described[cell], sort_keys=True),
                "value": found.value,
                "standard_error": found.standard_error,
                "seconds": found.seconds,
                "peak_memory": found.peak_memory,
                "status": found.status,
                "reason": found.reason,
                "details": json.dumps(plain(found.details), sort_keys=True),
                "device": population.device,
            }
            store.add_measurements([record])

        if missing:
            say(f"Trying {request.label} on {len(population.one_of_each())} networks, twice each.")
            first = _try(fleet, population, request)
            if first.refusals:
                return first.refusals
            for cell, answer in first.answers.items():
                if any(member.key == cell for member in missing):
                    keep(cell, answer)
            missing = [member for member in missing if member.key not in first.answers]
            say(f"Measuring {request.label} on {len(missing)} further networks.")
            tasks = [task_for(population, member, request.seed) for member in missing]
            for count, (task, answer) in enumerate(fleet.measure(tasks), start=1):
                if answer.violations:
                    return [f"{reason} (on one network of several)" for reason in answer.violations]
                keep(task.name, answer)
                if count % 20 == 0:
                    say(f"{count}/{len(tasks)} networks measured")
        rows = [row for row in store.measurements() if row["measurement"] in set(keys.values())]
    values = [row["value"] for row in rows if row["status"] == "ok"]
    if not values:
        reasons = sorted({row["reason"] for row in rows})[:5]
        return [f"it has no value on any network: {reason}" for reason in reasons]
    if len(values) > 1 and len(set(values)) == 1:
        return [f"it is {values[0]:g} for every network, so it ranks nothing"]
    return []


@dataclass(frozen=True)
class _Trial:
    answers: dict[str, Answer]
    refusals: list[str]


def _try(fleet: Fleet, population: Population, request: _Request) -> _Trial:
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


def _entry(
    population: Population,
    source: Source,
    request: _Request,
    limits: Limits,
    about: Mapping[str, Any],
    before: Entry | None,
    say: Say,
) -> tuple[Entry, Any]:
    """The entry, not yet written, and the scores of the whole board with it."""
    from gapbench import __version__
    from gapbench.environment import environment
    from gapbench.running import open_run

    say("Scoring.")
    draft: Entry = {
        "format": FORMAT,
        "id": request.identity,
        "name": request.name,
        "label": request.label,
        "version": request.version,
        "proxy": request.description["name"],
        "summary": request.description.get("summary", ""),
        "reference": request.description.get("reference", ""),
        "higher_means": request.description["higher_means"],
        **about,
        "rules": RULES,
        "gapbench": __version__,
        "submitted": (before or {}).get("submitted")
        or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "source_sha256": source.sha256,
        "options": request.options,
        "default_options": request.description["options"],
        "seed": request.seed,
        "limits": limits.as_dict(),
        "suite": {"name": population.suite.name, "version": population.suite.version},
        "population": {"fingerprint": population.fingerprint, "networks": len(population.members)},
        "environment": environment(population.device),
    }
    run = open_run(population.folder, drafts=[draft])
    rows = run.measurements[run.measurements["proxy"] == request.label]
    ok = rows[rows["status"] == "ok"]
    draft["statuses"] = {str(k): int(v) for k, v in rows["status"].value_counts().items()}
    draft["cost"] = {
        "seconds_median": ok["seconds"].median(),
        "seconds_total": rows["seconds"].sum(),
        "peak_memory_max": ok["peak_memory"].max(),
    }
    scores = run.scores()
    own = scores[scores["proxy"] == request.label]
    draft["claimed"] = headline(own)
    draft["scores"] = own.drop(columns=["proxy"]).to_dict("records")
    draft["values"] = {
        row["cell"]: {key: row[key] for key in ("status", "value", "standard_error", "reason")}
        for row in rows.to_dict("records")
    }
    draft["verifications"] = []
    draft["source"] = source.content.decode("utf-8")
    return draft, scores


def headline(scores: Any) -> dict[str, Any]:
    """tau with the gap, mean over tasks, of one proxy's rows in the long form."""
    rows = scores[
        (scores["estimator"] == "tau")
        & (scores["target"] == "gap")
        & (scores["task"].fillna("") == "")
        & (scores["family"].fillna("") == "")
    ]
    if not len(rows):
        return {"estimator": "tau", "target": "gap", "value": None, "low": None, "high": None, "models": 0}
    row = rows.iloc[0]
    found = {key: float(row[key]) for key in ("value", "low", "high")}
    return {"estimator": "tau", "target": "gap", **found, "models": int(row["models"])}


def _failures(entry: Entry) -> list[str]:
    return [
        f"{entry['label']} on {cell}: {value['reason']}"
        for cell, value in entry["values"].items()
        if value["status"] == "failed"
    ]


def _complete_board(run: Path, entry: Entry, say: Say) -> None:
    """Build the board if a kill left it without the entry."""
    path = run / "board" / "data.json"
    try:
        labels = {row["label"] for row in json.loads(path.read_text(encoding="utf-8"))["proxies"]}
    except (OSError, ValueError, KeyError, TypeError):
        labels = set()
    if entry["label"] not in labels:
        _build_board(run, say)


def _build_board(run: Path, say: Say, scores: Any = None) -> None:
    from gapbench.running import open_run

    page = open_run(run).build_board(scores)
    say(f"Board: {page}")
