"""Verify an entry: measure it again on the same networks, or on networks that its author never saw."""

from __future__ import annotations

import datetime
import math
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gapbench.population.progress import Progress
from gapbench.population.stored import open_population
from gapbench.proxies.results import Measurement
from gapbench.runs.comparing import CONFIRMED, UNDECIDED, compare
from gapbench.runs.countdown import SANDBOX, Countdown
from gapbench.runs.entries import find_entry, load_entries, write_entry
from gapbench.runs.entry import Entry, EntryPopulation, EntryValue, Score, Verification
from gapbench.runs.folder import existing_run
from gapbench.sandbox.launching import Host
from gapbench.sandbox.protocol import clean
from gapbench.sandbox.source import source_of
from gapbench.submission.drafting import headline
from gapbench.submission.fleets import Where, measuring
from gapbench.submission.fresh import fresh_suite
from gapbench.submission.submitting import TYPICAL, Say, submit, task_for
from gapbench_base.errors import GapbenchError
from gapbench_base.validation import validated

ROUNDING = 1e-4
"""Relative difference allowed between machines, beside the stated standard errors."""

STANDARD_ERRORS = 4.0


@dataclass(frozen=True)
class Verified:
    """What came of a verification; `written`: whether the entry belongs to this run and now says so.

    On the `same networks` (`kind`) the outcome is confirmed or refuted, on `fresh networks` as
    `gapbench.runs.comparing` has it; `text` says why.
    """

    record: Verification
    written: bool

    @property
    def outcome(self) -> str:
        """`confirmed`, `refuted`, `contradicted`, `not contradicted` or `undecided`."""
        return self.record.outcome

    @property
    def kind(self) -> str:
        """`same networks` or `fresh networks`."""
        return self.record.kind or ""

    @property
    def text(self) -> str:
        """Why, in words."""
        return self.record.text or ""


