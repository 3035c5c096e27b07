"""A trained population as a submission sees it: the networks that can be measured, and what identifies it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gapbench.population.plan import Cell
from gapbench.population.siblings import siblings, without_seed
from gapbench.runs.entry import Entry
from gapbench.runs.identity import Identity
from gapbench.runs.records import TrainedCell
from gapbench.suites.suite import Configuration, Suite
from gapbench_base.errors import GapbenchError


@dataclass(frozen=True)
class Member:
    """A trained network: its key, the checksum of its weight file, how it was made, and its stored `history`.

    `sibling`: key and checksum of its sibling (`population.siblings`), where it has one that can be measured.
    """

    key: str
    sha256: str
    configuration: Configuration
    history: str | None = None
    sibling: tuple[str, str] | None = None


@dataclass(frozen=True)
class Population:
    """The measurable networks of a run, and which population they belong to."""

    folder: Path
    data_dir: str
    suite: Suite
    members: tuple[Member, ...]
    identity: Identity
    device: str = field(default="cpu")

    @property
    def fingerprint(self) -> str:
        """Of the whole population (`gapbench.runs.identity`)."""
        return self.identity.fingerprint

    def is_that_of(self, entry: Entry) -> bool:
        """Whether an entry was measured on this population."""
        return entry.population.fingerprint in (self.fingerprint, self.identity.earlier)

    def packages(self) -> list[str]:
        """Top-level packages, beyond gapbench's and the common libraries, that the networks come from."""
        return packages_of(member.configuration.family for member in self.members)

    def one_of_each(self) -> list[Member]:
        """The first member of every task and family, in the order of the plan."""
        found: dict[tuple[str, str], Member] = {}
        for member in self.members:
            found.setdefault((member.configuration.task, member.configuration.family), member)
        return list(found.values())


def packages_of(families: Iterable[str]) -> list[str]:
    """Top-level packages, beyond gapbench's and the common libraries, that networks of some families come from."""
    from gapbench_models import describe

    known = {"gapbench_models", "torch", "torchvision", "timm"}
    builders = {describe(family).builder for family in families}
    return sorted({builder.partition(".")[0].partition(":")[0] for builder in builders} - known)


def _further_seeds(
    cells: Sequence[Cell], rows: Mapping[str, TrainedCell], planned: Sequence[str]
) -> list[Cell]:
    """What a pilot planned beside the suite's own networks: further seeds of its configurations."""
    known = {cell.key for cell in cells}
    points = {without_seed(cell.description): cell.configuration for cell in cells}
    found = []
    for key in planned:
        if key in known or key not in rows:
            continue
        description = json.loads(rows[key].description)
        configuration = points.get(without_seed(description))
        if configuration is not None:
            found.append(Cell(key, replace(configuration, seed=description["seed"]), description))
    return found


def open_population(
    run: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None = None
) -> Population:
    """Open the trained networks of a run's folder.

    Returns:
        The networks that can be measured, in the plan's order.

    Raises:
        GapbenchError: if there is no run, no trained network, or the tasks' data are not to be had; and where
            weight files are damaged, naming them and the command that restores them.
    """
    from gapbench.population.facts import facts_source
    from gapbench.population.plan import plan, protocol_of
    from gapbench.runs.identity import identity_of
    from gapbench.runs.intact import require_intact
    from gapbench.runs.known import known_in, requests_in, suite_to_work_on
    from gapbench.runs.store import Store
    from gapbench_tasks.folder import data_folder

    folder = Path(run)
    if not folder.is_dir():
        raise GapbenchError(f"There is no run {folder}. Train one first: gapbench run quick --out {folder}")
    with Store(folder, readonly=True) as store:
        stored = store.meta("suite")
        known, requests = known_in(store), requests_in(store)
        rows = {row.cell: row for row in store.cells()}
        planned, environments = store.meta("plan") or (), store.environments()
    if stored is None:
        raise GapbenchError(f"{folder} has a run.sqlite, but no suite was run there yet.")
    if stored.get("imported"):
        raise GapbenchError(
            f"{folder} is an imported population: gapbench cannot build its networks apart from their code, so "
            "it takes no submissions. Register the proxy in Python and import the table again."
        )
    suite = suite_to_work_on(stored["text"], known, requests, f"The run {folder}", measures=False)
    data = str(data_folder(data_dir))
    members = []
    protocol = protocol_of(row.description for row in rows.values())
    cells = plan(suite, facts_source(data), protocol)
    everything = [*cells, *_further_seeds(cells, rows, planned)]
    next_of = siblings({cell.key: cell.description for cell in everything})
    files = {row.cell: row.weights_sha256 for row in rows.values() if row.measurable and row.weights_sha256}
    for cell in everything:
        if cell.key in files:
            other = next_of.get(cell.key, "")
            sibling = (other, files[other]) if other in files else None
            history = rows[cell.key].history
            members.append(Member(cell.key, files[cell.key], cell.configuration, history, sibling))
    if not members:
        raise GapbenchError(f"{folder} has no trained network yet. Train first: gapbench run {suite.name}")
    require_intact(folder, [rows[member.key] for member in members], data_dir)
    identity = identity_of(suite.text, planned, rows.values(), environments)
    return Population(folder, data, suite, tuple(members), identity)
