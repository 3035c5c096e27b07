"""How far a run is, read beside the process that works on it: nothing is locked, written or held up."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gapbench.runs.session import ASKED
from gapbench.runs.store import Store, disk_errors
from gapbench_base.errors import GapbenchError

LOCKS = Path("/proc/locks")


@dataclass(frozen=True)
class GroupStatus:
    """Of the networks of a task and family: how many are `planned`, trained (by status), failed, and under way."""

    task: str
    family: str
    planned: int
    done: int
    failed: int
    running: int


@dataclass(frozen=True)
class Failure:
    """What failed: a network, or the measurement `label` on it; and why."""

    cell: str
    task: str
    family: str
    label: str
    reason: str


@dataclass(frozen=True)
class RunStatus:
    """How far a run is.

    Attributes:
        folder: of the run, of a `suite` of a `version`.
        suite: see `folder`.
        version: see `folder`.
        shard: the part of the suite that it is, None for the whole.
        process: that works on it on this machine, None if none does.
        networks: by status (`converged`, `not_converged`, `diverged`, `failed`), of those `planned`.
        planned: how many the last call of `gapbench run` asked for.
        measurements: by status, without those of submissions, of those `wanted`.
        wanted: how many there will be, if no more networks diverge or fail.
        running_networks: that are trained now; `running_measurements` likewise.
        running_measurements: see `running_networks`.
        groups: by task and family.
        failures: in the order in which they happened.
        networks_per_hour: since the last call began, as long as it lasts, with `measurements_per_hour`.
        measurements_per_hour: see `networks_per_hour`.
        seconds_left: until networks and measurements are done, without scoring; None where it cannot be told.
        last_result: seconds since the last result; None where there is none.
    """

    folder: str
    suite: str
    version: int
    shard: str | None
    process: int | None
    networks: Mapping[str, int]
    planned: int
    measurements: Mapping[str, int]
    wanted: int
    running_networks: int
    running_measurements: int
    groups: tuple[GroupStatus, ...]
    failures: tuple[Failure, ...]
    networks_per_hour: float | None
    measurements_per_hour: float | None
    seconds_left: float | None
    last_result: float | None

    def as_dict(self) -> dict[str, object]:
        """As plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class _Cell:
    task: str
    family: str
    status: str
    reason: str
    seconds: float
    finished: float


class _Reader(Store):
    """Reads little of a database, all of one moment."""

    def __init__(self, folder: Path):
        super().__init__(folder, readonly=True)
        with disk_errors(self.path):
            self._db.execute("BEGIN")

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with disk_errors(self.path):
            return [tuple(row) for row in self._db.execute(query, values).fetchall()]

    def latest(self, table: str, key: str, columns: str) -> list[tuple[Any, ...]]:
        return self.rows(
            f"SELECT {columns} FROM {table} AS a WHERE attempt = (SELECT MAX(attempt) FROM {table} AS b "
            f"WHERE b.{key} = a.{key}) ORDER BY a.finished, a.rowid"
        )

    def results(self) -> tuple[dict[str, _Cell], list[tuple[Any, ...]]]:
        """Networks by key; measurements but submissions: key, cell, label, status, reason, seconds, finished."""
        cells = {
            row[0]: _Cell(*row[1:])
            for row in self.latest(
                "cells", "cell", "cell, task, family, status, reason, COALESCE(seconds, 0), finished"
            )
        }
        measured = [
            row
            for row in self.latest(
                "measurements",
                "measurement",
                "measurement, cell, label, status, reason, COALESCE(seconds, 0), finished, "
                "description LIKE '%\"submission\":%'",
            )
            if not row[7]
        ]
        return cells, measured


