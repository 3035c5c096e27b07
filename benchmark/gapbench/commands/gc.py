"""`gapbench gc`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import runs


@click.command("gc")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=runs)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def gc_command(run: Path, dry_run: bool) -> None:
    """Remove weight files that no row of the run in folder RUN names, and what killed processes left half written.

    What a row names is never removed, nor what gapbench did not write. Refused while another process works there.
    """
    from gapbench.runs.collecting import collect

    found = collect(run, dry_run)
    for own in found:
        click.echo(f"{own.path}: {own.what}, {own.size:,} bytes")
    words = "would be removed" if dry_run else "removed"
    click.echo(f"{len(found)} files of {sum(own.size for own in found):,} bytes {words}.")
