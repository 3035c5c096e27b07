"""`gapbench status`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapbench.commands.completing import runs

if TYPE_CHECKING:
    from gapbench.runs.status import RunStatus

SHOWN = 20


@click.command("status")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=runs)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status_command(run: Path, as_json: bool) -> None:
    """How far the run in folder RUN is: done, running, failed with reasons, by task and family; rate and time left.

    It may be asked while another process works on the run, which is neither locked nor held up.
    """
    from gapbench.runs.status import status_of

    found = status_of(run)
    click.echo(json.dumps(found.as_dict(), indent=1) if as_json else "\n".join(_lines(found)))


def _lines(found: RunStatus) -> Iterator[str]:
    from gapbench_base.durations import duration

    part = f", part {found.shard}" if found.shard else ""
    yield f"{found.folder}: {found.suite} version {found.version}{part}"
    done = sum(found.networks.values())
    yield f"Networks: {done} of {found.planned}{_words(found.networks)}."
    made = sum(found.measurements.values())
    yield f"Measurements: {made} of {found.wanted}{_words(found.measurements)}."
    if found.process is None:
        ago = "" if found.last_result is None else f" The last result is {duration(found.last_result)} old."
        yield f"No process of this machine works on it.{ago}"
    else:
        yield (
            f"Process {found.process} works on it: {found.running_networks} networks are trained, "
            f"{found.running_measurements} proxies measured."
        )
        yield (
            f"Rate: {found.networks_per_hour or 0.0:.3g} networks and {found.measurements_per_hour or 0.0:.3g} "
            "measurements an hour."
        )
        left = "not known yet" if found.seconds_left is None else f"about {duration(found.seconds_left)}"
        yield f"Left, without scoring: {left}."
    yield ""
    yield from _table(found)
    if found.failures:
        yield f"\n{len(found.failures)} failed (again: gapbench retry {found.folder}):"
        for failure in found.failures[:SHOWN]:
            what = f"{failure.label} on {failure.cell}" if failure.label else failure.cell
            yield f"  {what} ({failure.task}, {failure.family}): {failure.reason}"
        if len(found.failures) > SHOWN:
            yield f"  ... and {len(found.failures) - SHOWN} more"


def _words(counts: object) -> str:
    assert isinstance(counts, dict)
    return f" ({', '.join(f'{count} {status}' for status, count in counts.items())})" if counts else ""


def _table(found: RunStatus) -> Iterator[str]:
    rows = [("task", "family", "planned", "done", "failed", "running")]
    for own in found.groups:
        counts = (own.planned, own.done, own.failed, own.running)
        rows.append((own.task or "not known", own.family, *(str(count) for count in counts)))  # type: ignore[arg-type]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    for row in rows:
        left = "  ".join(f"{row[i]:<{widths[i]}}" for i in range(2))
        yield f"  {left}  " + "  ".join(f"{row[i]:>{widths[i]}}" for i in range(2, 6))
