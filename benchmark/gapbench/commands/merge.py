"""`gapbench merge`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import runs


@click.command("merge")
@click.argument(
    "runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path), shell_complete=runs
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the merged run.")
def merge_command(runs: tuple[Path, ...], out: Path) -> None:
    """Make one run of several of one suite, such as its parts (gapbench run --shard), which are only read.

    Networks, measurements, weights and entries come along; what several have alike counts once. A result that two
    have differently is refused by name, and nothing is merged. The same command again changes nothing, or completes
    what was interrupted. A run in --out is added to.
    """
    from gapbench.runs.merging import merge

    done = merge(runs, out)
    told = (
        f"{done.networks} networks, {done.measurements} measurements and {done.entries} entries "
        f"(population {done.identity.fingerprint}: {done.identity.words})"
    )
    if not done.changed:
        click.echo(f"{out} has all of it: {told}. Nothing was changed.")
        return
    click.echo(f"{out}: {told}.")
    shared = (("network", done.shared_networks), ("measurement", done.shared_measurements))
    words = [f"{count} {name}{'' if count == 1 else 's'}" for name, count in shared if count]
    if words:
        click.echo(f"Found in several runs alike, and counted once: {' and '.join(words)}.")
    if done.left_out:
        click.echo(
            f"Left out: {done.left_out} measurements of a submission that was withdrawn and made anew."
        )
    click.echo(f"What is missing is trained and measured, and the board built, by: gapbench run {out}")
