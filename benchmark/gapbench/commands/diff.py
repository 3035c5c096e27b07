"""`gapbench diff`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gapbench.commands.completing import runs


@click.command("diff")
@click.argument("before", type=click.Path(path_type=Path), shell_complete=runs)
@click.argument("after", type=click.Path(path_type=Path), shell_complete=runs)
@click.option("--json", "as_json", is_flag=True, help="Every headline of both boards, as JSON.")
def diff_command(before: Path, after: Path, as_json: bool) -> None:
    """What changed from the board BEFORE to the board AFTER (folders of boards or runs, or scores.csv)."""
    from gapbench_leaderboard.board.difference import difference, difference_text
    from gapbench_leaderboard.board.numbers import plain
    from gapbench_leaderboard.board.scores_file import population_of, read_scores, suite_of

    table = difference(read_scores(before), read_scores(after))
    populations = population_of(before), population_of(after)
    if None not in populations and populations[0] != populations[1]:
        click.echo(
            f"note: these are boards of different populations ({populations[0]}; {populations[1]}): other "
            "networks, not only other measurements",
            err=True,
        )
    suites = suite_of(before), suite_of(after)
    if None not in suites and suites[0] != suites[1]:
        click.echo(
            f"note: these are boards of different suites ({suites[0]}, {suites[1]}): other networks, not only "
            "other measurements",
            err=True,
        )
    if as_json:
        click.echo(json.dumps(plain(table.to_dict("records")), indent=2, allow_nan=False))
    else:
        click.echo(difference_text(table))
