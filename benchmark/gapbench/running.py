"""Run a suite: train, measure, score, build the board; and open what a run has."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gapbench.proxies.registry import expanded
from gapbench.runs.folder import run_folder, suite_in
from gapbench.runs.run import Run, open_run
from gapbench.suites.requests import ProxyRequest, proxy_requests
from gapbench.suites.suite import Suite, load_suite
from gapbench_base.durations import seconds_of
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from gapbench.population.admission import Budget
    from gapbench.population.jobs import Setup
    from gapbench.population.plan import Cell
    from gapbench.population.progress import Progress
    from gapbench.population.shards import Shard

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
    budget: str | float | None = None,
    engine: str = "local",
    address: str | None = None,
    gpu_share: float | None = None,
    weights: str | os.PathLike[str] | None = None,
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

    `budget` ("30m", "2h", "90s", or seconds) is the time from this call to the board: of the networks, in an order
    balanced over tasks, families and axes, as many are trained as are forecast to fit in, and it is told what was
    left out. The same call without it does the rest.

    `engine` = "ray" trains and measures on a Ray cluster: that at `address` ("host:port"), or of RAY_ADDRESS, or
    one that runs on this machine or is started here. All nodes must have `data_dir` under the same path, and
    `out`, unless the weights are kept at an address. The rows are those of this machine alone. Each task asks for
    memory as the plan has it, and for `gpu_share` of a GPU, by default a quarter, half or all of one by the size
    of its network.

    `weights` is where weight files are kept: a folder, or an address that fsspec knows ("s3://bucket/quick"), in
    place of the folder `weights` of the run. The run remembers it; it belongs to this run alone. Of files at an
    address only the sizes are checked beforehand, their checksums whenever they are read.

    Returns:
        The run with all that it has now; `problems` are what could not be done.

    Raises:
        GapbenchError: for wrong usage, missing data, a folder of another suite or one that another process works
            on; finished results are kept.
        DiskFull: where there is no space left; finished results are kept.
    """
    allowed = _budget(budget)
    own = run_folder(suite)
    if own is not None and out is None:
        out = own
    # a wrong name is said before torch is imported
    if out is not None and Path(out).exists() and not Path(out).is_dir():
        raise GapbenchError(f"--out {out} is a file: give a folder for the run.")
    part = _shard(shard)
    chosen = suite_in(own, measures=proxies is None) if own is not None else load_suite(os.fspath(suite))
    from gapbench.population.places import place_of
    from gapbench.population.updating import brought_up_to_date, part_of_plan

    with place_of(engine, address, gpu_share) as place:
        device = place.device(device)
        check_numbers(limit, workers, repeats, device)
        requests = choose_proxies(chosen, proxies)
        folder = Path(out) if out is not None else default_folder(chosen, part)
        count = place.workers(workers, device)
        kind = _checked_stacks(stacks, device)
        setup = setup_of(chosen, folder, device, data_dir, count, kind, place.arithmetic(device))
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
            crew=place.crew(workers),
            limit=limit,
            shard=part,
            retry_failed=retry_failed,
            repeats=repeats,
            progress=progress,
            scored=progress is not None or (allowed is not None and board),
            budget=allowed,
            weights=weights,
        )
    return _opened(folder, problems, board)


def _budget(asked: str | float | None) -> Budget | None:
    from gapbench.population.admission import Budget

    if asked is None:
        return None
    seconds = seconds_of(asked) if isinstance(asked, str) else float(asked)
    if not 0 < seconds < math.inf:
        raise GapbenchError(f"budget = {asked!r} must be more than nothing, such as 30m.")
    return Budget(seconds, time.monotonic())


def _shard(text: str | None) -> Shard | None:
    from gapbench.population.shards import parse_shard

    return None if text is None else parse_shard(text)


def default_folder(suite: Suite, shard: Shard | None) -> Path:
    """Where a run lies that nobody gave a folder: `runs/<suite>`, for a part `runs/<suite>-i-of-n`."""
    name = suite.name
    if shard is not None and not shard.whole:
        name += f"-{shard.index}-of-{shard.count}"
    return Path("runs") / name


def _holds_other_things(folder: Path) -> bool:
    """Whether a folder that is no run yet has files in it."""
    return folder.is_dir() and not (folder / "run.sqlite").exists() and any(folder.iterdir())


def worker_count(workers: int | None, device: str) -> int:
    """The number asked for, or one process per core on a CPU and 4 on CUDA."""
    from gapbench.population.places import Here

    return Here().workers(workers, device)


def setup_of(
    suite: Suite,
    folder: Path,
    device: str,
    data_dir: str | os.PathLike[str] | None,
    workers: int,
    stacks: str,
    computes: str | None = None,
) -> Setup:
    """What all jobs of a run share; see `Setup`. `computes`: its `arithmetic`, that of this machine if None."""
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
        arithmetic=computes or arithmetic(device),
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
