"""A run as its folder holds it: tables, entries, scores, and the board that is built from them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapbench.runs.entry import Entry
from gapbench.runs.half import Half, half_in
from gapbench.runs.identity import Identity
from gapbench.runs.known import Known, known_in, requests_in, stored_suite
from gapbench.suites.requests import ProxyRequest
from gapbench.suites.suite import Suite
from gapbench_base.errors import GapbenchError
from gapbench_base.garbage import uncollected

if TYPE_CHECKING:
    import pandas as pd

    from gapbench_leaderboard.scores import PopulationDecision


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A run's tables. `problems` are things the last call could not do; its results are complete without them.

    `population`, `measurements`: see `gapbench.runs.tables`. `cells` is the plan: the keys of all its networks.
    `entries` are the submitted proxies (`gapbench.runs.entries`). `sources` are the folders of runs that
    were joined (`gapbench.runs.joining`), none for a run as it is. `identity` says which population this is.
    `shard` is the part of the suite that the run was made for, such as `0/2`; None for the whole. `half` says how
    the weights were rounded, where they are.
    """

    folder: Path
    suite: Suite
    proxies: tuple[ProxyRequest, ...]
    cells: tuple[str, ...]
    population: pd.DataFrame = field(repr=False)
    measurements: pd.DataFrame = field(repr=False)
    identity: Identity
    problems: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = field(default=(), repr=False)
    sources: tuple[Path, ...] = ()
    checksums: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    known: Known = field(default_factory=Known, repr=False)
    shard: str | None = None
    half: Half | None = None

    def __repr__(self) -> str:
        """What it is of, how much of it, in one line."""
        statuses = self.population["status"].value_counts()
        found = ", ".join(f"{count} {status}" for status, count in statuses.items())
        entries = f", {len(self.entries)} submitted" if self.entries else ""
        return (
            f"Run({str(self.folder)!r}: suite {self.suite.name} version {self.suite.version}, "
            f"{len(self.population)} of {len(self.cells)} networks ({found or 'none trained'}), "
            f"{len(self.proxies)} proxies{entries})"
        )

    def _repr_html_(self) -> str:
        """For notebooks: the same line and, where the board was built, its ranking."""
        from html import escape

        from gapbench_leaderboard.board.notebook import ranking_html

        return f"<p><code>{escape(repr(self))}</code></p>{ranking_html(self.folder / 'board')}"

    @property
    def failures(self) -> list[str]:
        """Cells and measurements with status `failed`, in words."""
        cells = self.population[self.population["status"] == "failed"]
        found = [
            f"{r.cell} ({r.task}, {r.family}, width {r.width:g}): {r.reason}" for r in cells.itertuples()
        ]
        failed = self.measurements[self.measurements["status"] == "failed"]
        return found + [f"{r.proxy} on {r.cell}: {r.reason}" for r in failed.itertuples()]

    def rankable(self) -> pd.DataFrame:
        """The population without tasks under distribution shift, which have no place on a gap board."""
        return self.population[self.population["shift"].fillna(0) == 0].reset_index(drop=True)

    def scores(
        self, targets: Sequence[str] | None = None, proxies: Collection[str] | None = None, **options: Any
    ) -> pd.DataFrame:
        """Scores in the long form; see `gapbench_leaderboard.scores.score_population` for the columns.

        `targets` are the gap, where training labels are noisy that on noisy test labels, the loss gap and the test
        error if none are given. `proxies` are labels, all if none are given: fewer are compared with fewer.

        Returns:
            The scores.
        """
        from gapbench.runs.store import Store
        from gapbench.runs.tables import noise_slopes
        from gapbench.suites.columns import NOISY_GAP
        from gapbench_leaderboard.scores import score_population

        population = self.rankable()
        measurements = self.measurements[self.measurements["cell"].isin(population["cell"])]
        if proxies is not None:
            measurements = measurements[measurements["proxy"].isin(proxies)]
        noisy = [NOISY_GAP] if NOISY_GAP in population.columns else []
        bits, groups = self._test_examples()
        slopes: dict[str, float] = {}
        for folder in self.sources or (self.folder,) if noisy else ():
            with Store(folder, readonly=True) as store:
                slopes = noise_slopes(store, list(population["cell"])) | slopes
        return score_population(
            population,
            measurements,
            targets=tuple(targets) if targets is not None else ("gap", *noisy, "loss_gap", "test_error"),
            axes=self.suite.axes,
            problem=self.suite.problem,
            noise_slopes={NOISY_GAP: slopes},
            correctness=bits,
            test_groups=groups,
            higher_means=self.directions(),
            baselines=self.baselines(),
            **options,
        )

    def _test_examples(self) -> tuple[dict[str, object], dict[str, object]]:
        """By cell, where kept: whether each test example is classified rightly, and the image that it shows."""
        from gapbench.runs.store import Store
        from gapbench.runs.tables import correctness, images_shown

        cells = list(self.rankable()["cell"])
        bits: dict[str, object] = {}
        groups: dict[str, object] = {}
        for folder in self.sources or (self.folder,):
            with Store(folder, readonly=True) as store:
                bits = correctness(store, cells) | bits
                groups = images_shown(store, cells) | groups
        return bits, groups

    def decision(self, scores: pd.DataFrame | None = None) -> PopulationDecision:
        """What the population can decide about the gap; see `gapbench_leaderboard.scores.decide`."""
        from gapbench_leaderboard.scores import decide, planned_to_rank

        bits, groups = self._test_examples()
        return decide(
            self.rankable(),
            self.scores(targets=("gap",)) if scores is None else scores,
            self.suite.axes,
            self.suite.problem,
            target="gap",
            planned=planned_to_rank(self.identity.planned, len(self.population), len(self.rankable())),
            correctness=bits,
            test_groups=groups,
        )

    def baselines(self) -> list[str]:
        """The labels of the measured baselines."""
        from gapbench_leaderboard.scores import MEASURED_BASELINES

        return [r.label for r in self.proxies if r.proxy in MEASURED_BASELINES]

    def directions(self) -> dict[str, str]:
        """Label -> `worse` or `better`."""
        own = {r.label: self.known.proxy(r.proxy).higher_means for r in self.proxies}
        return own | {entry.label: entry.higher_means for entry in self.entries}

    def build_board(
        self, scores: pd.DataFrame | None = None, decision: PopulationDecision | None = None
    ) -> Path:
        """Write `board/` afresh, with what was computed before if it is given; returns the page."""
        from gapbench.runs.belonging import strangers
        from gapbench.runs.entries import board_entry
        from gapbench_leaderboard.board import build

        entries = {}
        for request in self.proxies:
            entry = self.known.proxy(request.proxy)
            entries[request.label] = {
                "proxy": entry.name,
                "version": entry.version,
                "summary": entry.summary,
                "reference": entry.reference,
                "higher_means": entry.higher_means,
                "options": request.shown(),
            }
        for submitted in self.entries:
            strange = strangers([submitted], self.identity, self.checksums)
            told = {"other_population": strange[0]} if strange else {}
            entries[submitted.label] = board_entry(submitted) | told
        scores = self.scores() if scores is None else scores
        build(
            self.folder / "board",
            population=self.population,
            measurements=self.measurements.drop(columns=["details"]),
            scores=scores,
            axes=self.suite.axes,
            problem=self.suite.problem,
            suite={
                "name": self.suite.name,
                "version": self.suite.version,
                "fingerprint": hashlib.sha256(self.suite.text.encode()).hexdigest()[:16],
                "summary": self.suite.summary,
                "planned": self.identity.planned,
                "samples": self.suite.samples,
                "made_with": self.made_with(),
                "population": self.identity.as_dict(),
            },
            entries=entries,
            notes=self.notes(),
            audit=self._audit(),
            decision=self.decision(scores) if decision is None else decision,
        )
        return self.folder / "board" / "index.html"

    def _audit(self) -> dict[str, object] | None:
        """The audit of the run; of runs that are joined, for each proxy that of the first that has one."""
        from gapbench.runs.audits import read_invariances

        audits = [read_invariances(folder) for folder in self.sources or (self.folder,)]
        found = [audit for audit in audits if audit is not None]
        if not found:
            return None
        proxies = {label: rows for audit in reversed(found) for label, rows in audit["proxies"].items()}
        return {**found[0], "proxies": proxies}

    def made_with(self) -> list[str]:
        """The software and devices that the run, or the runs that it joins, were made with, in words."""
        from gapbench.runs.environment import environment_text
        from gapbench.runs.store import Store

        found: list[str] = []
        for folder in self.sources or (self.folder,):
            with Store(folder, readonly=True) as store:
                found += map(environment_text, store.environments())
        return list(dict.fromkeys(found))

    def notes(self) -> list[str]:
        """What a reader of the board must know about this run's data and completeness."""
        from gapbench.runs.belonging import strangers

        notes = []
        if not self.identity.complete:
            how = "The same `gapbench run` without --limit trains the others."
            if self.shard is not None:
                how = f"This is the part {self.shard} of it; `gapbench merge` makes one run of all parts."
            notes.append(
                f"Incomplete: {self.identity.networks} of the suite's {self.identity.planned} networks have been "
                f"trained. {how}"
            )
        if self.half is not None:
            notes.append(self.half.words)
        if missing := self.known.estimators_missing():
            notes.append(f"Not scored by the estimators of {', '.join(missing)}: not installed.")
        notes += strangers(self.entries, self.identity, self.checksums)
        for task in sorted(self.population.loc[self.population["source"] == "unofficial", "task"].unique()):
            notes.append(f"{task}: the data are not the official release (their checksum differs).")
        shifted = self.population.loc[self.population["shift"].fillna(0) == 1, "task"].unique()
        for task in sorted(shifted):
            notes.append(f"{task}: trained and tested under different distributions; kept off the gap board.")
        if self.population["device"].nunique() > 1:
            notes.append(
                "Networks were trained on different kinds of device: "
                + ", ".join(sorted(map(str, self.population["device"].unique())))
            )
        return notes


