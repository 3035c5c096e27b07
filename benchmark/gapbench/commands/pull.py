"""`gapbench pull`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import suites


@click.command("pull")
@click.argument("suite", shell_complete=suites)
@click.option("--wandb-project", "project", required=True, help="The wandb project to fetch from.")
@click.option("--entity", help="The wandb user or team (default: that of the key).")
@click.option("--suite-version", "version", help="Version of the suite (default: the latest published).")
@click.option("--trial", is_flag=True, help="An incomplete population (without it: complete ones only).")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run (default: runs/SUITE).")
@click.option(
    "--timeout", type=click.IntRange(min=10), default=1800, show_default=True, help="Seconds for everything."
)
def pull_command(
    suite: str,
    project: str,
    entity: str | None,
    version: str | None,
    trial: bool,
    out: Path | None,
    timeout: int,
) -> None:
    """Fetch a population of SUITE that somebody published with weights, as a run.

    A new proxy then is measured and ranked without training: gapbench submit FILE --run FOLDER. The data of
    the tasks must be there as for a run.
    """
    from gapbench.runs.intact import require_intact
    from gapbench.runs.run import open_run
    from gapbench.runs.store import Store
    from gapbench_leaderboard.board.document_file import read_document
    from gapbench_leaderboard.board.pulling import pull

    folder = out if out is not None else Path("runs") / suite
    pull(suite, project=project, entity=entity, version=version, trial=trial, folder=folder, seconds=timeout)
    opened = open_run(folder)
    with Store(folder, readonly=True) as store:
        require_intact(folder, store.cells())
    board = (read_document(folder / "board")["suite"].get("population") or {}).get("fingerprint")
    if board not in (None, opened.identity.fingerprint):
        click.echo(
            f"Note: the board that was published last is of another population ({board}) than these networks "
            f"({opened.identity.fingerprint}). Build it again: gapbench board {folder}",
            err=True,
        )
    click.echo(
        f"{folder}: {len(opened.population)} networks of {opened.suite.name} version {opened.suite.version} "
        f"(population {opened.identity.fingerprint}: {opened.identity.words}), "
        f"{len(opened.proxies) + len(opened.entries)} proxies measured."
    )
    click.echo(f"Measure and rank a proxy of yours: gapbench submit FILE --run {folder}")
