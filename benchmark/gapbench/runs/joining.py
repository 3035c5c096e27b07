"""Several runs of one suite, and entries measured on it, as one board."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapbench.runs.entry import Entry
from gapbench.runs.fitting import by_label, same_data, same_generations, same_suite, suite_text
from gapbench.runs.known import joined
from gapbench.runs.records import TrainedCell, checksums_of
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from gapbench.runs.run import Run


def join(runs: Sequence[str | os.PathLike[str]], entries: Sequence[str | os.PathLike[str]], out: Path) -> Run:
    """The networks, measurements and entries of all runs, as a run whose board is written to `out`.

    A network that several runs trained to the same weights counts once, and so does a measurement; a network
    that failed in one run gives way to its result in another. `entries` are files of submissions measured on
    the same networks.

    Returns:
        The joined run; its `sources` are the folders.

    Raises:
        GapbenchError: where the runs do not fit: another suite or another text of it, other data or another
            protocol of a task, the same network trained to other weights, a label with two meanings, an entry of
            another population.
    """
    from gapbench.runs.identity import identity_of
    from gapbench.runs.run import open_run

    folders = [Path(folder) for folder in runs]
    records = [_records(folder) for folder in folders]
    if len({suite_text(folder) for folder in folders}) == 1:
        same_data(folders, records)
    opened = [open_run(folder) for folder in folders]
    first = opened[0]
    for run in opened[1:]:
        same_suite(first, run)
    owner = _owners(opened, records)
    requests = by_label(opened)
    same_generations(opened)
    rows = {cell: records[number][cell] for cell, number in owner.items()}
    submitted = _entries(opened, entries, set(requests), rows)
    result = _joined(opened, owner, tuple(requests.values()), submitted, out)
    identity = identity_of(first.suite.text, result.cells, rows.values(), _environments(opened))
    checksums = checksums_of(rows.values())
    return replace(result, identity=identity, checksums=checksums)


def _records(folder: Path) -> dict[str, TrainedCell]:
    from gapbench.runs.store import Store

    with Store(folder, readonly=True) as store:
        return {row.cell: row for row in store.cells()}


def _environments(runs: Sequence[Run]) -> list[dict[str, object]]:
    from gapbench.runs.store import Store

    found = []
    for run in runs:
        with Store(run.folder, readonly=True) as store:
            found += store.environments()
    return found


def _owners(runs: Sequence[Run], records: Sequence[dict[str, TrainedCell]]) -> dict[str, int]:
    """For each network the run whose result counts."""
    owner: dict[str, int] = {}
    for number, rows in enumerate(records):
        for cell, row in rows.items():
            if cell not in owner or records[owner[cell]][cell].status == "failed":
                owner[cell] = number
                continue
            kept = records[owner[cell]][cell]
            if row.status == "failed":
                continue
            same = all(
                getattr(row, name) == getattr(kept, name)
                for name in ("status", "weights_sha256", "gap", "test_error")
            )
            if not same:
                raise GapbenchError(
                    f"The network {cell} was trained to other weights in {runs[number].folder} than in "
                    f"{runs[owner[cell]].folder} (other hardware or software). Measurements of one do not belong "
                    "to the other: give the runs boards of their own, and compare them with `gapbench diff`."
                )
    return owner


def _entries(
    runs: Sequence[Run],
    files: Sequence[str | os.PathLike[str]],
    labels: set[str],
    rows: dict[str, TrainedCell],
) -> tuple[Entry, ...]:
    from gapbench.runs.belonging import other_weights
    from gapbench.runs.entries import read_entry

    cells = {cell for run in runs for cell in run.population["cell"]}
    found: dict[str, Entry] = {}
    for entry in [e for run in runs for e in run.entries] + [read_entry(file) for file in files]:
        strange = set(entry.values) - cells
        if strange:
            raise GapbenchError(
                f"The entry {entry.label} was measured on {len(strange)} networks that the runs do not have, "
                f"such as {min(strange)[:40]}: it belongs to another population."
            )
        changed = other_weights(entry, checksums_of(rows.values()))
        if changed:
            raise GapbenchError(
                f"The entry {entry.label} was measured on other weights of {len(changed)} networks than the "
                f"runs have, such as {changed[0]}: it belongs to another population. Submit its source "
                "to one of the runs."
            )
        other = next((e for e in found.values() if e.label == entry.label), None)
        if entry.label in labels or (other is not None and other.id != entry.id):
            raise GapbenchError(f"The label {entry.label!r} stands for two different proxies.")
        known = found.setdefault(entry.id, entry)
        if len(entry.verifications) > len(known.verifications):
            found[entry.id] = entry
    return tuple(sorted(found.values(), key=lambda entry: (entry.name, entry.version)))


def _joined(
    runs: Sequence[Run],
    owner: dict[str, int],
    requests: tuple[Any, ...],
    entries: tuple[Entry, ...],
    out: Path,
) -> Run:
    import pandas as pd

    from gapbench.runs.tables import entry_table

    plan = tuple(dict.fromkeys(cell for run in runs for cell in run.cells))
    parts = [
        run.population[[owner.get(cell) == number for cell in run.population["cell"]]]
        for number, run in enumerate(runs)
    ]
    position = {cell: number for number, cell in enumerate(plan)}
    population = pd.concat(parts, ignore_index=True)
    population = population.sort_values("cell", key=lambda c: c.map(position), kind="stable")
    measured = pd.concat(
        [*(run.measurements for run in runs), *(entry_table(entry) for entry in entries)], ignore_index=True
    )
    measured = measured[measured["cell"].isin(population["cell"])]
    identity = ["cell", "proxy"]
    if "repeat" in measured.columns:
        measured = measured.assign(repeat=measured["repeat"].fillna(0).astype(int))
        identity.append("repeat")
    usable = measured["status"].map({"ok": 0, "not_applicable": 1}).fillna(2)
    measured = (
        measured.assign(order=usable)
        .sort_values("order", kind="stable")
        .drop_duplicates(identity)
        .drop(columns=["order"])
        .sort_values(identity, key=lambda c: c.map(position) if c.name == "cell" else c)
        .reset_index(drop=True)
    )
    return replace(
        runs[0],
        folder=out,
        proxies=requests,
        cells=plan,
        population=population.reset_index(drop=True),
        measurements=measured,
        problems=tuple(dict.fromkeys(problem for run in runs for problem in run.problems)),
        entries=entries,
        sources=tuple(run.folder for run in runs),
        known=joined([run.known for run in runs]),
        shard=None,
    )
