"""Run a suite: train, measure, score, build the board; and open what a run has."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapbench.errors import GapbenchError
from gapbench.run_folder import run_folder, suite_in
from gapbench.suite import ProxyRequest, Suite, load_suite, parse_suite, proxy_requests

if TYPE_CHECKING:
    import pandas as pd

    from gapbench.population.driver import Progress
    from gapbench.population.identity import Identity

CUDA_WORKERS = 4


@dataclass(frozen=True, eq=False)
class Run:
    """A run's tables. `problems` are things the last call could not do; its results are complete without them.

    `population`, `measurements`: see `gapbench.tables`. `cells` is the plan: the keys of all its networks.
    `entries` are the submitted proxies (`gapbench.submission.entry`). `sources` are the folders of runs that
    were joined (`gapbench.joining`), none for a run as it is. `identity` says which population this is.
    """

    folder: Path
    suite: Suite
    proxies: tuple[ProxyRequest, ...]
    cells: tuple[str, ...]
    population: pd.DataFrame = field(repr=False)
    measurements: pd.DataFrame = field(repr=False)
    identity: Identity
    problems: tuple[str, ...] = ()
    entries: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    sources: tuple[Path, ...] = ()
    checksums: Mapping[str, str | None] = field(default_factory=dict, repr=False)

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
        self, targets: Sequence[str] = ("gap", "loss_gap", "test_error"), **options: Any
    ) -> pd.DataFrame:
        """Scores in the long form; see `gapbench_leaderboard.scores.score_population` for the columns."""
        from gapbench.population.store import Store
        from gapbench.tables import correctness
        from gapbench_leaderboard.scores import score_population

        population = self.rankable()
        measurements = self.measurements[self.measurements["cell"].isin(population["cell"])]
        bits: dict[str, Any] = {}
        for folder in self.sources or (self.folder,):
            with Store(folder, readonly=True) as store:
                bits = correctness(store, list(population["cell"])) | bits
        return score_population(
            population,
            measurements,
            targets=tuple(targets),
            axes=self.suite.axes,
            correctness=bits,
            higher_means=self.directions(),
            baselines=self.baselines(),
            **options,
        )

    def baselines(self) -> list[str]:
        """The labels of the measured baselines."""
        from gapbench_leaderboard.scores import MEASURED_BASELINES

        return [r.label for r in self.proxies if r.proxy in MEASURED_BASELINES]

    def directions(self) -> dict[str, str]:
        """Label -> `worse` or `better`."""
        from gapbench.proxies.registry import proxy_entry

        own = {r.label: proxy_entry(r.proxy).higher_means for r in self.proxies}
        return own | {entry["label"]: entry["higher_means"] for entry in self.entries}

    def build_board(self, scores: pd.DataFrame | None = None) -> Path:
        """Write `board/` afresh; returns the page."""
        from gapbench.proxies.registry import proxy_entry
        from gapbench.submission.belonging import strangers
        from gapbench.submission.entry import board_entry
        from gapbench_leaderboard.board import build

        entries = {}
        for request in self.proxies:
            entry = proxy_entry(request.proxy)
            entries[request.label] = {
                "proxy": entry.name,
                "version": entry.version,
                "summary": entry.summary,
                "reference": entry.reference,
                "higher_means": entry.higher_means,
                "options": dict(request.options),
            }
        for submitted in self.entries:
            strange = strangers([submitted], self.identity, self.checksums)
            told = {"other_population": strange[0]} if strange else {}
            entries[submitted["label"]] = board_entry(submitted) | told
        build(
            self.folder / "board",
            population=self.population,
            measurements=self.measurements.drop(columns=["details"]),
            scores=self.scores() if scores is None else scores,
            axes=self.suite.axes,
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
        )
        return self.folder / "board" / "index.html"

    def _audit(self) -> dict[str, Any] | None:
        """The audit of the run; of runs that are joined, for each proxy that of the first that has one."""
        from gapbench.invariance.stored import read_invariances

        audits = [read_invariances(folder) for folder in self.sources or (self.folder,)]
        found = [audit for audit in audits if audit is not None]
        if not found:
            return None
        proxies = {label: rows for audit in reversed(found) for label, rows in audit["proxies"].items()}
        return {**found[0], "proxies": proxies}

    def made_with(self) -> list[str]:
        """The software and devices that the run, or the runs that it joins, were made with, in words."""
        from gapbench.environment import environment_text
        from gapbench.population.store import Store

        found: list[str] = []
        for folder in self.sources or (self.folder,):
            with Store(folder, readonly=True) as store:
                found += map(environment_text, store.environments())
        return list(dict.fromkeys(found))

    def notes(self) -> list[str]:
        """What a reader of the board must know about this run's data and completeness."""
        from gapbench.submission.belonging import strangers

        notes = []
        if not self.identity.complete:
            notes.append(
                f"Incomplete: {self.identity.networks} of the suite's {self.identity.planned} networks have been "
                f"trained ({self.identity.words})."
            )
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


