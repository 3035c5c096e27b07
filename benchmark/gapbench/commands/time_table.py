"""Where the time of a run went: by task and family, and by proxy."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from gapbench.pilot.costs import costs_of
from gapbench.runs.kinds import SUBMISSION
from gapbench.runs.records import StoredMeasurement
from gapbench.runs.store import Store
from gapbench_base.durations import duration

DEAREST = 5  # proxies that are named


def time_table(run: Path) -> str:
    """Seconds of workers for training and measuring, of the whole run whenever it was done.

    Proxies are charged for what they share, each for all of it, so their shares are of what was charged.

    Args:
        run: the folder.

    Returns:
        Lines; empty where nothing was trained.
    """
    with Store(run, readonly=True) as store:
        cells, measurements, begun = store.cells(), store.measurements(), store.begun_at()
    if not cells:
        return ""
    costs = costs_of(cells, [row for row in measurements if SUBMISSION not in row.description], begun)
    groups: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for cost in costs.values():
        group = groups[cost.place[:2]]
        group[0] += 1
        group[1] += cost.train_seconds
        group[2] += cost.measure_seconds
    rows = [("task", "family", "networks", "training", "measuring")]
    for (task, family), (count, train, measure) in sorted(groups.items()):
        rows.append((task, family, str(int(count)), duration(train), duration(measure)))
    total = [sum(group[i] for group in groups.values()) for i in range(3)]
    rows.append(("in all", "", str(int(total[0])), duration(total[1]), duration(total[2])))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = ["Where the time went (of all workers together)"]
    for row in rows:
        left = "  ".join(f"{row[i]:<{widths[i]}}" for i in range(2))
        lines.append(f"  {left}  " + "  ".join(f"{row[i]:>{widths[i]}}" for i in range(2, 5)))
    dear = _dearest(measurements)
    return "\n".join(lines + ([f"  dearest proxies: {dear}"] if dear else []))


def _dearest(measurements: list[StoredMeasurement]) -> str:
    charged: dict[str, float] = defaultdict(float)
    for row in measurements:
        charged[row.label] += row.seconds or 0.0
    whole = sum(charged.values())
    if not whole:
        return ""
    ordered = sorted(charged.items(), key=lambda item: -item[1])[:DEAREST]
    return ", ".join(f"{label} {100 * seconds / whole:.0f} %" for label, seconds in ordered)
