"""`gapbench pilot`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import suites


@click.command("pilot")
@click.argument("suite", shell_complete=suites)
@click.option(
    "--networks", type=click.IntRange(min=2), default=48, show_default=True, help="How many to train."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder of the pilot (default: runs/pilot-SUITE)."
)
@click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder (or GAPBENCH_DATA).")
@click.option("--device", default="auto", type=click.Choice(["auto", "cpu", "cuda"]), show_default=True)
@click.option("--workers", type=click.IntRange(min=1), help="Processes (default: one per core; 4 on CUDA).")
@click.option("--quiet", is_flag=True, help="Say nothing of progress, only what fails and the result.")
@click.option("--verbose", is_flag=True, help="A line for every network and every measurement, no bars.")
@click.option("--log", type=click.Path(path_type=Path), help="Append progress to this file, in plain lines.")
def pilot_command(
    suite: str,
    networks: int,
    out: Path | None,
    data_dir: Path | None,
    device: str,
    workers: int | None,
    quiet: bool,
    verbose: bool,
    log: Path | None,
) -> None:
    """Train a small balanced part of SUITE and say what the whole would cost, keep and be able to decide.

    To be used before an expensive run: time by family, disk, convergence by axis, the width of intervals, whether
    proxies could be told apart, and what to change. Resumes; `gapbench run SUITE --out FOLDER` goes on from it.
    """
    from gapbench.commands.progress import progress
    from gapbench.pilot.piloting import pilot
    from gapbench.pilot.words import report_text

    with progress(quiet, log, verbose) as shown:
        report, run = pilot(
            suite, networks, out, device=device, data_dir=data_dir, workers=workers, progress=shown
        )
    click.echo("\n" + report_text(report))
    click.echo(f"\nReport: {run.folder / 'pilot.md'} (and pilot.json beside it)")
    troubles = [*run.problems, *run.failures]
    if troubles:
        click.echo(f"\n{len(troubles)} failed:", err=True)
        for trouble in troubles[:20]:
            click.echo(f"  {trouble}", err=True)
        raise click.exceptions.Exit(1)