class Silent:
    """A `Progress` that says nothing."""

    def begin(self, cells: int, done: int, measurements: int, measured: int) -> None: ...
    def trained(self, record: dict[str, Any]) -> None: ...
    def measured(self, record: dict[str, Any]) -> None: ...
    def message(self, text: str) -> None: ...


def run(
    suite: str | os.PathLike[str] = "quick",
    out: str | os.PathLike[str] | None = None,
    *,
    device: str = "auto",
    data_dir: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    limit: int | None = None,
    proxies: Sequence[str] | None = None,
    retry_failed: bool = False,
    repeats: int = 1,
    board: bool = True,
    progress: Progress | None = None,
) -> Run:
    """Run a suite (name or file) in the folder `out` (default `runs/<suite>`); resumes what is there.

    `suite` may also be the folder of a run, which then is brought up to date with its own suite. The weight files
    of all trained networks are checked, and what is damaged is trained again to the same bytes or is a problem.

    `limit` trains only so many networks, balanced over tasks and families; `proxies` measures only those of
    the suite's labels or, with default options, of the registered names. `workers` defaults to one process
    per core on a CPU and to 4 on CUDA; 0 works in this process, which is quicker for a few small networks.
    `retry_failed` repeats what has status `failed`. With `repeats` = 2 every proxy is measured a second time,
    independently (other random numbers, other training examples where it sees a sample of them): the scores
    then have each proxy's `repeatability`.

    Raises `GapbenchError` for wrong usage, missing data, a folder of another suite or one that another
    process works on, and `DiskFull`; finished results are kept in each case.
    """
    own = run_folder(suite)
    if own is not None and out is None:
        out = own
    # a wrong name is said before torch is imported
    chosen = suite_in(own) if own is not None else load_suite(os.fspath(suite))
    from gapbench.environment import choose_device, environment, usable_cores
    from gapbench.population.driver import Driver, check_folder, facts_source
    from gapbench.population.identity import identity_in
    from gapbench.population.jobs import Setup
    from gapbench.population.lock import sole_driver
    from gapbench.population.plan import check_sizes, plan
    from gapbench.population.store import Store
    from gapbench_tasks.folder import data_folder

    if limit is not None and limit < 1:
        raise GapbenchError(f"limit = {limit} must be at least 1.")
    if workers is not None and workers < 0:
        raise GapbenchError(f"workers = {workers} must be at least 1, or 0 for this process.")
    if repeats not in (1, 2):
        raise GapbenchError(f"repeats = {repeats} must be 1 or 2.")
    requests = choose_proxies(chosen, proxies)
    folder = Path(out if out is not None else Path("runs") / chosen.name)
    device = choose_device(device)
    if workers == 0 and device == "cuda":
        raise GapbenchError("workers = 0 works in this process, which is for the CPU; choose 1 or more.")
    setup = Setup(
        run=folder.absolute(),
        data_dir=str(data_folder(data_dir)),
        device=device,
        samples=chosen.samples,
        loss=chosen.loss,
        measure_seed=chosen.measure_seed,
    )
    facts = facts_source(setup.data_dir)
    cells = plan(chosen, facts)
    check_sizes(chosen, facts)
    classes = max(facts(cell.configuration).num_classes for cell in cells)
    if chosen.samples < classes:
        raise GapbenchError(
            f"suite {suite}, [measure]: samples = {chosen.samples} is fewer than the {classes} classes of a task."
        )
    check_folder(folder)
    with sole_driver(folder), Store(folder) as store:
        _same_suite(store, chosen, folder)
        store.set_meta("suite", {"name": chosen.name, "version": chosen.version, "text": chosen.text})
        store.set_meta("plan", [cell.key for cell in cells])
        store.set_meta("proxies", _labelled(store, requests))
        store.set_meta(f"environment {time.time():.6f}", environment(device))
        count = workers if workers is not None else CUDA_WORKERS if device == "cuda" else usable_cores()
        driver = Driver(
            store,
            setup,
            cells[:limit],
            requests,
            progress or Silent(),
            retry_failed,
            repeats,
            others=cells[limit:] if limit is not None else (),
        )
        outcome = driver.bring_up_to_date(count)
        store.set_meta("population", identity_in(store).as_dict())
    result = open_run(folder, problems=tuple(outcome.problems))
    if board and len(result.population):
        result.build_board()
    return result