def open_run(
    folder: str | os.PathLike[str],
    problems: tuple[str, ...] = (),
    drafts: Sequence[Entry] = (),
) -> Run:
    """Open a run's folder without changing anything.

    `drafts` are entries that are not written yet, or are to stand in for those of the same identity.

    Returns:
        The run as its folder has it.

    Raises:
        GapbenchError: if it holds none, or is damaged.
    """
    from gapbench.runs.entries import load_entries
    from gapbench.runs.identity import identity_in
    from gapbench.runs.records import checksums_of
    from gapbench.runs.store import Store
    from gapbench.runs.tables import measurement_table, population_table

    path = Path(folder)
    with uncollected(), Store(path, readonly=True) as store:
        stored = store.meta("suite")
        if stored is None:
            raise GapbenchError(f"{path} has a run.sqlite, but no suite was run there yet.")
        try:
            requests, known = requests_in(store), known_in(store)
            if stored.get("imported"):
                suite = _imported(stored)
            else:
                suite = stored_suite(stored["text"], known, requests, f"of {path}")
            cells = tuple(store.meta("plan") or ())
        except GapbenchError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise GapbenchError(
                f"{path} has a run.sqlite whose suite or list of proxies is damaged: {error!r}."
            ) from error
        identities = {entry.id for entry in drafts}
        entries = [entry for entry in load_entries(path) if entry.id not in identities]
        trained = store.cells()
        identity = identity_in(store, trained)
        entries += drafts
        labels = [r.label for r in requests] + [entry.label for entry in entries]
        return Run(
            folder=path,
            suite=suite,
            proxies=requests,
            cells=cells,
            population=population_table(store, cells, suite.axes, trained),
            measurements=measurement_table(store, cells, labels, {e.id: e.label for e in entries}),
            identity=identity,
            problems=problems,
            entries=tuple(entries),
            checksums=checksums_of(trained),
            known=known,
            shard=store.meta("shard"),
            half=half_in(store),
        )


def _imported(stored: dict[str, Any]) -> Suite:
    """What stands for the suite of a population that was trained elsewhere."""
    return Suite(
        name=stored["name"],
        version=stored["version"],
        summary="Networks trained elsewhere.",
        configurations=(),
        proxies=(),
        samples=stored["samples"],
        measure_seed=0,
        loss="cross_entropy",
        axes=tuple(stored["axes"]),
        text="",
    )
