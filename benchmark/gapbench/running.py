"""Run a suite: train, measure, score, build the board; and open what a run has."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapbench.proxies.registry import expanded
from gapbench.runs.folder import run_folder, suite_in
from gapbench.runs.run import Run, open_run
from gapbench.suites.requests import ProxyRequest, proxy_requests, stored_request
from gapbench.suites.suite import Suite, load_suite
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from gapbench.population.jobs import Setup
    from gapbench.population.plan import Cell
    from gapbench.population.progress import Progress
    from gapbench.population.shards import Shard
    from gapbench.runs.scoring_time import ScoringTime

CUDA_WORKERS = 4
STACKS = ("exact", "any", "off")


def run(
    suite: str | os.PathLike[str] = "quick",
    out: str | os.PathLike[str] | None = None,
    *,
    device: str = "auto",
    data_dir: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    limit: int | None = None,
    shard: str | None = None,
    proxies: Sequence[str] | None = None,
    retry_failed: bool = False,
    repeats: int = 1,
    board: bool = True,
    stacks: str | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run a suite (name or file) in the folder `out` (default `runs/<suite>`); resumes what is there.

    `suite` may also be the folder of a run, which then is brought up to date with its own suite. The weight files
    of all trained networks are checked, and what is damaged is trained again to the same bytes or is a problem.

    `limit` trains only so many networks, balanced over tasks and families. `shard` = "i/n" trains and measures only
    the i-th (from 0) of n balanced, disjoint parts of the plan, by default in `runs/<suite>-i-of-n`, and the folder
    remembers it; `gapbench.runs.merging.merge` makes one run of them. `proxies` measures only those of
    the suite's labels or, with default options, of the registered names. `workers` defaults to one process
    per core on a CPU and to 4 on CUDA; 0 works in this process, which is quicker for a few small networks.
    `retry_failed` repeats what has status `failed`. With `repeats` = 2 every proxy is measured a second time,
    independently (other random numbers, other training examples where it sees a sample of them): the scores
    then have each proxy's `repeatability`.

    Networks of one architecture are trained together where that is faster. `stacks` says by what: `exact`
    (default on a CPU) only in ways by which no number changes, `any` (default on CUDA) in all ways, where last bits
    may depend on the networks trained together, `off` in none. What was found fastest is kept in the run.

    Returns:
        The run with all that it has now; `problems` are what could not be done.

    Raises:
        GapbenchError: for wrong usage, missing data, a folder of another suite or one that another process works
            on; finished results are kept.
        DiskFull: where there is no space left; finished results are kept.
    """
    own = run_folder(suite)
    if own is not None and out is None:
        out = own
    # a wrong name is said before torch is imported
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise GapbenchError(f"--out {out} is a file: give a folder for the run.")
    part = _shard(shard)
    chosen = suite_in(own, measures=proxies is None) if own is not None else load_suite(os.fspath(suite))
    from gapbench.runs.environment import choose_device

    device = choose_device(device)
    check_numbers(limit, workers, repeats, device)
    requests = choose_proxies(chosen, proxies)
    folder = Path(out) if out is not None else default_folder(chosen, part)
    count = worker_count(workers, device)
    setup = setup_of(chosen, folder, device, data_dir, count, _checked_stacks(stacks, device))
    if progress is not None and _holds_other_things(folder):
        progress.message(f"{folder} holds other files, which stay as they are.")
    cells = planned(chosen, setup.data_dir, f"suite {suite}, [measure]")
    part_of_plan(chosen, cells, part)  # an empty part is said before there is a folder
    problems = brought_up_to_date(
        chosen,
        setup,
        cells,
        requests,
        count,
        limit=limit,
        shard=part,
        retry_failed=retry_failed,
        repeats=repeats,
        progress=progress,
        scored=progress is not None,
    )
    return _opened(folder, problems, board)


