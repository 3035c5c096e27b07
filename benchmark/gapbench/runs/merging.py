"""One run of several of one suite: all rows, weights and entries of them, as if it had been made undivided."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gapbench.runs.fitting import by_label, same_data, same_generations, same_suite
from gapbench.runs.gathering import Difference, Gathering
from gapbench.runs.identity import Identity, identity_in
from gapbench.runs.known import META as KNOWN
from gapbench.runs.known import joined
from gapbench.runs.lock import sole_driver
from gapbench.runs.merged_entries import Submissions, submissions_of
from gapbench.runs.merged_files import Files, files_of, half_copied
from gapbench.runs.run import Run, open_run
from gapbench.runs.session import ASKED
from gapbench.runs.staging import appear, staged
from gapbench.runs.store import Store
from gapbench.runs.tables import description_of
from gapbench_base.errors import GapbenchError
from gapbench_base.json_values import plain

SHOWN = 5
SHARD = "shard"
TOGETHER = ("training", "recomputed errors")
"""Stored tables that are joined; of what two runs have, the first counts."""


@dataclass(frozen=True)
class Merged:
    """What a merging did.

    Attributes:
        folder: of the merged run.
        identity: which population it is.
        changed: whether anything was written.
        networks: how many the run has of the sources, and of `measurements` and `entries`.
        measurements: see `networks`.
        entries: see `networks`.
        shared_networks: results that several sources have alike, each further one counted.
        shared_measurements: the same.
        left_out: measurements of submissions that were withdrawn here and made anew elsewhere.
    """

    folder: Path
    identity: Identity
    changed: bool
    networks: int
    measurements: int
    entries: int
    shared_networks: int = 0
    shared_measurements: int = 0
    left_out: int = 0


@dataclass(frozen=True)
class _Sources:
    """The runs that are merged; the first is the target where that is a run already."""

    runs: tuple[Run, ...]
    metas: tuple[Mapping[str, Any], ...]
    submissions: Submissions
    files: Files


def merge(runs: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> Merged:
    """Make one run of several, or add them to the run in `out`. The sources are only read.

    The suite's text, the data and the protocols must be the same. A network or measurement that several have alike
    counts once; one that failed gives way to a result. Entries come along, withdrawn ones too, and so do audits and
    verifications; boards and figures are made anew. Killed at any moment, the same call completes it; the same call
    again changes nothing.

    Args:
        runs: folders.
        out: the folder of the merged run: a new one, or one of a run of the same suite.

    Returns:
        What was done.

    Raises:
        GapbenchError: naming what does not fit, such as a result that two runs have differently, or a damaged
            weight file; nothing is written then but weight files that `out` would have had.
    """
    target = Path(out)
    folders = [Path(run) for run in dict.fromkeys(os.fspath(run) for run in runs)]
    folders = [folder for folder in folders if not _same_folder(folder, target)]
    if not folders:
        raise GapbenchError("Give at least one run beside the folder of the merged one (--out).")
    exists = (target / "run.sqlite").is_file()
    if not exists and target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise GapbenchError(f"{target} exists and is no run: give another folder with --out.")
    with _target_locked(target if exists else None):
        sources = _opened([target, *folders] if exists else folders, exists)
        with staged(target, "merging") as stage:
            return _merged(sources, stage, target, exists)


def _same_folder(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


@contextmanager
def _target_locked(target: Path | None) -> Iterator[None]:
    """No other process works on the target while it is added to."""
    if target is None:
        yield
        return
    with sole_driver(target):
        yield


def _opened(folders: Sequence[Path], exists: bool) -> _Sources:
    """The sources, of which nothing contradicts another but perhaps single results."""
    records, metas = [], []
    for folder in folders:
        with Gathering(folder, readonly=True) as store:
            rows = store.cells()
            for row in rows:
                description_of(store, row)  # a damaged row is not taken over
            records.append({row.cell: row for row in rows})
            metas.append(store.metas())
    runs = [open_run(folder) for folder in folders]
    for run in runs[1:]:
        same_suite(runs[0], run)
    same_data(folders, records)
    labels = by_label(runs)
    same_generations(runs)
    submissions = submissions_of(runs, metas, set(labels), exists)
    return _Sources(tuple(runs), tuple(metas), submissions, files_of(folders, submissions))


def _merged(sources: _Sources, stage: Path, target: Path, exists: bool) -> Merged:
    scratch = stage / "scratch"
    scratch.mkdir()
    with Gathering(scratch) as gathered:
        shared, left_out = _gather(gathered, sources)
        gathered.set_meta("format", sources.metas[0]["format"])
        cells, measurements = gathered.cells(), len(gathered.statuses("measurements"))
        metas = _metas(sources, gathered, exists)
        folder = target if exists else stage / "run"
        new = _new(target, scratch, metas) if exists else True
        files = sources.files.needed(folder, cells, bool(metas["suite"].get("imported")))
    if new or files:
        folder.mkdir(exist_ok=True)
        (folder / "weights").mkdir(exist_ok=True)
        for scrap in half_copied(folder) if files.weights else ():  # of a call that was killed
            scrap.unlink(missing_ok=True)
        for weights in files.weights:
            weights.copy()
        with Gathering(folder) as store:
            store.receive(scratch, metas)
        for further in files.others:
            further.write()
        if not exists:
            appear(folder, target)
    with Store(target, readonly=True) as store:
        identity = identity_in(store)
    return Merged(
        target,
        identity,
        bool(new or files),
        len(cells),
        measurements,
        len(sources.submissions.live),
        shared["cells"],
        shared["measurements"],
        left_out,
    )


def _gather(gathered: Gathering, sources: _Sources) -> tuple[dict[str, int], int]:
    """Take over the rows of all sources."""
    shared, left_out = {"cells": 0, "measurements": 0}, 0
    for number, run in enumerate(sources.runs):
        taken = gathered.take(run.folder, sources.submissions.strange(number))
        if taken.differences:
            raise GapbenchError(
                _told(taken.differences, run.folder, [r.folder for r in sources.runs[:number]])
            )
        left_out += taken.left_out
        for table, count in taken.shared.items():
            shared[table] += count
    return shared, left_out


def _told(differences: Sequence[Difference], folder: Path, earlier: Sequence[Path]) -> str:
    """Which results two runs have differently, by name."""
    lines = []
    for found in differences[:SHOWN]:
        other = next((place for place in earlier if _has(place, found)), earlier[0])
        if found.table == "cells":
            what = f"The network {found.cell} was trained to other results"
        else:
            what = f"The measurement of {found.label} on the network {found.cell} is another one"
        columns = ", ".join(
            name if isinstance(one, bytes) or name == "description" else f"{name} {two!r} and not {one!r}"
            for name, (one, two) in found.columns.items()
        )
        lines.append(f"{what} in {folder} than in {other}: {columns}.")
    more = len(differences) - SHOWN
    lines += [f"... and {more} more."] if more > 0 else []
    lines.append(
        "Other hardware or software gives other networks, which are of another population: nothing was merged. "
        "Give the runs boards of their own, and compare them with `gapbench diff`."
    )
    return "\n".join(lines)


def _has(folder: Path, found: Difference) -> bool:
    with Store(folder, readonly=True) as store:
        return store.statuses(found.table).get(found.key, "failed") != "failed"


def _new(target: Path, scratch: Path, metas: Mapping[str, Any]) -> bool:
    """Whether the target lacks a row or a value."""
    with Gathering(target, readonly=True) as store:
        own = store.metas()
        return bool(store.missing(scratch)) or any(own.get(name) != value for name, value in metas.items())


def _metas(sources: _Sources, gathered: Gathering, exists: bool) -> dict[str, Any]:
    """What the merged run says of itself; a value of None is one that it must not have."""
    found: dict[str, Any] = {}
    for metas in sources.metas:
        for name, value in metas.items():
            if name in TOGETHER and isinstance(value, dict):
                found[name] = value | found.get(name, {})
            elif name.startswith("environment ") and found.get(name, value) != value:
                found[f"{name}+"] = value  # two machines in one microsecond
            else:
                found.setdefault(name, value)
    found["plan"] = list(dict.fromkeys(cell for run in sources.runs for cell in run.cells))
    requests: dict[str, Any] = {}
    for metas in sources.metas:
        for request in metas.get("proxies") or ():
            requests.setdefault(request[2], request)
    found["proxies"] = list(requests.values())
    if KNOWN in found:
        found[KNOWN] = plain(asdict(joined([run.known for run in sources.runs])))
    if sources.submissions.stored:
        found["submissions"] = sources.submissions.stored
    found[SHARD] = None
    found[ASKED] = sources.metas[0].get(ASKED) if exists else None  # of calls on this run, not on its parts
    for name, value in found.items():
        if value is not None:
            gathered.set_meta(name, value)
    found["population"] = identity_in(gathered).as_dict()
    return found
