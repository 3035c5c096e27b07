"""The folder of a run where a suite is asked for: it stands for its own suite."""

from __future__ import annotations

import os
from pathlib import Path

from gapbench.suites.suite import Suite, list_suites
from gapbench_base.errors import GapbenchError


def run_folder(suite: str | os.PathLike[str]) -> Path | None:
    """The folder of a run; None for the name of a suite or a file."""
    path = Path(suite)
    return path if os.fspath(suite) not in list_suites() and (path / "run.sqlite").is_file() else None


def existing_run(run: str | os.PathLike[str]) -> Path:
    """The folder of a run; raises `GapbenchError` where it holds none."""
    from gapbench.runs.store import Store

    with Store(Path(run), readonly=True):
        return Path(run)


def suite_in(folder: Path, measures: bool = True) -> Suite:
    """The suite of a run.

    Args:
        folder: of the run.
        measures: whether its own proxies are to be measured, for which they must be installed.

    Returns:
        The suite.

    Raises:
        GapbenchError: if it has none that could be run, or what it needs is not installed.
    """
    from gapbench.runs.known import known_in, requests_in, suite_to_work_on
    from gapbench.runs.store import Store

    with Store(folder, readonly=True) as store:
        stored = store.meta("suite")
        known, requests = known_in(store), requests_in(store)
    if not isinstance(stored, dict) or stored.get("imported") or not isinstance(stored.get("text"), str):
        raise GapbenchError(f"{folder} holds no suite to run: it is imported, or nothing was run there yet.")
    return suite_to_work_on(stored["text"], known, requests, f"The run {folder}", measures)


def check_folder(run: Path) -> None:
    """Create the run's folder; raises `GapbenchError` if that is not possible."""
    try:
        (run / "weights").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GapbenchError(f"The folder {run} cannot be used: {error.strerror or error}.") from None
