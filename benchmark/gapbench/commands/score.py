"""`gapbench score`: rank statistics of a researcher's own table of networks and measures."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas as pd

    from gapbench_leaderboard.statistics.cells import NumberFormat

NAME_THEM = "--measures can name them"
OUTCOMES = ("seed", "test_size", "test_error", "test_loss", "test_accuracy", "gap", "loss_gap")
"""Columns that are scored only where --measures names them: what a proxy is to predict, or no quantity."""


@click.command("score")
@click.argument("table", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--target", default="gap", show_default=True, help="Column to be predicted; larger is worse.")
@click.option(
    "--axes", multiple=True, required=True, help="Columns of hyper-parameters, separated by commas."
)
@click.option("--measures", multiple=True, help="Columns to be scored; all other numeric ones if not given.")
@click.option("--seed-column", help="Column of seeds; equal axes are one configuration's seeds in any case.")
@click.option("--test-size", type=click.IntRange(min=1), help="Test examples behind the target, a fraction.")
@click.option("--test-error", help="Column of test errors, for the size of the test noise.")
@click.option("--problem", multiple=True, help="Those of the axes that change the data learned from.")
@click.option("--strata", multiple=True, help="Columns to look within: within-stratum tau, Simpson flag.")
@click.option("--given", multiple=True, help="Columns that partial tau holds fixed.")
@click.option("--better", multiple=True, help="Measures of which a larger value predicts a smaller target.")
@click.option(
    "--replicates", type=click.IntRange(min=1), default=1000, show_default=True, help="Bootstrap samples."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the bootstrap."
)
@click.option("--threads", type=click.IntRange(min=1), help="Threads; all processors if not given.")
@click.option("--delimiter", help="Sign between columns: ; or | or tab. By default as the file's name says.")
@click.option(
    "--decimal", type=click.Choice([".", ","]), default=".", show_default=True, help="Decimal sign."
)
@click.option("--thousands", help="Mark between groups of three digits, such as , or ' '.")
@click.option("--percent", is_flag=True, help="Read 12.5% as 0.125.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all scores as CSV, and the notes beside it as .notes.txt.",
)
@click.option(
    "--board",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the board of the table into this folder: the page, Markdown, tables.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all scores and notes as JSON.")
def score_command(
    table: Path,
    target: str,
    axes: tuple[str, ...],
    measures: tuple[str, ...],
    seed_column: str | None,
    test_size: int | None,
    test_error: str | None,
    problem: tuple[str, ...],
    strata: tuple[str, ...],
    given: tuple[str, ...],
    better: tuple[str, ...],
    replicates: int,
    seed: int,
    threads: int | None,
    delimiter: str | None,
    decimal: str,
    thousands: str | None,
    percent: bool,
    output: Path | None,
    board: Path | None,
    as_json: bool,
) -> None:
    """Rank statistics of your own TABLE: one row per network (CSV, TSV, JSON lines, each also .gz; Excel; Parquet).

    Lists of columns are separated by commas, or the option is repeated. Notes say what is special about the
    table: missing values, copied rows. Columns that are not scored are listed with the reason.
    """
    from gapbench_leaderboard.intake.reading import read_table
    from gapbench_leaderboard.scoring.table import score_table
    from gapbench_leaderboard.statistics.cells import NumberFormat

    frame = read_table(table, delimiter=delimiter, decimal=decimal, thousands=thousands, percent=percent)
    axis_names, strata_names, given_names, problem_names = (
        _columns(names, frame) for names in (axes, strata, given, problem)
    )
    used = {target, seed_column, test_error, *axis_names, *strata_names, *given_names}
    style = NumberFormat(decimal, thousands, percent)
    names, remarks = (_columns(measures, frame), []) if measures else _measures(frame, used, style)
    directions = dict.fromkeys(_columns(better, frame), "better")
    _check(names, list(directions), remarks, output)
    asked: dict[str, Any] = {"measures": names, "target": target, "axes": axis_names}
    asked |= {"problem": problem_names, "seed_column": seed_column, "higher_means": directions}
    scores = score_table(
        frame,
        **asked,
        test_size=test_size,
        test_error=test_error,
        strata=strata_names,
        given=given_names,
        replicates=replicates,
        seed=seed,
        workers=threads,
    )
    scores.attrs["notes"] = [*remarks, *scores.attrs["notes"]]
    if output is not None:
        _write(scores, output)
    if board is not None:
        _build(board, frame, scores, name=table.name, strata=strata_names, **asked)
    if as_json:
        click.echo(json.dumps(_document(scores), indent=2, allow_nan=False))
    else:
        _say(scores, target, names, board)


def _measures(
    frame: pd.DataFrame, used: Collection[object], style: NumberFormat
) -> tuple[list[str], list[str]]:
    """The columns that are scored where nobody names any, and why others are not."""
    from gapbench_leaderboard.intake.measures import default_measures

    names, remarks = default_measures(frame, used, style)
    outcomes = [name for name in names if name in OUTCOMES]
    if outcomes:
        why = f"outcomes and seeds are no measures of a network; {NAME_THEM}"
        remarks = [f"not scored: {', '.join(outcomes)} ({why})", *remarks]
    return [name for name in names if name not in outcomes], remarks


def _say(scores: pd.DataFrame, target: str, names: Sequence[str], board: Path | None) -> None:
    from gapbench_leaderboard.board.table_text import NOT_SCORED, table_text
    from gapbench_leaderboard.scores import decision_text

    click.echo(table_text(scores, target, names))
    click.echo("\n" + decision_text(scores.attrs["decision"]))
    for note in scores.attrs["notes"]:
        if not note.startswith(NOT_SCORED):  # those stand below the measures
            click.echo(f"note: {note}", err=True)
    if board is not None:
        click.echo(f"\nOpen {board / 'index.html'}")


def _build(board: Path, frame: pd.DataFrame, scores: pd.DataFrame, **options: Any) -> None:
    from gapbench_base.errors import TableError
    from gapbench_leaderboard.board.own_table import build_own

    try:
        build_own(board, frame, scores, **options)
    except OSError as error:
        raise TableError(f"--board: the folder {board} cannot be written: {error.strerror}") from error


def _check(names: Sequence[str], better: Sequence[str], remarks: Sequence[str], output: Path | None) -> None:
    from gapbench_base.errors import TableError

    unknown = [name for name in better if name not in names]
    if unknown:
        raise TableError(
            f"--better names {unknown[0]!r}, which is not among the measures: {', '.join(names)}"
        )
    if not names and remarks:
        raise TableError(f"at least one measure is needed; {'; '.join(remarks)}")
    if output is not None and not output.parent.is_dir():
        raise TableError(f"--output: there is no folder {output.parent}")


def _write(scores: pd.DataFrame, output: Path) -> None:
    """The scores as CSV, and what is to be said of the table beside them."""
    from gapbench_base.errors import TableError

    try:
        scores.to_csv(output, index=False)
        beside = output.with_name(f"{output.name}.notes.txt")
        beside.write_text("".join(f"{note}\n" for note in scores.attrs["notes"]), encoding="utf-8")
    except OSError as error:
        raise TableError(f"--output: {output} cannot be written: {error.strerror}") from error


def _columns(values: tuple[str, ...], frame: pd.DataFrame) -> list[str]:
    """Names separated by commas; a value that is a column's name as a whole stays whole."""
    found: list[str] = []
    for value in values:
        parts = [value] if value in frame.columns else [part.strip() for part in value.split(",")]
        found.extend(part for part in parts if part)
    return found


def _document(scores: pd.DataFrame) -> dict[str, object]:
    from gapbench_leaderboard.board.numbers import plain_members
    from gapbench_leaderboard.scoring.decision.words import decision_values

    rows = [
        {key: None if value != value else value for key, value in row.items()}
        for row in scores.drop(columns=["task", "family"]).to_dict("records")
    ]
    decision = plain_members(decision_values(scores.attrs["decision"]))
    return {"notes": scores.attrs["notes"], "scores": rows, "decision": decision}