def brought_up_to_date(
    suite: Suite,
    setup: Setup,
    plan: Sequence[Cell],
    requests: Sequence[ProxyRequest],
    workers: int,
    *,
    limit: int | None = None,
    shard: Shard | None = None,
    retry_failed: bool = False,
    repeats: int = 1,
    progress: Progress | None = None,
    scored: bool = False,
    failed_only: bool = False,
) -> list[str]:
    """Train and measure what the run of `setup` does not have yet of a plan.

    Args:
        suite: which the folder holds a run of.
        setup: of all jobs, with the folder.
        plan: all cells of the run.
        requests: what is measured.
        workers: processes; 0 works in this one.
        limit: only so many cells, the first.
        shard: only this part of them; that which the run remembers if none is given.
        retry_failed: repeat what has failed.
        repeats: how often every proxy is measured, 1 or 2.
        progress: hears of every result.
        scored: whether the caller scores the run when it is done: the time left then counts it.
        failed_only: nothing is done but what has failed, with `retry_failed`.

    Returns:
        What could not be done, in words.
    """
    from gapbench.population.driver import Driver, check_folder
    from gapbench.population.progress import Silent
    from gapbench.runs.environment import environment
    from gapbench.runs.identity import identity_in
    from gapbench.runs.known import META, kept, known_in
    from gapbench.runs.lock import sole_driver
    from gapbench.runs.session import ASKED, asked
    from gapbench.runs.store import Store

    check_folder(setup.run)
    with sole_driver(setup.run), Store(setup.run) as store:
        _same_suite(store, suite, setup.run)
        _same_protocol(store, setup.run)
        shown = progress or Silent()
        cells = _part(store, suite, plan, shard, setup.run, shown)[:limit]
        cells = _troubled(store, plan) if failed_only else cells
        if not failed_only:
            store.set_meta(ASKED, asked(cells, requests, repeats, workers))
        own = {cell.key for cell in cells}
        store.set_meta("suite", {"name": suite.name, "version": suite.version, "text": suite.text})
        store.set_meta("plan", [cell.key for cell in plan])
        store.set_meta("proxies", _labelled(store, requests))
        store.set_meta(META, kept(suite, requests, known_in(store)))
        store.set_meta(f"environment {time.time():.6f}", environment(setup.device))
        shown.about(suite.axes)
        scoring = _scoring(suite, cells, requests) if scored else None
        driver = Driver(
            store,
            setup,
            cells,
            requests,
            shown,
            retry_failed,
            repeats,
            others=[cell for cell in plan if cell.key not in own],
            afterwards=scoring.predicted if scoring is not None else lambda: 0.0,
            failed_only=failed_only,
        )
        try:
            outcome = driver.bring_up_to_date(workers)
        finally:
            if scoring is not None:
                scoring.note(Path(setup.run))
        store.set_meta("population", identity_in(store).as_dict())
    return outcome.problems


def _shard(text: str | None) -> Shard | None:
    from gapbench.population.shards import parse_shard

    return None if text is None else parse_shard(text)


def default_folder(suite: Suite, shard: Shard | None) -> Path:
    """Where a run lies that nobody gave a folder: `runs/<suite>`, for a part `runs/<suite>-i-of-n`."""
    name = suite.name
    if shard is not None and not shard.whole:
        name += f"-{shard.index}-of-{shard.count}"
    return Path("runs") / name


def part_of_plan(suite: Suite, plan: Sequence[Cell], shard: Shard | None) -> Sequence[Cell]:
    """The cells of a part of a plan; siblings stay together where the suite has proxies that need both."""
    from gapbench.population.shards import part_of
    from gapbench.proxies.registry import proxy_entry

    if shard is None:
        return plan
    return part_of(plan, shard, any("sibling" in proxy_entry(r.proxy).needs for r in suite.proxies))


def _part(
    store: Any, suite: Suite, plan: Sequence[Cell], shard: Shard | None, folder: Path, shown: Progress
) -> Sequence[Cell]:
    """The cells that a run is to have, and a note in it of which part they are."""
    from gapbench.population.shards import META, of_run

    stored = store.meta(META)
    chosen, remembered = of_run(stored, shard, store.meta("suite") is None, folder)
    cells = part_of_plan(suite, plan, chosen)
    if remembered != stored:
        store.set_meta(META, remembered)
    if chosen is not None and shard is None:
        shown.message(f"{folder} holds the part {chosen.text} of its suite: only that is worked on.")
    return cells


def _troubled(store: Any, plan: Sequence[Cell]) -> list[Cell]:
    """The cells of a plan on which something failed."""
    from gapbench.runs.session import troubled

    failed = troubled(store)
    return [cell for cell in plan if cell.key in failed]


def _holds_other_things(folder: Path) -> bool:
    """Whether a folder that is no run yet has files in it."""
    return folder.is_dir() and not (folder / "run.sqlite").exists() and any(folder.iterdir())


def _scoring(suite: Suite, cells: Sequence[Cell], requests: Sequence[ProxyRequest]) -> ScoringTime:
    """What scoring these networks will take."""
    from gapbench.runs.scoring_time import ScoringTime
    from gapbench.runs.tables import axis_values

    others = [axis for axis in suite.axes if axis != "width"]
    networks = [
        axis_values(cell.description, others)
        | {
            "cell": cell.key,
            "task": cell.configuration.task,
            "family": cell.configuration.family,
            "width": cell.configuration.width,
        }
        for cell in cells
    ]
    noisy = any(row.get("label_noise") for row in networks)
    return ScoringTime(networks, suite.axes, len(requests), 4 if noisy else 3)


