"""`gapbench pull`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import suites


@click.command("pull")
@click.argument("source", shell_complete=suites)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run (default: runs/SUITE).")
@click.option("--sha256", help="Of the pack, where you were told it.")
@click.option("--wandb-project", "project", help="Fetch the suite SOURCE from this project of wandb.")
@click.option("--entity", help="wandb: the user or team (default: that of the key).")
@click.option(
    "--suite-version", "version", help="wandb: version of the suite (default: the latest published)."
)
@click.option(
    "--trial", is_flag=True, help="wandb: an incomplete population (without it: complete ones only)."
)
@click.option(
    "--timeout",
    type=click.IntRange(min=10),
    default=1800,
    show_default=True,
    help="wandb: seconds for everything.",
)
def pull_command(
    source: str,
    out: Path | None,
    sha256: str | None,
    project: str | None,
    entity: str | None,
    version: str | None,
    trial: bool,
    timeout: int,
) -> None:
    """Fetch a population that somebody packed (gapbench pack) or published with weights, as a run.

    SOURCE is a file, a folder, an http(s) address, any address that fsspec knows (file://, s3://, gs://, ...),
    hf://ORG/NAME of Hugging Face, or with --wandb-project the name of a suite. A download that breaks off goes on
    where it ended. Every member is checked before the run appears, and a run that is there stays as it is.

    A new proxy then is measured and ranked without training: gapbench submit FILE --run FOLDER. The data of
    the tasks must be there as for a run.
    """
    if project is not None:
        if sha256 is not None:
            raise click.UsageError("--sha256 is of a pack; wandb's files have checksums of their own.")
        _from_wandb(source, project, entity, version, trial, out, timeout)
        return
    if entity is not None or version is not None or trial:
        raise click.UsageError("--entity, --suite-version and --trial go with --wandb-project.")
    from gapbench.runs.pulling import pull_pack

    done = pull_pack(source, out, sha256=sha256, say=lambda text: click.echo(text, err=True))
    if done.there:
        click.echo("The same run is there already; nothing was changed.")
    _told(done.folder)
    click.echo(f"Build its board: gapbench board {done.folder}")


def _from_wandb(
    suite: str,
    project: str,
    entity: str | None,
    version: str | None,
    trial: bool,
    out: Path | None,
    timeout: int,
) -> None:
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
    _told(folder)


def _told(folder: Path) -> None:
    """What the run holds, and what it is good for."""
    from gapbench.runs.run import open_run

    opened = open_run(folder)
    click.echo(
        f"{folder}: {len(opened.population)} networks of {opened.suite.name} version {opened.suite.version} "
        f"(population {opened.identity.fingerprint}: {opened.identity.words}), "
        f"{len(opened.proxies) + len(opened.entries)} proxies measured."
    )
    if opened.half is not None:
        click.echo(opened.half.words)
    click.echo(f"Measure and rank a proxy of yours: gapbench submit FILE --run {folder}")
