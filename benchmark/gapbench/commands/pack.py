"""`gapbench pack`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import runs


@click.command("pack")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=runs)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The file (default: RUN-<fingerprint>.zip, here)."
)
def pack_command(run: Path, out: Path | None) -> None:
    """Make one archive of the run in folder RUN: tables, entries, audit and weights, each with its checksum.

    gapbench pull makes a run of it again, from a file or an address. Equal runs give equal bytes. The data of the
    tasks, boards and figures are not part of it.
    """
    from gapbench.runs.packing import pack

    done = pack(run, out)
    contents = done.contents
    what = (
        f"{contents.networks} of {contents.planned} networks of {contents.suite} version {contents.version} "
        f"(population {contents.fingerprint})"
    )
    if done.there:
        click.echo(f"{done.path} is there already, with the same content: {what}.")
    else:
        click.echo(f"{done.path}: {what}, {done.size:,} bytes.")
    click.echo(f"sha256 {done.sha256}")
