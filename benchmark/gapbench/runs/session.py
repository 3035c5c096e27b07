"""What a call of `gapbench run` is to do, as the run keeps it, so that others can tell how far it is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapbench.runs.store import Store

if TYPE_CHECKING:
    from gapbench.suites.requests import ProxyRequest

ASKED = "asked"
"""Its name in the run's database."""


def asked(
    cells: Sequence[Any], requests: Sequence[ProxyRequest], repeats: int, workers: int
) -> dict[str, object]:
    """What a call is to do, as plain JSON.

    Args:
        cells: that are to be trained and measured, of a plan (`gapbench.population.plan.Cell`).
        requests: what is measured.
        repeats: how often.
        workers: processes; 0 is this one.

    Returns:
        Labels, repeats, workers, when it began (seconds of the epoch), and the keys of cells by task and family.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        own = cell.configuration
        groups.setdefault((own.task, own.family), []).append(cell.key)
    return {
        "began": time.time(),
        "labels": [request.label for request in requests],
        "repeats": repeats,
        "workers": max(1, workers),
        "groups": [[task, family, keys] for (task, family), keys in groups.items()],
    }


def troubled(store: Store) -> set[str]:
    """The cells that failed, or on which a measurement failed that was not made for a submission."""
    from gapbench.runs.kinds import SUBMISSION

    found = {cell for cell, status in store.statuses("cells").items() if status == "failed"}
    failed = (row for row in store.measurements() if row.status == "failed")
    return found | {row.cell for row in failed if SUBMISSION not in row.description}
