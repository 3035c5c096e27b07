"""The folder of a run where a suite is asked for: it stands for its own suite."""

from __future__ import annotations

import os
from pathlib import Path

from gapbench.suites.suite import Suite, list_suites, parse_suite
from gapbench_base.errors import GapbenchError


def run_folder(suite: str | os.PathLike[str]) -> Path | None:
    """The folder of a run; None for the name of a suite or a file."""
    path = Path(suite)
    return path if os.fspath(suite) not in list_suites() and (path / "run.sqlite").is_file() else None


def suite_in(folder: Path) -> Suite:
    """The suite of a run. Raises `GapbenchError` if it has none that could be run."""
    from gapbench.runs.store import Store

    with Store(folder, readonly=True) as store:
        stored = store.meta("suite")
    if not isinstance(stored, dict) or stored.get("imported") or not isinstance(stored.get("text"), str):
        raise GapbenchError(f"{folder} holds no suite to run: it is imported, or nothing was run there yet.")
    return parse_suite(stored["text"], f"of {folder}")