def choose_proxies(suite: Suite, names: Sequence[str] | None) -> tuple[ProxyRequest, ...]:
    """The suite's requests, or those whose label or proxy is named, or other registered proxies by name."""
    if names is None:
        return suite.proxies
    if not names:
        raise GapbenchError("No proxy is named: give at least one, or leave the option out.")
    chosen: list[ProxyRequest] = []
    for name in names:
        found = [r for r in suite.proxies if name in (r.label, r.proxy)]
        chosen += found or proxy_requests([name], "--proxies")
    return tuple(dict.fromkeys(chosen))


def open_run(
    folder: str | os.PathLike[str],
    problems: tuple[str, ...] = (),
    drafts: Sequence[dict[str, Any]] = (),
) -> Run:
    """Open a run's folder without changing anything. Raises `GapbenchError` if it holds none.

    `drafts` are entries that are not written yet, or are to stand in for those of the same identity.
    """
    from gapbench.population.identity import identity_in
    from gapbench.population.store import Store
    from gapbench.submission.belonging import checksums_of
    from gapbench.submission.entry import load_entries
    from gapbench.tables import measurement_table, population_table

    path = Path(folder)
    with Store(path, readonly=True) as store:
        stored = store.meta("suite")
        if stored is None:
            raise GapbenchError(f"{path} has a run.sqlite, but no suite was run there yet.")
        try:
            suite = _imported(stored) if stored.get("imported") else parse_suite(stored["text"], f"of {path}")
            cells = tuple(store.meta("plan") or ())
            requests = tuple(
                ProxyRequest(name, tuple((k, v) for k, v in options), label)
                for name, options, label in store.meta("proxies") or ()
            )
        except GapbenchError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise GapbenchError(
                f"{path} has a run.sqlite whose suite or list of proxies is damaged: {error!r}."
            ) from error
        identities = {entry["id"] for entry in drafts}
        entries = [entry for entry in load_entries(path) if entry["id"] not in identities]
        identity = identity_in(store)
        entries += drafts
        labels = [r.label for r in requests] + [entry["label"] for entry in entries]
        return Run(
            folder=path,
            suite=suite,
            proxies=requests,
            cells=cells,
            population=population_table(store, cells, suite.axes),
            measurements=measurement_table(store, cells, labels),
            identity=identity,
            problems=problems,
            entries=tuple(entries),
            checksums=checksums_of(store.cells()),
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


def _same_suite(store: Any, suite: Suite, folder: Path) -> None:
    stored = store.meta("suite")
    if stored is None or stored["text"] == suite.text:
        return
    what = (
        f"the suite {stored['name']} version {stored['version']}"
        if (stored["name"], stored["version"]) != (suite.name, suite.version)
        else f"another text of the suite {suite.name} version {suite.version}"
    )
    raise GapbenchError(
        f"{folder} holds a run of {what}. Choose another folder with --out; nothing was changed."
    )


def _labelled(store: Any, requests: Sequence[ProxyRequest]) -> list[Any]:
    """All requests that this run has seen, by label; a label keeps its meaning for the life of a run."""
    known = {entry[2]: entry for entry in store.meta("proxies") or ()}
    for request in requests:
        entry = [request.proxy, [list(pair) for pair in request.options], request.label]
        if known.setdefault(request.label, entry) != entry:
            raise GapbenchError(
                f"The label {request.label!r} already stands for other options in this run; choose another."
            )
    return list(known.values())
