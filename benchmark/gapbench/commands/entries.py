"""`gapbench entries`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapbench.commands.completing import entries, runs

if TYPE_CHECKING:
    from gapbench.submission.keeping import Listed


@click.command("entries")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=runs)
@click.option(
    "--withdraw",
    metavar="NAME",
    shell_complete=entries,
    help="Take an entry off the board; nothing of it is deleted.",
)
@click.option("--put-back", metavar="NAME", help="Put a withdrawn entry back on the board.")
@click.option(
    "--rename", nargs=2, metavar="NAME NEW", help="Give an entry another name on the board.", default=None
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def entries_command(
    run: Path, withdraw: str | None, put_back: str | None, rename: tuple[str, str] | None, as_json: bool
) -> None:
    """List the submitted proxies of a RUN: score, networks, who by, verified or not; or change one.

    To measure an entry again: gapbench verify NAME --run RUN. A changed file is a new version: gapbench submit.
    """
    from gapbench.submission import keeping
    from gapbench_base.errors import GapbenchError

    asked = [name for name in (withdraw, put_back, rename) if name is not None]
    if len(asked) > 1:
        raise GapbenchError("Give one of --withdraw, --put-back and --rename at a time.")
    if withdraw is not None:
        entry = keeping.withdraw(run, withdraw)
        click.echo(
            f"{entry.label} is off the board. To undo it: gapbench entries {run} --put-back {entry.id}"
        )
        return
    if put_back is not None:
        click.echo(f"{keeping.put_back(run, put_back).label} is on the board again.")
        return
    if rename is not None:
        click.echo(f"{rename[0]} is now {keeping.rename(run, *rename).label}.")
        return
    found = keeping.listed(run)
    if as_json:
        click.echo(json.dumps([_plain(entry) for entry in found], indent=2, allow_nan=False))
    elif not found:
        click.echo(f"{run} has no entries. To add one: gapbench submit FILE.py --run {run}")
    else:
        _print(found)


def _plain(listed: Listed) -> dict[str, object]:
    entry = listed.entry
    return {
        "id": entry.id,
        "name": entry.name,
        "label": entry.label,
        "version": entry.version,
        "proxy": entry.proxy,
        "options": dict(entry.options),
        "authors": entry.authors or "",
        "submitted": entry.submitted or "",
        "source_sha256": entry.source_sha256,
        "statuses": dict(entry.statuses),
        "tau": entry.claimed.value,
        "low": entry.claimed.low,
        "high": entry.claimed.high,
        "withdrawn": listed.withdrawn,
        "remarks": list(listed.remarks),
    }


def _print(found: list[Listed]) -> None:
    from gapbench.runs.entries import networks_of

    width = max(len("entry"), *(len(listed.entry.label) for listed in found))
    counts = {listed.entry.id: networks_of(listed.entry) for listed in found}
    wide = max(len("networks"), *map(len, counts.values()))
    click.echo(f"{'entry':<{width}}  {'tau with the gap':<22}  {'networks':>{wide}}  {'submitted':<10}  by")
    for listed in found:
        entry, claimed = listed.entry, listed.entry.claimed
        tau = "not defined" if claimed.value is None else f"{claimed.value:.3f}"
        if claimed.low is not None and claimed.high is not None:
            tau += f" [{claimed.low:.3f}, {claimed.high:.3f}]"
        day = (entry.submitted or "")[:10]
        line = f"{entry.label:<{width}}  {tau:<22}  {counts[entry.id]:>{wide}}  {day:<10}  {entry.authors or '-'}"
        click.echo(line + ("  (withdrawn)" if listed.withdrawn else ""))
        for remark in listed.remarks:
            click.echo(f"  {remark}")
