"""`gapbench publish`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("publish")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--wandb-project", "project", required=True, help="The wandb project to publish to.")
@click.option("--entity", help="The wandb user or team (default: that of the key).")
@click.option("--offline", is_flag=True, help="Write an offline directory, send nothing.")
@click.option(
    "--with-weights", is_flag=True, help="Also the networks' weights and run.sqlite, as an artifact."
)
@click.option(
    "--timeout", type=click.IntRange(min=10), default=600, show_default=True, help="Seconds to try online."
)
def publish_command(
    run: Path, project: str, entity: str | None, offline: bool, with_weights: bool, timeout: int
) -> None:
    """Publish the board of the run in folder RUN to wandb: one run per proxy, one leaderboard.

    Publishing again updates the same runs. Without a key or a network everything is written to RUN/publish,
    with the command that uploads it. Nothing else of gapbench sends anything.
    """
    from gapbench_leaderboard.board.publishing import publish
    from gapbench_leaderboard.scores import TableError

    board = run / "board" if (run / "board").is_dir() else run
    weights = run / "weights" if with_weights else None
    if weights is not None and not weights.is_dir():
        raise TableError(f"--with-weights: {run} has no folder weights")
    result = publish(
        board.absolute(),
        project=project,
        entity=entity,
        offline=offline,
        folder=(run / "publish").absolute(),
        seconds=timeout,
        weights=weights.absolute() if weights is not None else None,
        database=(run / "run.sqlite").absolute() if weights is not None else None,
    )
    if result.folder is None:
        click.echo(f"Published {len(result.runs)} runs to the wandb project {project}.")
        return
    click.echo(f"Written offline ({result.why}): {len(result.runs)} runs in {result.folder}.")
    click.echo("To upload them:")
    click.echo(f"  {result.command}")
