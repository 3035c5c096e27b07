"""`gapbench score`: rank statistics of a researcher's own table of networks and measures."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas as pd

    from gapbench_leaderboard.statistics.cells import NumberFormat


MOST_COLUMNS = 40
"""Columns of a table that are named where it is not known which are its axes."""


@click.command("score")
@click.argument("table", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--target",
    default="gap",
    show_default=True,
    help="Column to be predicted, larger is worse; or a difference: 'test_error - train_error'.",
)
@click.option(
    "--axes", multiple=True, help="Columns of hyper-parameters, separated by commas. Always needed."
)
@click.option("--measures", multiple=True, help="Columns to be scored; all other numeric ones if not given.")
@click.option("--seed-column", help="Column of seeds; equal axes are one configuration's seeds in any case.")
@click.option("--test-size", type=click.IntRange(min=1), help="Test examples behind the target, a fraction.")
@click.option("--test-error", help="Column of test errors, for the size of the test noise.")
@click.option("--problem", multiple=True, help="Those of the axes that change the data learned from.")
@click.option("--strata", multiple=True, help="Columns to look within: within-stratum tau, Simpson flag.")
@click.option(
    "--given",
    multiple=True,
    help="Columns that partial tau holds fixed: equal where they recur, else nearly.",
)
@click.option(
    "--width", help="The axis that is the networks' width: a baseline, and a mark on what follows it."
)
@click.option(
    "--only", multiple=True, help="COLUMN=VALUE[,VALUE]: score these rows alone, such as status=converged."
)
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
def score_command(table: Path, **options: Any) -> None:
    """Rank statistics of your own TABLE: one row per network (CSV, TSV, JSON lines, each also .gz; Excel; Parquet).

    Lists of columns are separated by commas, or the option is repeated. Notes say what is special about the
    table: missing values, copied rows. Columns that are not scored are listed with the reason.
    """
    _score(table, _Options(**options))


@dataclass(frozen=True)
class _Options:
    """What was asked for, as click has it."""

    target: str
    axes: tuple[str, ...]
    measures: tuple[str, ...]
    seed_column: str | None
    test_size: int | None
    test_error: str | None
    problem: tuple[str, ...]
    strata: tuple[str, ...]
    given: tuple[str, ...]
    width: str | None
    only: tuple[str, ...]
    better: tuple[str, ...]
    replicates: int
    seed: int
    threads: int | None
    delimiter: str | None
    decimal: str
    thousands: str | None
    percent: bool
    output: Path | None
    board: Path | None
    as_json: bool


def _score(table: Path, options: _Options) -> None:
    from gapbench_leaderboard.intake.reading import read_table
    from gapbench_leaderboard.intake.targets import with_target
    from gapbench_leaderboard.scoring.table import score_table
    from gapbench_leaderboard.statistics.cells import NumberFormat

    style = NumberFormat(options.decimal, options.thousands, options.percent)
    frame = read_table(
        table,
        delimiter=options.delimiter,
        decimal=options.decimal,
        thousands=options.thousands,
        percent=options.percent,
    )
    _has_axes(options.axes, frame)
    target, test_error, unique = options.target, options.test_error, options.seed_column is None
    frame, made = with_target(frame, target, test_errors=options.test_size is not None and test_error is None)
    said = [f"the size of the test noise is that of the test error {made.errors}"] if made.errors else []
    test_error = test_error or made.errors
    axes, strata, given, problem = (
        _columns(names, frame) for names in (options.axes, options.strata, options.given, options.problem)
    )
    only = _only(options.only)
    strata = strata or ([options.width] if options.width is not None else axes if len(axes) == 1 else [])
    used = {target, *made.columns, options.seed_column, test_error, *axes, *strata, *given, *only}
    names, remarks = _columns(options.measures, frame), list[str]()
    if not options.measures:
        names, remarks = _measures(frame, target, used, style, only, unique)
    directions = dict.fromkeys(_columns(options.better, frame), "better")
    _check(names, list(directions), remarks, options.output)
    asked: dict[str, Any] = {
        "measures": names,
        "target": target,
        "axes": axes,
        "strata": strata,
        "only": only,
    }
    asked |= {"problem": problem, "seed_column": options.seed_column, "higher_means": directions}
    scores = score_table(
        frame,
        **asked,
        test_size=options.test_size,
        test_error=test_error,
        given=given,
        width=options.width,
        replicates=options.replicates,
        seed=options.seed,
        workers=options.threads,
    )
    scores.attrs["notes"] = [*remarks, *said, *scores.attrs["notes"]]
    if options.output is not None:
        _write(scores, options.output)
    if options.board is not None:
        _build(options.board, frame, scores, name=table.name, made_with=_made_with(), **asked)
    if options.as_json:
        click.echo(json.dumps(_document(scores), indent=2, allow_nan=False))
    else:
        _say(scores, target, names, options.board)


def _measures(
    frame: pd.DataFrame,
    target: str,
    used: Collection[object],
    style: NumberFormat,
    only: Mapping[str, Sequence[str]],
    unique: bool,
) -> tuple[list[str], list[str]]:
    """The columns that are scored where nobody names any, and why others are not, by the rows that are scored."""
    from gapbench_leaderboard.intake.copies import numbering
    from gapbench_leaderboard.intake.measures import default_measures
    from gapbench_leaderboard.intake.selecting import kept_rows, standing_of_rows
    from gapbench_leaderboard.statistics.quantities import quantity

    places = kept_rows(standing_of_rows(frame, only, unique))
    kept = frame.iloc[places]
    return default_measures(
        kept, used, style, quantity(kept[target], target, style).values, places, numbering(frame)
    )


def _has_axes(axes: Sequence[str], frame: pd.DataFrame) -> None:
    """Refuse a table of which nobody says what its hyper-parameters are, and show what it has."""
    from gapbench_base.errors import TableError

    if not axes:
        known = ", ".join(map(str, list(frame.columns)[:MOST_COLUMNS]))
        more = len(frame.columns) - MOST_COLUMNS
        raise TableError(
            "say with --axes which columns are hyper-parameters (--axes width,lr): rows that agree on all of them "
            f"are seeds of one configuration. The table has {known}{f' and {more} more' if more > 0 else ''}."
        )


def _only(values: Sequence[str]) -> dict[str, list[str]]:
    """`status=converged,ok` as column and values."""
    from gapbench_base.errors import TableError

    found: dict[str, list[str]] = {}
    for text in values:
        column, equals, wanted = text.partition("=")
        if not equals or not wanted.strip():
            raise TableError(f"--only {text!r} must be a column and its values: status=converged")
        found.setdefault(column.strip(), []).extend(part.strip() for part in wanted.split(","))
    return found


def _made_with() -> str:
    """The version, and the options as they were given, for a board that is looked at later."""
    import shlex

    from gapbench_base.version import __version__

    given = click.get_current_context().params
    said = []
    for parameter in score_command.params:
        value = given.get(parameter.name or "")
        if parameter.name in ("board", "output", "as_json", "threads"):
            continue  # they change no number
        if isinstance(parameter, click.Option) and value != parameter.get_default(
            click.get_current_context()
        ):
            words = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            said.append(
                parameter.opts[0] + ("" if value is True else f" {shlex.quote(words)}") if value else ""
            )
    return f"scored by gapbench {__version__}: {' '.join(filter(None, said))}"


def _say(scores: pd.DataFrame, target: str, names: Sequence[str], board: Path | None) -> None:
    from gapbench.commands.scoring import shown_columns
    from gapbench_leaderboard.board.table_text import NOT_SCORED, table_text
    from gapbench_leaderboard.scores import decision_text

    click.echo(table_text(scores, target, names))
    click.echo("\n" + decision_text(scores.attrs["decision"], shown_columns()))
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
