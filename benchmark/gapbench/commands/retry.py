"""`gapbench retry`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import runs


@click.command("retry")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=runs)
@click.option(
    "--status",
    type=click.Choice(["failed"]),
    default="failed",
    show_default=True,
    help="What is done again; other statuses are results.",
)
@click.option("--data", "data_dir", type=click.Path(path_type=Path), help="Data folder (or GAPBENCH_DATA).")
@click.option("--device", default="auto", type=click.Choice(["auto", "cpu", "cuda"]), show_default=True)
@click.option("--workers", type=click.IntRange(min=1), help="Processes (default: one per core; 4 on CUDA).")
@click.option("--quiet", is_flag=True, help="Say nothing of progress, only what fails and the result.")
def retry_command(
    run: Path, status: str, data_dir: Path | None, device: str, workers: int | None, quiet: bool
) -> None:
    """Train and measure again only what failed in the run in folder RUN, then score it and build its board.

    What was never begun stays so; `gapbench run RUN --retry-failed` does that as well.
    """
    from gapbench.commands.progress import progress
    from gapbench.commands.run import finish
    from gapbench.retrying import retry

    with progress(quiet, None, False) as shown:
        done = retry(run, device=device, data_dir=data_dir, workers=workers, progress=shown)
    if not done.networks:
        click.echo(f"Nothing has failed in {run}.")
        return
    finish(done.run)
