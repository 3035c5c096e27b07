"""Whether several runs are of one suite, on the same data, by the same protocol, with proxies of one version."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gapbench.runs.records import TrainedCell
from gapbench_base.errors import GapbenchError

if TYPE_CHECKING:
    from gapbench.runs.run import Run
    from gapbench.suites.requests import ProxyRequest


def same_suite(first: Run, other: Run) -> None:
    """One name, version and text of the suite, and whole weights; raises `GapbenchError` otherwise."""
    for run in (first, other):
        if run.half is not None:
            raise GapbenchError(
                f"{run.folder} holds weights in half precision, which belong to no other run. Take the runs with "
                "the full weights."
            )
    one, two = first.suite, other.suite
    if (one.name, one.version, one.text, one.axes) == (two.name, two.version, two.text, two.axes):
        return
    what = (
        f"{first.folder} is a run of {one.name} version {one.version}, {other.folder} of {two.name} version "
        f"{two.version}"
        if (one.name, one.version) != (two.name, two.version)
        else f"{first.folder} and {other.folder} are runs of different texts of {one.name} version {one.version}"
    )
    raise GapbenchError(f"Only runs of one suite can share a board: {what}.")


def suite_text(folder: Path) -> str | None:
    """The text of a run's suite."""
    from gapbench.runs.store import Store

    with Store(folder, readonly=True) as store:
        stored = store.meta("suite")
    return stored.get("text") if isinstance(stored, dict) else None


def same_data(folders: Sequence[Path], records: Sequence[dict[str, TrainedCell]]) -> None:
    """One fingerprint and protocol for each task and its options, over all runs, or `GapbenchError`."""
    seen: dict[str, tuple[str, Path]] = {}
    for place, rows in zip(folders, records):
        for row in rows.values():
            try:
                description = json.loads(row.description)
            except ValueError:  # said when the run is opened
                continue
            task = description.get("task") if isinstance(description, dict) else None
            if not isinstance(task, dict):
                continue
            key = json.dumps([task.get("name"), task.get("options")], sort_keys=True)
            state = json.dumps(
                [task.get("fingerprint"), task.get("version"), description.get("protocol")], sort_keys=True
            )
            known, folder = seen.setdefault(key, (state, place))
            if known != state:
                what = ("data (fingerprint)", "version of the task", "protocol of training")
                differing = [n for n, a, b in zip(what, json.loads(known), json.loads(state)) if a != b]
                raise GapbenchError(
                    f"{place} and {folder} cannot share a board: {task.get('name')} has another "
                    f"{' and another '.join(differing)} in one than in the other."
                )


def by_label(runs: Sequence[Run]) -> dict[str, ProxyRequest]:
    """What was asked for by label; raises `GapbenchError` where a label has two meanings."""
    found: dict[str, ProxyRequest] = {}
    for run in runs:
        for request in run.proxies:
            if found.setdefault(request.label, request) != request:
                raise GapbenchError(
                    f"The label {request.label!r} stands for other options in {run.folder} than in another run."
                )
    return found


def same_generations(runs: Sequence[Run]) -> None:
    """One version and protocol of each proxy over all runs: values of two are never ranked together.

    Raises:
        GapbenchError: naming the proxy and the runs.
    """
    from gapbench.runs.store import Store
    from gapbench.runs.tables import generations

    seen: dict[str, tuple[str, Path]] = {}
    for run in runs:
        with Store(run.folder, readonly=True) as store:
            own = generations(store, run.cells)
        for label, generation in own.items():
            known, folder = seen.setdefault(label, (generation, run.folder))
            if known != generation:
                raise GapbenchError(
                    f"{label} was measured with another version or other options in {run.folder} than in {folder}: "
                    "run both with one version of gapbench first."
                )
