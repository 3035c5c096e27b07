"""`gapbench publish`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import runs


@click.command("publish")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=runs)
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
    from gapbench.runs.weight_location import location_of
    from gapbench_leaderboard.board.document_file import read_document
    from gapbench_leaderboard.board.publishing import publish
    from gapbench_leaderboard.scores import TableError

    board = run / "board" if (run / "board").is_dir() else run
    weights = run / "weights" if with_weights else None
    if weights is not None and (elsewhere := location_of(run)) is not None:
        raise TableError(
            f"--with-weights: {run} keeps its weights at {elsewhere}. `gapbench pack {run}` makes one file of all; "
            "a run pulled from it has them in its folder, and can be published with them."
        )
    if weights is not None and not weights.is_dir():
        raise TableError(f"--with-weights: {run} has no folder weights")
    if weights is not None:
        _whole(run, board)
    result = publish(
        board.absolute(),
        project=project,
        entity=entity,
        offline=offline,
        folder=(run / "publish").absolute(),
        seconds=timeout,
        weights=weights.absolute() if weights is not None else None,
        database=(run / "run.sqlite").absolute() if weights is not None else None,
        sources=_sources(run),
    )
    population = read_document(board)["suite"].get("population") or {}
    if population.get("complete") is False:
        click.echo(
            f"Not the whole suite: {population.get('words')}; tagged so, beside the whole and not in its place."
        )
    if result.folder is None:
        click.echo(f"Published {len(result.runs)} runs to the wandb project {project}.")
        return
    click.echo(f"Written offline ({result.why}): {len(result.runs)} runs in {result.folder}.")
    click.echo("To upload them:")
    click.echo(f"  {result.command}")


def _whole(run: Path, board: Path) -> None:
    """Weights that are not those of the board are not published with it."""
    from gapbench.runs.intact import require_intact
    from gapbench.runs.run import open_run
    from gapbench.runs.store import Store
    from gapbench_base.errors import GapbenchError
    from gapbench_leaderboard.board.document_file import read_document

    with Store(run, readonly=True) as store:
        rows = [] if (store.meta("suite") or {}).get("imported") else store.cells()
    require_intact(run, rows)
    of_board = (read_document(board)["suite"].get("population") or {}).get("fingerprint")
    identity = open_run(run).identity
    if of_board not in (None, identity.fingerprint):
        raise GapbenchError(
            f"The board in {board} is of another state of the population ({of_board}) than the networks in {run} "
            f"({identity.fingerprint}, {identity.words}). Build it again first: gapbench board {run}"
        )


def _sources(run: Path) -> dict[str, str]:
    """The entries of a run with their code, and the modules of the proxies that come with gapbench."""
    if not (run / "run.sqlite").is_file():
        return {}
    import inspect

    from gapbench.proxies.registry import list_proxies, proxy_entry
    from gapbench.runs.run import open_run

    opened = open_run(run)
    found = {}
    for request in opened.proxies:
        if request.proxy not in list_proxies():  # its package is not installed any more
            continue
        module = inspect.getmodule(proxy_entry(request.proxy).function)
        if module is not None:
            found[f"source/{module.__name__}.py"] = inspect.getsource(module)
    for entry in opened.entries:
        file = run / "entries" / f"{entry.id}.json"
        found[f"entries/{entry.id}.json"] = file.read_text(encoding="utf-8")
        found[f"source/{entry.name}-v{entry.version}.py"] = entry.source
    return found