def verify(
    wanted: str,
    run: str | os.PathLike[str],
    *,
    fresh_seeds: bool = False,
    out: str | os.PathLike[str] | None = None,
    unsandboxed: bool = False,
    workers: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    by: str = "",
    say: Say = lambda text: None,
    progress: Progress | None = None,
    hosts: Sequence[Host] | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Verified:
    """Verify an entry of `run`, by label, name, identity or file.

    Without `fresh_seeds` every network is measured again with the recorded seed; the entry is confirmed if all
    agree with the recorded values within rounding and four combined standard errors. With it a population of
    the same suite is trained with new network seeds and new data seeds in `out` (default: a new folder
    RUN/verification/...); `gapbench.runs.comparing.compare` says which outcome its score there has.
    `by` names who verifies; where nobody is named, or one of the entry's authors, the board says that its author
    did. `progress` hears of the networks that are trained. `engine` and `address` are those of `submit`.

    Returns:
        The outcome, and whether it was written into the entry.

    Raises:
        GapbenchError: for wrong usage, and if the entry was measured on other networks than the run's.
    """
    folder = existing_run(run)
    entry = find_entry(folder, wanted)
    source = source_of(entry.source.encode(), entry.proxy)
    if source.sha256 != entry.source_sha256:
        raise GapbenchError(f"The entry {entry.label}: its source does not have the checksum that it states.")
    where = Where(unsandboxed, workers, engine, address, hosts)
    where.check()  # before hours of training
    if fresh_seeds:
        found = _on_fresh(entry, folder, out, where, data_dir, say, progress)
    else:
        found = _on_same(entry, folder, where, data_dir, say)
    return _keep(found, entry, folder, by, say)


def _on_same(
    entry: Entry,
    run: Path,
    where: Where,
    data_dir: str | os.PathLike[str] | None,
    say: Say,
) -> Verification:
    from gapbench.runs.run import open_run
    from gapbench.runs.scoring_time import scoring_of

    population = open_population(run, data_dir)
    if not population.is_that_of(entry):
        raise GapbenchError(
            f"The entry {entry.label} was measured on other networks than those of {run} (fingerprint "
            f"{entry.population.fingerprint}, here {population.fingerprint}). Submit it again, or verify "
            "with --fresh-seeds."
        )
    source = source_of(entry.source.encode(), entry.proxy)
    say(f"Measuring {entry.label} again on {len(population.members)} networks.")
    differing = []
    tasks = [task_for(population, member, entry.seed) for member in population.members]
    with scoring_of(open_run(run)) as scoring:
        countdown = Countdown(len(tasks), say, scoring.predicted, typical=TYPICAL, before=SANDBOX)
        with measuring(
            where, source, entry.limits, population.packages(), entry.proxy, entry.options
        ) as fleet:
            for task, answer in fleet.measure(tasks):
                countdown.more()
                text = disagreement(entry.values.get(task.name), answer.measurement)
                if text:
                    differing.append(f"network {task.name}: {text}")
    examples = sorted(differing)[:5]
    text = f"all {len(population.members)} values agree within their stated errors"
    if differing:
        text = f"{len(differing)} of {len(population.members)} networks differ:\n" + "\n".join(examples)
    return Verification(
        outcome="refuted" if differing else CONFIRMED,
        kind="same networks",
        population=validated(population.identity.as_dict(), EntryPopulation, "The population"),
        networks=len(population.members),
        differing=len(differing),
        examples=tuple(examples),
        text=text,
    )


def role_of(by: str, authors: str) -> str:
    """In which role somebody verifies; nobody named is taken for the author.

    Returns:
        `author`, `another`, or `unknown` where the entry names no author.
    """
    name = _plain(by)
    if not name:
        return "author"
    if not authors.strip():
        return "unknown"
    names = re.split(r"[,;&\n]|\band\b", authors)
    return "author" if name in map(_plain, [*names, authors]) else "another"


def _plain(name: str) -> str:
    """A name without case, points and spaces, which people write differently."""
    return "".join(character for character in name.casefold() if character.isalnum())


def disagreement(claimed: EntryValue | None, found: Measurement) -> str:
    """How a measurement contradicts the recorded one, in words; empty where it does not."""
    if claimed is None:
        return "has no recorded value"
    if claimed.status != found.status:
        return f"recorded as {claimed.status}, now {found.status} ({found.reason or 'with a value'})"
    if found.value is None or claimed.value is None:
        return ""
    old, new = float(claimed.value), found.value
    errors = (claimed.standard_error or 0.0, found.standard_error or 0.0)
    allowed = ROUNDING * max(abs(old), abs(new)) + STANDARD_ERRORS * math.hypot(*errors)
    if abs(old - new) <= allowed:
        return ""
    return f"recorded as {old:.6g}, now {new:.6g}; {allowed:.2g} is allowed"


def _on_fresh(
    entry: Entry,
    run: Path,
    out: str | os.PathLike[str] | None,
    where: Where,
    data_dir: str | os.PathLike[str] | None,
    say: Say,
    progress: Progress | None,
) -> Verification:
    from gapbench.running import run as run_suite
    from gapbench.runs.run import open_run
    from gapbench.runs.weight_location import location_of

    suite = open_run(run).suite
    folder = Path(out) if out is not None else run / "verification" / secrets.token_hex(4)
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "suite.toml"
    if not text.exists():  # an interrupted verification goes on with the seeds that it drew
        text.write_text(fresh_suite(suite), encoding="utf-8")
    say(f"Training a population with fresh seeds in {folder}; the same command with --out {folder} goes on.")
    place: dict[str, Any] = {"engine": where.engine, "address": where.address, "workers": where.workers}
    kept = location_of(run)
    weights = None if kept is None else f"{kept}/verification-{folder.name}"
    run_suite(text, folder, data_dir=data_dir, board=False, weights=weights, progress=progress, **place)
    file = folder / f"{entry.proxy}.py"
    file.write_text(entry.source, encoding="utf-8")
    done = submit(
        file,
        folder,
        name=entry.name,
        proxy=entry.proxy,
        options=entry.options,
        limits=entry.limits,
        unsandboxed=where.unsandboxed,
        data_dir=data_dir,
        say=say,
        hosts=where.hosts,
        **place,
    )
    if done.entry is None:
        return Verification(
            outcome=UNDECIDED,
            kind="fresh networks",
            claimed=entry.claimed,
            refused=done.refusals,
            text=f"it cannot be entered there: {'; '.join(done.refusals)}",
        )
    claimed = claim_of(entry, run)
    outcome, why = compare(claimed, done.entry.claimed)
    return Verification(
        outcome=outcome,
        kind="fresh networks",
        population=done.entry.population,
        claimed=claimed,
        fresh=done.entry.claimed,
        text=why,
    )


def claim_of(entry: Entry, run: Path) -> Score:
    """What an entry claims; of one that was scored before networks of one problem were compared, what `run` scores.

    Returns:
        The claim, which a headline of today can be compared with.
    """
    from gapbench.runs.run import open_run

    if any(row.estimator == "beats_random" for row in entry.scores):
        return entry.claimed
    scores = open_run(run).scores(targets=("gap",))
    own = scores[scores["proxy"] == entry.label]
    return headline(own) if len(own) else entry.claimed


def _keep(found: Verification, entry: Entry, run: Path, by: str, say: Say) -> Verified:
    """Write the outcome into the run's own entry and rebuild the board, if the entry is the run's own."""
    from gapbench.runs.lock import sole_driver
    from gapbench.runs.run import open_run
    from gapbench.runs.scoring_time import scored
    from gapbench_base.version import __version__

    record = replace(
        found,
        by=clean(by.strip()),
        role=role_of(by, entry.authors or ""),
        gapbench=__version__,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    own = [known for known in load_entries(run) if known.id == entry.id]
    if not own or own[0].source_sha256 != entry.source_sha256:
        return Verified(record, False)
    with sole_driver(run):
        write_entry(run, replace(own[0], verifications=(*own[0].verifications, record)))
        opened = open_run(run)
        say(f"Board: {opened.build_board(scored(opened, say))}")
    return Verified(record, True)