def worker_count(workers: int | None, device: str) -> int:
    """The number asked for, or one process per core on a CPU and 4 on CUDA."""
    from gapbench.runs.environment import usable_cores

    if workers is not None:
        return workers
    return CUDA_WORKERS if device == "cuda" else usable_cores()


def setup_of(
    suite: Suite,
    folder: Path,
    device: str,
    data_dir: str | os.PathLike[str] | None,
    workers: int,
    stacks: str,
) -> Setup:
    """What all jobs of a run share; see `Setup`."""
    from gapbench.population.jobs import Setup
    from gapbench.runs.environment import arithmetic
    from gapbench_tasks.folder import data_folder

    return Setup(
        run=folder.absolute(),
        data_dir=str(data_folder(data_dir)),
        device=device,
        samples=suite.samples,
        loss=suite.loss,
        measure_seed=suite.measure_seed,
        workers=max(1, workers),
        stacks=stacks,
        arithmetic=arithmetic(device),
        record=suite.record,
        budget=suite.budget,
    )


def _opened(folder: Path, problems: Sequence[str], board: bool) -> Run:
    result = open_run(folder, problems=tuple(problems))
    if board and len(result.population):
        result.build_board()
    return result


def planned(suite: Suite, data_dir: str | None, where: str) -> list[Cell]:
    """All cells of a suite, and whether its examples can cover the classes of every task."""
    from gapbench.population.facts import facts_source
    from gapbench.population.plan import check_sizes, plan

    facts = facts_source(data_dir)
    cells = plan(suite, facts)
    check_sizes(suite, facts)
    classes = max(facts(cell.configuration).num_classes for cell in cells)
    if suite.samples < classes:
        raise GapbenchError(
            f"{where}: samples = {suite.samples} is fewer than the {classes} classes of a task."
        )
    return cells


def check_numbers(limit: int | None, workers: int | None, repeats: int, device: str) -> None:
    """Refuse numbers that no run can have."""
    if limit is not None and limit < 1:
        raise GapbenchError(f"limit = {limit} must be at least 1.")
    if workers is not None and workers < 0:
        raise GapbenchError(f"workers = {workers} must be at least 1, or 0 for this process.")
    if repeats not in (1, 2):
        raise GapbenchError(f"repeats = {repeats} must be 1 or 2.")
    if workers == 0 and device == "cuda":
        raise GapbenchError("workers = 0 works in this process, which is for the CPU; choose 1 or more.")


def _checked_stacks(stacks: str | None, device: str) -> str:
    if stacks is None:
        return "any" if device == "cuda" else "exact"
    if stacks not in STACKS:
        raise GapbenchError(f"stacks = {stacks!r} is none of {', '.join(STACKS)}.")
    return stacks


def choose_proxies(suite: Suite, names: Sequence[str] | None) -> tuple[ProxyRequest, ...]:
    """The suite's requests, or those named by label or proxy, or other registered proxies by name or group."""
    if names is None:
        return suite.proxies
    if not names:
        raise GapbenchError("No proxy is named: give at least one, or leave the option out.")
    chosen: list[ProxyRequest] = []
    for name in expanded(names):
        found = [r for r in suite.proxies if name in (r.label, r.proxy)]
        chosen += found or proxy_requests([name], "--proxies")
    return tuple(dict.fromkeys(chosen))


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


def _same_protocol(store: Any, folder: Path) -> None:
    from gapbench.population.plan import PROTOCOL, protocol_of

    found = protocol_of(row.description for row in store.cells())
    if found != PROTOCOL:
        raise GapbenchError(
            f"The networks of {folder} were trained by protocol {found} of an earlier gapbench, this one trains "
            f"by protocol {PROTOCOL}: they are not of one population. Its board, submissions and audits go on "
            "working; to train, choose another folder with --out. Nothing was changed."
        )


def _labelled(store: Any, requests: Sequence[ProxyRequest]) -> list[Any]:
    """All requests that this run has seen, by label; a label keeps its meaning for the life of a run."""
    known = {entry[2]: entry for entry in store.meta("proxies") or ()}
    for request in requests:
        entry = stored_request(request)
        if known.setdefault(request.label, entry) != entry:
            raise GapbenchError(
                f"The label {request.label!r} already stands for other options in this run; choose another."
            )
    return list(known.values())
