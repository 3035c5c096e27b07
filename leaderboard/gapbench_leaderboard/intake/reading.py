"""Reading a researcher's own table of models and measures."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gapbench_base.errors import TableError
from gapbench_leaderboard.intake.columns import column_of
from gapbench_leaderboard.intake.delimited import Grid, delimiter_of, split
from gapbench_leaderboard.intake.encoding import decoded
from gapbench_leaderboard.intake.excel import read_workbook
from gapbench_leaderboard.statistics.cells import NumberFormat
from gapbench_leaderboard.statistics.quantities import EXACT

DELIMITED = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson")
BINARY = (".parquet", ".xlsx")
SUFFIXES = (*DELIMITED, *BINARY, *JSON_LINES)
_ELSEWHERE = (".xls", ".ods", ".xlsm", ".xlsb", ".json", ".pkl", ".feather", ".sav", ".dta")
"""Kinds of tables that are not read."""


def read_table(
    path: str | Path,
    *,
    delimiter: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    percent: bool = False,
    texts: Collection[str] = (),
) -> pd.DataFrame:
    """A table from CSV, TSV, JSON lines (each also with `.gz`), Excel or Parquet, chosen by the file's name.

    Words such as "NA" and "None" stay words: whether they are a level of an axis or a missing measurement is
    for `score_table` to tell. Only empty cells are NaN.

    Args:
        path: the file.
        delimiter: the sign between columns of a text: ";", "|", "tab"; by default as the name says.
        decimal: the decimal sign of numbers in texts, "." or ",".
        thousands: the mark between groups of three digits of numbers in texts.
        percent: whether 12.5% is read as 0.125.
        texts: columns whose cells are texts even where they look like numbers.

    Returns:
        One row per line, with `attrs["notes"]` on what was found in the file (its encoding, rows and columns
        without any value, short rows) and `attrs["numbers"]`, how its texts write numbers.

    Raises:
        TableError: if there is no such file, its kind is unknown, it cannot be parsed, has no rows, two
            columns share a name, its columns are separated by another sign, or a package is missing.
    """
    file = Path(path)
    if not file.is_file():
        raise TableError(f"there is no file {file}")
    sign = delimiter_of(delimiter) if delimiter is not None else None
    kind, compressed = _kind(file, sign)
    style = NumberFormat(decimal, thousands, percent)
    try:
        table, notes = _parse(file, kind, compressed, sign, style, texts)
    except TableError:
        raise
    except (ValueError, OSError, EOFError, KeyError, zlib.error, csv.Error) as error:
        raise TableError(f"{file.name}: cannot be read as {kind[1:]}: {_one_line(error)}") from error
    if not len(table):
        raise TableError(f"{file.name}: the table has no rows")
    table.attrs["notes"], table.attrs["numbers"] = notes, style
    return table


def _kind(file: Path, sign: str | None) -> tuple[str, bool]:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    compressed = bool(suffixes) and suffixes[-1] == ".gz"
    kind = suffixes[-2] if compressed and len(suffixes) > 1 else suffixes[-1] if suffixes else ""
    if kind in SUFFIXES and not (compressed and kind in BINARY):
        return kind, compressed
    if sign is not None and kind not in _ELSEWHERE and not (compressed and kind in BINARY):
        return ".csv", compressed
    raise TableError(
        f"{file.name}: cannot tell the kind of table; the name must end in {', '.join(SUFFIXES)}, text also with "
        ".gz; or say by --delimiter what separates the columns of a text"
    )


def _parse(
    file: Path,
    kind: str,
    compressed: bool,
    sign: str | None,
    style: NumberFormat,
    texts: Collection[str],
) -> tuple[pd.DataFrame, list[str]]:
    if kind == ".parquet":
        return _parquet(file, style)
    if kind == ".xlsx":
        return _table(read_workbook(file), style, texts)
    data = file.read_bytes()
    text, notes = decoded(gzip.decompress(data) if compressed else data, file.name)
    if kind in JSON_LINES:
        columns = _json_lines(text)
        found = _columns(columns, style, texts, parse=style != NumberFormat())
    else:
        if not text.strip():
            raise TableError(f"{file.name}: cannot be read as {kind[1:]}: it is empty")
        found = _table(split(text, sign or DELIMITED[kind], file.name), style, texts)
    return found[0], [*notes, *found[1]]


def _table(grid: Grid, style: NumberFormat, texts: Collection[str]) -> tuple[pd.DataFrame, list[str]]:
    columns = {name: [row[k] for row in grid.rows] for k, name in enumerate(grid.names)}
    table, notes = _columns(columns, style, texts)
    return table, [*grid.notes, *notes]


def _columns(
    cells: dict[str, list[object]], style: NumberFormat, texts: Collection[str], parse: bool = True
) -> tuple[pd.DataFrame, list[str]]:
    notes: list[str] = []
    columns: dict[str, pd.Series[Any]] = {}
    for name, own in cells.items():
        columns[name], found = column_of(name, own, style, name in texts, parse)
        notes += found
    return pd.DataFrame(columns), notes


def _parquet(file: Path, style: NumberFormat) -> tuple[pd.DataFrame, list[str]]:
    try:
        table = pd.read_parquet(file)
    except ImportError as error:
        raise TableError(
            f"{file.name}: reading Parquet needs the package pyarrow: pip install pyarrow, or pip install "
            f"'gapbench[tables]' ({_one_line(error)})"
        ) from error
    except Exception as error:
        if not isinstance(error, ValueError | OSError) and not type(error).__module__.startswith("pyarrow"):
            raise
        raise TableError(f"{file.name}: cannot be read as parquet: {_one_line(error)}") from error
    rounded = [
        name
        for name in table.columns
        if table[name].dtype == np.float64 and (np.abs(table[name].to_numpy()) > EXACT).any()
    ]
    if rounded:  # whole numbers beside empty cells, which pandas rounds
        exact = pd.read_parquet(file, columns=rounded, dtype_backend="numpy_nullable")
        for name in rounded:
            if pd.api.types.is_integer_dtype(exact[name]):
                table[name] = exact[name].array
    named = [name for name in table.index.names if name is not None]
    if named:
        table = table.reset_index(level=named, allow_duplicates=True)
    table = table.reset_index(drop=True)
    if style == NumberFormat():
        return table, []
    texts = [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]
    read, notes = _columns({name: table[name].tolist() for name in texts}, style, ())
    return table.assign(**{name: read[name] for name in texts}), notes


def _json_lines(text: str) -> dict[str, list[object]]:
    """One object per line. Not by pandas, which guesses dates from names (`train_time`) and rounds numbers."""
    rows: list[dict[str, object]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_distinct)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is no object: every line must be one network, {{...}}")
        nested = next((name for name, value in row.items() if isinstance(value, (dict, list))), None)
        if nested is not None:
            raise ValueError(
                f"line {number}: {nested!r} holds a list or an object; give it columns of its own"
            )
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The members of an object; pandas would keep the last of two of one name and say nothing."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"more than one member of a line is named {twice!r}; rename them")
    return found


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
