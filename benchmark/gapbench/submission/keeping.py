"""Keep a run's entries in order: list, withdraw, put back and rename them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gapbench.runs.entries import (
    entries_folder,
    find_entry,
    load_entries,
    named,
    read_entry,
    verified_words,
    write_entry,
)
from gapbench.runs.entry import Entry
from gapbench.runs.folder import existing_run
from gapbench.submission.request import check_name
from gapbench_base.errors import GapbenchError, TableError

Say = Callable[[str], None]
WITHDRAWN = "withdrawn"
"""The folder within that of the entries where withdrawn ones lie; nothing of them is lost."""


@dataclass(frozen=True)
class Listed:
    """An entry as a list shows it. `remarks` are what its reader should know, in words."""

    entry: Entry
    withdrawn: bool = False
    remarks: tuple[str, ...] = ()


def listed(run: str | os.PathLike[str]) -> list[Listed]:
    """All entries of a run by name and version, then those that were withdrawn.

    Returns:
        The entries with remarks: the same source under two names, another population, how it was verified.

    Raises:
        GapbenchError: if there is no run, or an entry is damaged.
    """
    from gapbench.runs.belonging import strangers
    from gapbench.runs.run import open_run

    opened, on_board = open_run(run), _on_board(Path(run))
    same: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in opened.entries:
        same[_what(entry)].append(entry.label)
    found = []
    for entry in sorted(opened.entries, key=lambda entry: (entry.name, entry.version)):
        remarks = [words] if (words := verified_words(entry)) else []
        others = [label for label in same[_what(entry)] if label != entry.label]
        if others:
            remarks.append(f"the same source and options as {', '.join(others)}")
        remarks += strangers([entry], opened.identity, opened.checksums)
        if on_board and entry.label not in on_board:
            remarks.append(f"not on the board yet: gapbench board {run}")
        found.append(Listed(entry, remarks=tuple(remarks)))
    live = {entry.label for entry in opened.entries}
    for entry in _withdrawn(Path(run)):
        still = entry.label in on_board - live
        remarks = [f"still on the board, which is older: gapbench board {run}"] if still else []
        found.append(Listed(entry, withdrawn=True, remarks=tuple(remarks)))
    return found


def _on_board(run: Path) -> set[str]:
    """The rows of the board as it lies there; none where there is none, or it cannot be read."""
    from gapbench_leaderboard.board.scores_file import read_scores

    try:
        return set(read_scores(run / "board")["proxy"])
    except (TableError, OSError):
        return set()


@dataclass(frozen=True)
class Begun:
    """A submission of which there are values but no entry.

    Attributes:
        label: that its entry would have.
        name: likewise, without the version.
        networks: that have a value or a reason why there is none.
        refused: why it was not entered; empty where it was interrupted.
    """

    label: str
    name: str
    networks: int
    refused: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What became of it."""
        how = f"it was refused: {'; '.join(self.refused)}" if self.refused else "it was interrupted"
        return f"{self.label}: measured on {self.networks} networks, but no entry: {how}."


def begun(run: str | os.PathLike[str]) -> list[Begun]:
    """Submissions of which there are values but no entry, by label.

    Returns:
        What became of each.
    """
    from gapbench.runs.store import Store

    folder = Path(run)
    entries = [*load_entries(folder), *_withdrawn(folder)]
    known = {entry.id for entry in entries} | {entry.label for entry in entries}
    with Store(folder, readonly=True) as store:
        submissions = store.meta("submissions") or {}
        waiting = {
            own["label"]: own
            for identity, own in submissions.items()
            if identity not in known and own["label"] not in known
        }
        counts = Counter(row.label for row in store.measured() if row.label in waiting) if waiting else {}
    return [
        Begun(label, waiting[label]["name"], count, tuple(waiting[label].get("refused", ())))
        for label, count in sorted(counts.items())
    ]


def _withdrawn(run: Path) -> list[Entry]:
    """The withdrawn entries of a run, by name and version."""
    found = [read_entry(path) for path in (entries_folder(run) / WITHDRAWN).glob("*.json")]
    return sorted(found, key=lambda entry: (entry.name, entry.version))


