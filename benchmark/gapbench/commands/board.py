"""`gapbench board`."""

from __future__ import annotations

from pathlib import Path

import click

from gapbench.commands.completing import runs


@click.command("board")
@click.argument(
    "runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path), shell_complete=runs
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of a joined board (several runs).")
@click.option("--serve", is_flag=True, help="Show the board at an address of this machine, until Ctrl-C.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of --serve (default: a free one).")
def board_command(runs: tuple[Path, ...], out: Path | None, serve: bool, port: int) -> None:
    """Score the run in folder RUN again and rebuild its board. Trains and measures nothing.

    Several runs of one suite, and files of entries (RUN/entries/*.json) measured on its networks, are joined
    into one board in the folder --out: networks and measurements that they share count once.
    """
    from gapbench.commands.run import finish
    from gapbench.runs.joining import join
    from gapbench.runs.run import open_run
    from gapbench_base.errors import GapbenchError

    if out is not None:
        _check_out(out)
    folders = [path for path in dict.fromkeys(runs) if path.suffix != ".json"]
    entries = [path for path in dict.fromkeys(runs) if path.suffix == ".json"]
    if not folders:
        raise GapbenchError(
            "Give at least one run beside the entries: gapbench board RUN ENTRY.json --out FOLDER"
        )
    if len(folders) + len(entries) == 1 and out is None:
        result = open_run(folders[0])
    elif out is None:
        raise GapbenchError("Give the folder of the joined board: --out FOLDER")
    else:
        result = join(folders, entries, out)
    failed: click.exceptions.Exit | None = None
    try:
        finish(result)
    except click.exceptions.Exit as stop:
        failed = stop
    if serve:
        from gapbench_leaderboard.board.serving import serve as show

        show(result.folder / "board", port, click.echo)
    if failed is not None:
        raise failed


def _check_out(out: Path) -> None:
    """A joined board replaces an earlier one of its kind, and nothing else."""
    from gapbench_base.errors import GapbenchError
    from gapbench_leaderboard.board.scores_file import suite_of

    if out.exists() and not out.is_dir():
        raise GapbenchError(f"--out {out} is a file; give a folder for the joined board")
    if (out / "run.sqlite").exists():
        raise GapbenchError(f"--out {out} is a run, whose own board would be lost; give another folder")
    board = out / "board"
    if board.exists() and not (board.is_dir() and (not any(board.iterdir()) or suite_of(board))):
        raise GapbenchError(f"--out {out} holds a {board.name} that is none of gapbench; give another folder")
