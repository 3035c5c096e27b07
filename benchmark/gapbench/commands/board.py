"""`gapbench board`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("board")
@click.argument("run", type=click.Path(path_type=Path))
def board_command(run: Path) -> None:
    """Score the run in folder RUN again and rebuild its board. Trains and measures nothing."""
    from gapbench.commands.run import finish
    from gapbench.running import open_run

    finish(open_run(run))