def status_of(folder: str | os.PathLike[str]) -> RunStatus:
    """How far a run is.

    Args:
        folder: of the run, which another process may be working on.

    Returns:
        What is done, running, failed, and how long the rest will take.

    Raises:
        GapbenchError: if there is no run.
    """
    path = Path(folder)
    process = worker_of(path)
    with _Reader(path) as store:
        suite, planned = store.meta("suite"), list(store.meta("plan") or ())
        if not isinstance(suite, dict):
            raise GapbenchError(f"{path} has a run.sqlite, but no suite was run there yet.")
        asked, shard = store.meta(ASKED) or {}, store.meta("shard")
        labels = asked.get("labels") or [request[2] for request in store.meta("proxies") or ()]
        cells, own = store.results()
        begun = store.rows("SELECT key, MAX(begun) FROM attempts GROUP BY key")
    groups = _groups(asked, planned, cells)
    chosen = {cell for keys in groups.values() for cell in keys}
    cells = {cell: found for cell, found in cells.items() if cell in chosen}
    made = [row for row in own if row[1] in chosen and row[2] in labels]
    now, began = time.time(), float(asked.get("began", 0.0))
    ended = {cell: found.finished for cell, found in cells.items()} | {row[0]: row[6] for row in own}
    running = {key for key, at in begun if process and at >= began and ended.get(key, 0.0) < at}
    training = running & chosen
    unmeasurable = sum(found.status in ("diverged", "failed") for found in cells.values())
    wanted = (len(chosen) - unmeasurable) * len(labels) * int(asked.get("repeats", 1))
    hours = max(now - began, 1.0) / 3600
    fresh = [found for found in cells.values() if found.finished >= began]
    measured = [row for row in made if row[6] >= began]
    at_work = process is not None and began > 0
    left = _left(groups, cells, made, wanted, asked, now) if at_work else None
    last = max([*ended.values()], default=None)
    return RunStatus(
        folder=str(path),
        suite=suite["name"],
        version=suite["version"],
        shard=shard,
        process=process,
        networks=_counted([found.status for found in cells.values()]),
        planned=len(chosen),
        measurements=_counted([row[3] for row in made]),
        wanted=max(wanted, len(made)),
        running_networks=len(training),
        running_measurements=len(running - chosen),
        groups=tuple(_group(group, keys, cells, training) for group, keys in groups.items()),
        failures=tuple(_failures(cells, made)),
        networks_per_hour=len(fresh) / hours if at_work else None,
        measurements_per_hour=len(measured) / hours if at_work else None,
        seconds_left=left,
        last_result=None if last is None else max(0.0, now - last),
    )


def worker_of(run: Path) -> int | None:
    """The process of this machine that works on a run, found without touching its lock; None if there is none."""
    path = run / "driver.lock"
    try:
        holder, inode = int(path.read_text().strip() or 0), path.stat().st_ino
    except (OSError, ValueError):
        return None
    with contextlib.suppress(OSError):
        for line in LOCKS.read_text().splitlines():
            parts = line.split()
            if "FLOCK" in parts and "->" not in parts and parts[5].rpartition(":")[2] == str(inode):
                return holder or int(parts[4])
        return None
    try:  # no list of locks on this system: the process that wrote its number there
        os.kill(holder, 0)
    except (OSError, OverflowError):
        return None
    return holder or None


def _groups(
    asked: Mapping[str, Any], planned: Sequence[str], cells: Mapping[str, _Cell]
) -> dict[tuple[str, str], list[str]]:
    """Keys of what was asked for by task and family; what was never said of is under empty names."""
    if "groups" in asked:
        return {(task, family): list(keys) for task, family, keys in asked["groups"]}
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in planned:
        own = cells.get(cell)
        found[(own.task, own.family) if own else ("", "")].append(cell)
    return dict(sorted(found.items(), key=lambda item: item[0] == ("", "")))


def _counted(statuses: Sequence[str]) -> dict[str, int]:
    return {status: statuses.count(status) for status in dict.fromkeys(sorted(statuses))}


def _group(
    group: tuple[str, str], keys: Sequence[str], cells: Mapping[str, _Cell], training: set[str]
) -> GroupStatus:
    own = [cells[key] for key in keys if key in cells]
    failed = sum(found.status == "failed" for found in own)
    return GroupStatus(*group, len(keys), len(own) - failed, failed, len(training & set(keys)))


def _failures(cells: Mapping[str, _Cell], made: Sequence[tuple[Any, ...]]) -> list[Failure]:
    found = [
        (own.finished, Failure(cell, own.task, own.family, "", own.reason))
        for cell, own in cells.items()
        if own.status == "failed"
    ]
    for row in made:
        if row[3] == "failed":
            own = cells.get(row[1])
            place = (own.task, own.family) if own else ("", "")
            found.append((row[6], Failure(row[1], *place, row[2], row[4])))
    return [failure for _, failure in sorted(found, key=lambda pair: pair[0])]


def _left(
    groups: Mapping[tuple[str, str], Sequence[str]],
    cells: Mapping[str, _Cell],
    made: Sequence[tuple[Any, ...]],
    wanted: int,
    asked: Mapping[str, Any],
    now: float,
) -> float | None:
    """Seconds of the rest: as many as its networks and measurements state on average, at the speed of this call."""
    began = float(asked["began"])
    stated: float = sum(own.seconds for own in cells.values() if own.finished >= began)
    stated += sum(row[5] for row in made if row[6] >= began)
    trained = [own for own in cells.values() if own.status != "failed"]
    untrained = sum(key not in cells for keys in groups.values() for key in keys)
    if stated <= 0 or (untrained and not trained) or (wanted > len(made) and not made):
        return None
    mean = sum(own.seconds for own in trained) / max(1, len(trained))
    rest: float = 0.0
    for keys in groups.values():
        own = [cells[key].seconds for key in keys if key in cells and cells[key].status != "failed"]
        rest += sum(key not in cells for key in keys) * (sum(own) / len(own) if own else mean)
    if made:
        rest += max(0, wanted - len(made)) * sum(row[5] for row in made) / len(made)
    return rest * (now - began) / stated
