"""Train and measure again only what failed in a run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gapbench.population.updating import brought_up_to_date
from gapbench.running import check_numbers, planned, setup_of, worker_count
from gapbench.runs.folder import suite_in
from gapbench.runs.run import Run, open_run
from gapbench.runs.session import ASKED, troubled
from gapbench.runs.store import Store

if TYPE_CHECKING:
    from gapbench.population.progress import Progress


@dataclass(frozen=True)
class Retried:
    """What came of it: the run, and on how many `networks` something had failed."""

    run: Run
    networks: int


def retry(
    folder: str | os.PathLike[str],
    *,
    device: str = "auto",
    data_dir: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Retried:
    """Train the networks of a run that failed, and measure on them; and measure again what failed on others.

    What was never begun is left alone, such as the networks beyond a limit. Submitted proxies are
    measured again by `submit`.

    Args:
        folder: of the run.
        device: as in `gapbench.run`, like what follows.
        data_dir: as there.
        workers: as there.
        progress: as there.

    Returns:
        The run, and how many networks had a failure.

    Raises:
        GapbenchError: if there is no run, or another process works on it.
    """
    from gapbench.runs.environment import choose_device
    from gapbench.runs.known import requests_in

    path = Path(folder)
    suite = suite_in(path)
    with Store(path, readonly=True) as store:
        failed, requests = troubled(store), requests_in(store)
        repeats = int((store.meta(ASKED) or {}).get("repeats", 1))
    if not failed:
        return Retried(open_run(path), 0)
    device = choose_device(device)
    check_numbers(None, workers, repeats, device)
    count = worker_count(workers, device)
    setup = setup_of(suite, path, device, data_dir, count, "any" if device == "cuda" else "exact")
    problems = brought_up_to_date(
        suite,
        setup,
        planned(suite, setup.data_dir, f"the suite of {path}, [measure]"),
        requests,
        count,
        retry_failed=True,
        repeats=repeats,
        progress=progress,
        failed_only=True,
    )
    return Retried(open_run(path, problems=tuple(problems)), len(failed))
