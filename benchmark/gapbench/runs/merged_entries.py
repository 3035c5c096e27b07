"""The submissions of several runs as those of one: which file of each counts, and what contradicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapbench.runs.entries import entries_folder, read_entry
from gapbench.runs.entry import Entry
from gapbench.runs.run import Run
from gapbench_base.errors import GapbenchError

WITHDRAWN = "withdrawn"
"""The folder within that of the entries where withdrawn ones lie."""


@dataclass(frozen=True)
class Submissions:
    """What the database `stored` of each submission, and the files of the `live` and withdrawn ones.

    `seeds`: for each run the seed of every submission that it has.
    """

    stored: dict[str, Any]
    live: dict[str, Path]
    withdrawn: dict[str, Path]
    seeds: tuple[dict[str, str], ...]

    def strange(self, number: int) -> list[tuple[str, str]]:
        """Submissions of a run, by identity and seed, that were made with another seed than the one that counts."""
        own = self.seeds[number]
        return [(name, seed) for name, seed in own.items() if self.stored[name]["seed"] != seed]


@dataclass(frozen=True)
class _File:
    run: int
    path: Path
    entry: Entry


def submissions_of(
    runs: Sequence[Run], metas: Sequence[Mapping[str, Any]], labels: set[str], exists: bool
) -> Submissions:
    """The submissions of several runs; of the first, where it `exists` as the target, what it says stands.

    Args:
        runs: opened.
        metas: what the database of each says.
        labels: of the suite's rows.
        exists: whether the first run is added to.

    Returns:
        What counts.

    Raises:
        GapbenchError: where one label stands for two submissions, or one has two seeds or two values of a network.
    """
    live, aside = (
        [_files(number, run.folder, place) for number, run in enumerate(runs)] for place in ("", WITHDRAWN)
    )
    kept: dict[str, _File] = {}
    for found in live:
        for identity, file in found.items():
            if exists and file.run and identity in aside[0]:
                continue  # withdrawn in the target, on purpose
            kept[identity] = _better(kept[identity], file, runs) if identity in kept else file
    taken: dict[str, str] = dict.fromkeys(labels, "")
    for identity, file in kept.items():
        if taken.setdefault(file.entry.label, identity) != identity:
            raise GapbenchError(
                f"The label {file.entry.label!r} stands for two different proxies, one of them in "
                f"{runs[file.run].folder}: rename it there (gapbench entries {runs[file.run].folder} --rename)."
            )
    seeds = tuple(
        {name: str(own["seed"]) for name, own in (meta.get("submissions") or {}).items()} for meta in metas
    )
    stored: dict[str, Any] = {}
    for number, meta in enumerate(metas):
        for identity, own in (meta.get("submissions") or {}).items():
            first = identity not in stored
            if first or (
                identity in kept and kept[identity].run == number and not (exists and identity in seeds[0])
            ):
                stored[identity] = own
    for identity, file in kept.items():
        if identity in stored and file.entry.seed != stored[identity]["seed"]:
            raise GapbenchError(_two_seeds(file.entry.label, runs[file.run].folder, runs[0].folder))
    withdrawn: dict[str, Path] = {}
    for found in aside:
        for identity, file in found.items():
            if identity not in kept:
                withdrawn.setdefault(identity, file.path)
    return Submissions(stored, {name: file.path for name, file in kept.items()}, withdrawn, seeds)


def _files(number: int, run: Path, place: str) -> dict[str, _File]:
    folder = entries_folder(run) / place
    entries = [(path, read_entry(path)) for path in sorted(folder.glob("*.json"))]
    return {entry.id: _File(number, path, entry) for path, entry in entries}


def _better(one: _File, two: _File, runs: Sequence[Run]) -> _File:
    """The one of two files of one submission that says more; what both say must be the same."""
    a, b = one.entry, two.entry
    if a.seed != b.seed:
        raise GapbenchError(_two_seeds(b.label, runs[one.run].folder, runs[two.run].folder))
    differing = [
        cell
        for cell in a.values.keys() & b.values.keys()
        if (a.values[cell].status, a.values[cell].value) != (b.values[cell].status, b.values[cell].value)
        and "failed" not in (a.values[cell].status, b.values[cell].status)
    ]
    if differing or a.label != b.label:
        what = f"another value on the network {min(differing)}" if differing else f"the label {a.label!r}"
        raise GapbenchError(
            f"The entry {b.label} ({b.id}) has {what} in {runs[one.run].folder} than in {runs[two.run].folder}: "
            "nothing was merged. Withdraw or rename it in one of them (gapbench entries)."
        )
    more = (len(b.values), len(b.verifications)) > (len(a.values), len(a.verifications))
    return two if more else one


def _two_seeds(label: str, one: Path, other: Path) -> str:
    return (
        f"The proxy {label} was submitted to {one} and to {other}, each time with other random numbers: nothing "
        f"was merged. Withdraw it in one of them (gapbench entries {one} --withdraw {label!r}), merge, and submit "
        "it to the merged run, which measures the rest."
    )
