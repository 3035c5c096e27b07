"""Train and measure a pilot, and report on it."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from gapbench.pilot.costs import PilotSession, costs_of, family_costs, finished_at, overhead
from gapbench.pilot.report import PilotReport, report_values
from gapbench.pilot.words import report_markdown
from gapbench.population.choosing import choose
from gapbench.population.facts import facts_source
from gapbench.population.plan import Cell
from gapbench.population.updating import brought_up_to_date
from gapbench.running import check_numbers, planned, setup_of, worker_count
from gapbench.runs.environment import choose_device, usable_cores
from gapbench.runs.folder import check_folder
from gapbench.runs.lock import sole_driver
from gapbench.runs.run import Run, open_run
from gapbench.runs.store import Store
from gapbench.suites.suite import Suite, configuration_values, load_suite
from gapbench_base.errors import GapbenchError
from gapbench_base.files import write_atomically
from gapbench_leaderboard.board.numbers import plain_members
from gapbench_leaderboard.scoring.decision.forecast import Forecast, assumed_of, forecast

if TYPE_CHECKING:
    from gapbench.population.progress import Progress

PILOT = "pilot"
"""Name of the pilot's record in the database of its run: the keys of its networks, and its sessions."""
FEWEST = 2


def pilot(
    suite: str | os.PathLike[str],
    networks: int = 48,
    out: str | os.PathLike[str] | None = None,
    *,
    device: str = "auto",
    data_dir: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[PilotReport, Run]:
    """Train a small balanced part of a suite, measure its proxies, and say what the whole would cost and decide.

    Resumes what the folder `out` has (default `runs/pilot-<suite>`); writes `pilot.md` and `pilot.json` there. The
    networks are the suite's own but for seeds that were added, so that `gapbench run SUITE --out` the same folder
    goes on from them.

    Args:
        suite: name or file.
        networks: how many are trained.
        out: the folder.
        device: as in `gapbench.run`.
        data_dir: as in `gapbench.run`.
        workers: as in `gapbench.run`.
        progress: hears of every result.

    Returns:
        The report, and the pilot's run.

    Raises:
        GapbenchError: for wrong usage, missing data, or a folder that holds a run that is no pilot.
    """
    chosen = load_suite(os.fspath(suite))
    device = choose_device(device)
    check_numbers(None, workers, 1, device)
    if networks < FEWEST:
        raise GapbenchError(f"networks = {networks} must be at least {FEWEST}.")
    folder = Path(out if out is not None else Path("runs") / f"pilot-{chosen.name}")
    count = worker_count(workers, device)
    setup = setup_of(chosen, folder, device, data_dir, count, "any" if device == "cuda" else "exact")
    whole = planned(chosen, setup.data_dir, f"suite {suite}, [measure]")
    cells = choose(whole, networks, chosen.axes, facts_source(setup.data_dir))
    _refuse_other_runs(folder)
    start = time.time()
    _begun(setup.run, cells)
    problems = brought_up_to_date(chosen, setup, cells, chosen.proxies, count, progress=progress)
    sessions = _kept(folder, cells, PilotSession(start, time.time()))
    run = open_run(folder, problems=tuple(problems))
    report = reported(run, chosen, whole, sessions, max(1, count), device)
    values = plain_members(report_values(report))
    write_atomically(folder / "pilot.json", json.dumps(values, indent=1, allow_nan=False) + "\n")
    write_atomically(folder / "pilot.md", report_markdown(report))
    return report, run


def reported(
    run: Run, suite: Suite, whole: Sequence[Cell], sessions: Sequence[PilotSession], workers: int, device: str
) -> PilotReport:
    """The report on a pilot's run.

    Args:
        run: with what was trained and measured.
        suite: of which it is a part.
        whole: all cells of the suite.
        sessions: in which it was made.
        workers: that it was made with, and that the whole will be.
        device: in words.

    Returns:
        The report.
    """
    with Store(run.folder, readonly=True) as store:
        wanted = set(run.cells)
        trained = [row for row in store.cells() if row.cell in wanted]
        measurements = [row for row in store.measurements() if row.cell in wanted]
        costs = costs_of(trained, measurements, store.begun_at())
        database = store.path.stat().st_size
    finished = finished_at(trained, measurements)
    scores = run.scores(targets=("gap",)) if len(run.measurements) else _no_scores()
    decision = run.decision(scores)
    rates = _rates(run.population)
    layout = pd.DataFrame([_row(cell) for cell in whole])
    chances = [rates.get((t, f), 1.0) for t, f in zip(layout["task"], layout["family"])]
    return PilotReport(
        suite=f"{suite.name} version {suite.version}",
        networks=len(trained),
        planned=len(whole),
        workers=workers,
        device=device,
        costs=tuple(family_costs(costs.values(), whole, workers)),
        overhead_seconds=overhead(costs, finished, sessions, workers),
        cores=usable_cores(),
        load=os.getloadavg()[1] if hasattr(os, "getloadavg") else float("nan"),
        database_bytes=database / max(1, len(trained)) * len(whole),
        kept=float(sum(chances) / len(chances)),
        forecast=_forecast(run, scores, layout, rates) if decision.kept else Forecast(),
        decision=decision,
    )


def _forecast(
    run: Run, scores: pd.DataFrame, layout: pd.DataFrame, rates: dict[tuple[str, str], float]
) -> Forecast:
    population, suite = run.rankable(), run.suite
    decision = run.decision(scores)
    measurements = run.measurements[run.measurements["cell"].isin(population["cell"])]
    assumed = assumed_of(population, measurements, scores, decision, suite.axes, suite.problem)
    columns = ["task", "family", "width", *(axis for axis in suite.axes if axis != "width")]
    now = population.loc[population["status"] == "converged", columns]
    later = layout.loc[
        layout["task"].isin(population["task"]), columns
    ]  # without tasks under distribution shift
    return forecast(now, later, suite.axes, suite.problem, decision, assumed, kept=rates)


def _row(cell: Cell) -> dict[str, object]:
    configuration = cell.configuration
    return {**configuration_values(configuration), "task": configuration.task, "family": configuration.family}


def _rates(population: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Share of the networks of each task and family that converged."""
    every = Counter(zip(population["task"], population["family"]))
    good = population[population["status"] == "converged"]
    kept = Counter(zip(good["task"], good["family"]))
    return {key: kept[key] / number for key, number in every.items()}


def _no_scores() -> pd.DataFrame:
    from gapbench_leaderboard.scores import COLUMNS

    return pd.DataFrame(columns=COLUMNS)


def _refuse_other_runs(folder: Path) -> None:
    """A folder that holds networks which are no pilot's must not lose its plan."""
    if not (folder / "run.sqlite").is_file():
        return
    with Store(folder, readonly=True) as store:
        known, plan = store.meta(PILOT) or {}, store.meta("plan") or ()
    if not set(plan) <= {*known.get("cells", ()), *known.get("earlier", ())}:
        raise GapbenchError(f"{folder} holds a run that is no pilot. Choose another folder with --out.")


def _begun(folder: Path, cells: Sequence[Cell]) -> None:
    """Say whose the folder is before anything is trained, so that a pilot that is killed is taken up again."""
    check_folder(folder)
    with sole_driver(folder), Store(folder) as store:
        known = store.meta(PILOT) or {}
        earlier = sorted({*known.get("earlier", ()), *known.get("cells", ())})
        own = {
            "cells": [cell.key for cell in cells],
            "earlier": earlier,
            "sessions": known.get("sessions", []),
        }
        store.set_meta(PILOT, own)


def _kept(folder: Path, cells: Sequence[Cell], session: PilotSession) -> list[PilotSession]:
    """Keep the pilot's cells and its sessions, this one among them, in its database."""
    with Store(folder) as store:
        known = store.meta(PILOT) or {}
        times = [*known.get("sessions", []), [session.start, session.end]]
        store.set_meta(PILOT, {**known, "cells": [cell.key for cell in cells], "sessions": times})
    return [PilotSession(start, end) for start, end in times]
