"""`gapbench submit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gapbench.commands.completing import runs

if TYPE_CHECKING:
    from gapbench.runs.entry import Entry

from gapbench.commands.parsing import engine_options, limit_options, limits_of, options_of
from gapbench.commands.showing import LOADING, showing
from gapbench.commands.wrapping import echo


@click.command("submit")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--run",
    required=True,
    type=click.Path(path_type=Path),
    shell_complete=runs,
    help="Folder of a trained population.",
)
@click.option("--name", help="Name on the board (default: the proxy's).")
@click.option("--authors", default="", help="Who it is by.")
@click.option("--paper", default="", help="Where it is described.")
@click.option("--proxy", help="Which one, if the file registers several.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the proxy.")
@click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder (or GAPBENCH_DATA).")
@click.option("--workers", type=click.IntRange(min=1), help="Processes at a time (default: one per core).")
@click.option("--retry-failed", is_flag=True, help="Measure again where it has status failed.")
@click.option("--unsandboxed", is_flag=True, help="Without a sandbox: only for files that you trust.")
@engine_options("measure on a Ray cluster, in the sandbox of each node")
@limit_options
def submit_command(
    file: Path,
    run: Path,
    name: str | None,
    authors: str,
    paper: str,
    proxy: str | None,
    options: tuple[str, ...],
    data_dir: Path | None,
    workers: int | None,
    retry_failed: bool,
    unsandboxed: bool,
    time_limit: float,
    memory_limit: float,
    **cluster: Any,
) -> None:
    """Measure the proxy in FILE on every network of a run, and add it to the run's board.

    FILE runs in a sandbox that holds one network with its training data at a time. The same command again
    goes on after a kill; the same file again changes nothing; a changed file is a new version.
    """
    from gapbench.submission.submitting import submit

    with showing(first=LOADING) as say:
        done = submit(
            file,
            run,
            name=name,
            authors=authors,
            paper=paper,
            proxy=proxy,
            options=options_of(options),
            limits=limits_of(time_limit, memory_limit),
            unsandboxed=unsandboxed,
            workers=workers,
            data_dir=data_dir,
            retry_failed=retry_failed,
            say=say,
            **cluster,
        )
    if done.entry is None:
        echo("Not entered:", err=True)
        for reason in done.refusals:
            echo(f"  {reason}", err=True)
        echo(
            "Nothing else of the run was touched. `gapbench check` tries the file on networks of its own, and says "
            "what to change in it.",
            err=True,
        )
        raise click.exceptions.Exit(1)
    entry = done.entry
    if not done.changed:
        echo(f"{entry.label} is on the board already, from the same file; nothing was changed.")
    _before(entry, run)
    statuses = ", ".join(f"{count} {status}" for status, count in entry.statuses.items())
    echo(f"{entry.label}: {statuses}.")
    _claimed(entry)
    if entry.population.complete is False:
        echo(f"Population {entry.population.fingerprint}: {entry.population.words}.")
    _beside(entry)
    echo(f"Entry: {run / 'entries' / (entry.id + '.json')}")
    if entry.statuses.get("failed"):
        for failure in done.failures[:10]:
            echo(f"  {failure}", err=True)
        raise click.exceptions.Exit(1)


def _claimed(entry: Entry) -> None:
    """The headline, with its interval and the networks that it is of."""
    from gapbench.runs.entries import networks_of

    claimed, networks = entry.claimed, networks_of(entry)
    claim = "claimed" if entry.verifications else "claimed, not verified"
    if claimed.value is not None:
        echo(
            f"tau with the gap {claimed.value:.3f} [{claimed.low:.3f}, {claimed.high:.3f}] over "
            f"{networks} networks: {claim}."
            if claimed.low is not None and claimed.high is not None
            else f"tau with the gap {claimed.value:.3f} over {networks} networks."
        )
        gap = "larger" if entry.higher_means == "worse" else "smaller"
        echo(f"Above 0 it agrees with what the file declares: larger values, {gap} gaps.")
    else:
        echo(f"tau with the gap is not defined over {networks} networks: {claim}.")


def _before(entry: Entry, run: Path) -> None:
    """Whether the same was verified, and whether it stands on the board under another name as well."""
    from gapbench.runs.entries import load_entries, verified_words
    from gapbench.submission.keeping import same_as

    if entry.verifications:
        echo(f"It was verified before: {verified_words(entry)}.")
    others = same_as(load_entries(run), entry)
    if others:
        echo(
            f"The same source with the same options is on the board as {', '.join(others)}. To take one off: "
            f"gapbench entries {run} --withdraw {others[0]!r}"
        )


def _beside(entry: Entry) -> None:
    """What stands beside the headline on the board, so that its author reads it too."""
    from gapbench_leaderboard.scoring.registry import SUBMIT, estimators, marked

    own = [row for row in entry.scores if row.target == "gap" and not row.task and not row.family]
    known = {row.estimator: row.value for row in own if row.value is not None and row.value == row.value}
    limits = {row.estimator: (row.low, row.high) for row in own}
    parts = []
    for shown in estimators(SUBMIT):
        if shown.name in known:
            parts.append(
                f"{shown.heading_in(SUBMIT)} {known[shown.name]:{'.0f' if shown.form == 'count' else '.3f'}}"
            )
            low, high = limits[shown.name]
            if shown.form == "count" and low is not None and high is not None:
                parts[-1] += f" ({low:.0f}-{high:.0f})"
    if parts:
        echo(f"Beside it: {', '.join(parts)}.")
    for shown, mark in marked(SUBMIT):
        if mark.submit and shown.name in known and mark.applies(known[shown.name]):
            echo(mark.submit)