def _what(entry: Entry) -> tuple[str, str]:
    return entry.source_sha256, json.dumps(dict(entry.options), sort_keys=True, default=str)


def same_as(entries: Sequence[Entry], entry: Entry) -> list[str]:
    """Labels of other entries of the same source and options."""
    return [other.label for other in entries if other.label != entry.label and _what(other) == _what(entry)]


def withdraw(run: str | os.PathLike[str], wanted: str, say: Say = lambda text: None) -> Entry:
    """Take an entry off the board. Its file moves to `entries/withdrawn`, its values stay in the run.

    Returns:
        The entry.

    Raises:
        GapbenchError: if there is none of that label, name or identity.
    """
    from gapbench.runs.lock import sole_driver

    folder = existing_run(run)
    with sole_driver(folder):
        entry = find_entry(folder, _of_this_run(wanted))
        place = entries_folder(folder) / WITHDRAWN
        place.mkdir(exist_ok=True)
        (entries_folder(folder) / f"{entry.id}.json").replace(place / f"{entry.id}.json")
        _rebuild(folder, say)
    return entry


def put_back(run: str | os.PathLike[str], wanted: str, say: Say = lambda text: None) -> Entry:
    """Put a withdrawn entry back on the board.

    Returns:
        The entry.

    Raises:
        GapbenchError: if none of that label, name or identity was withdrawn, or its label is taken since.
    """
    from gapbench.runs.lock import sole_driver

    folder = existing_run(run)
    with sole_driver(folder):
        aside = _withdrawn(folder)
        entry = named(aside, wanted)
        if entry is None:
            known = ", ".join(other.label for other in aside) or "none"
            raise GapbenchError(f"{folder} has no withdrawn entry {wanted!r}. Withdrawn: {known}.")
        if any(entry.label == other.label and entry.id != other.id for other in load_entries(folder)):
            raise GapbenchError(f"The board has a row {entry.label!r} by now: rename that first.")
        place = entries_folder(folder) / WITHDRAWN
        (place / f"{entry.id}.json").replace(entries_folder(folder) / f"{entry.id}.json")
        _rebuild(folder, say)
    return entry


def rename(run: str | os.PathLike[str], wanted: str, name: str, say: Say = lambda text: None) -> Entry:
    """Give an entry another name on the board; it is version 1 there, whatever it was under the old one.

    Killed in between, the same call completes it.

    Returns:
        The renamed entry.

    Raises:
        GapbenchError: if there is none, or the new name cannot be or is taken.
    """
    from gapbench.runs.lock import sole_driver
    from gapbench.runs.run import open_run
    from gapbench.runs.store import Store

    folder = existing_run(run)
    with sole_driver(folder):
        entry = find_entry(folder, _of_this_run(wanted))
        opened = open_run(folder)
        check_name(name, [request.label for request in opened.proxies])
        with Store(folder) as store:
            kept = store.meta("submissions") or {}
            used = {s["name"] for identity, s in kept.items() if identity != entry.id}
            used |= {other.name for other in opened.entries if other.id != entry.id}
            if name in used:
                raise GapbenchError(f"There is an entry {name!r} already, or was one: choose another name.")
            if entry.id in kept:
                kept[entry.id] |= {"name": name, "label": name, "version": 1}
                store.set_meta("submissions", kept)
        renamed = dataclasses.replace(entry, name=name, label=name, version=1)
        write_entry(folder, renamed)
        _rebuild(folder, say)
    return renamed


def _of_this_run(wanted: str) -> str:
    if wanted.endswith(".json") or os.sep in wanted:
        raise GapbenchError(f"{wanted} is a file: give the entry's name on the board.")
    return wanted


def _rebuild(folder: Path, say: Say) -> None:
    from gapbench.runs.run import open_run
    from gapbench.runs.scoring_time import scored

    opened = open_run(folder)
    opened.build_board(scored(opened, say))
