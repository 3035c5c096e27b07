"""`gapbench pack`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gapbench.commands.completing import runs

if TYPE_CHECKING:
    from gapbench.runs.packing import Packed


@click.command("pack")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=runs)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The file (default: RUN-<fingerprint>.zip, here)."
)
@click.option(
    "--half",
    is_flag=True,
    help="Weights in half precision, only if that is measured here to move no score. Another population.",
)
@click.option(
    "--compare",
    multiple=True,
    metavar="LABEL",
    help="With --half: a proxy of the run whose scores are compared, several times for several (default: those "
    "that are cheap and state no error).",
)
@click.option(
    "--data", "data_dir", type=click.Path(path_type=Path), help="With --half: data folder (or GAPBENCH_DATA)."
)
def pack_command(
    run: Path, out: Path | None, half: bool, compare: tuple[str, ...], data_dir: Path | None
) -> None:
    """Make one archive of the run in folder RUN: tables, entries, audit and weights, each with its checksum.

    gapbench pull makes a run of it again, from a file or an address. Equal runs give equal bytes. The data of the
    tasks, boards and figures are not part of it.
    """
    if half:
        _half(run, out, compare, data_dir)
        return
    if compare or data_dir is not None:
        raise click.UsageError("--compare and --data are for --half: nothing is measured without it.")
    from gapbench.runs.packing import pack

    _told(pack(run, out))


def _half(run: Path, out: Path | None, compare: tuple[str, ...], data_dir: Path | None) -> None:
    from gapbench.halving import pack_half

    done = pack_half(
        run, out, compare=compare, data_dir=data_dir, say=lambda text: click.echo(text, err=True)
    )
    _told(done.packed)
    click.echo(done.half.words)
    click.echo(f"Rounded, {done.other_errors} of these networks have other training or test errors.")


def _told(done: Packed) -> None:
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
