"""`gapbench verify`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import entries, runs
from gapbench.commands.parsing import engine_options
from gapbench.commands.showing import LOADING, showing
from gapbench.commands.wrapping import echo


@click.command("verify")
@click.argument("entry", shell_complete=entries)
@click.option(
    "--run", required=True, type=click.Path(path_type=Path), shell_complete=runs, help="Folder of the run."
)
@click.option("--fresh-seeds", is_flag=True, help="On a newly trained population that the author never saw.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of that population (resumes).")
@click.option("--by", default="", help="Who verifies; the board shows it (default: taken for the author).")
@click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder (or GAPBENCH_DATA).")
@click.option("--workers", type=click.IntRange(min=1), help="Processes at a time (default: one per core).")
@click.option("--unsandboxed", is_flag=True, help="Without a sandbox: only for files that you trust.")
@engine_options("measure on a Ray cluster, in the sandbox of each node; train there too")
def verify_command(
    entry: str,
    run: Path,
    fresh_seeds: bool,
    out: Path | None,
    by: str,
    data_dir: Path | None,
    workers: int | None,
    unsandboxed: bool,
    engine: str,
    address: str | None,
) -> None:
    """Measure ENTRY (its name on the board, or a JSON file) again; confirm or refute it.

    The outcome is kept in the entry and shown on the board, with by whom and on which networks. Exit code 1 if
    it is refuted, contradicted or cannot be decided, 0 if it is confirmed or not contradicted.
    """
    from gapbench.commands.progress import networks_of
    from gapbench.runs.comparing import CONFIRMED, NOT_CONTRADICTED
    from gapbench.submission.verifying import verify
    from gapbench_base.errors import GapbenchError

    if out is not None and not fresh_seeds:
        raise GapbenchError("--out goes with --fresh-seeds.")
    with showing(first=LOADING) as say:
        found = verify(
            entry,
            run,
            fresh_seeds=fresh_seeds,
            out=out,
            unsandboxed=unsandboxed,
            workers=workers,
            data_dir=data_dir,
            by=by,
            say=say,
            progress=networks_of(say) if fresh_seeds else None,
            engine=engine,
            address=address,
        )
    echo(f"{found.outcome} on the {found.kind}: {found.text}")
    if not found.written:
        echo("The entry is not one of this run; nothing was written.")
    if found.outcome not in (CONFIRMED, NOT_CONTRADICTED):
        raise click.exceptions.Exit(1)
