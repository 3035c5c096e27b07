"""Reading a researcher's own table of models and measures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from .statistics.configurations import TableError

SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
EXACT: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
"""Before 3.1 pandas was off by a last digit unless asked, which makes and breaks ties."""


def read_table(path: str | Path) -> pd.DataFrame:
    """A table from CSV, TSV, JSON lines (each also with `.gz`) or Parquet, chosen by the file's name.

    Raises:
        TableError: if there is no such file, its kind is unknown, it cannot be parsed, has no rows, or two
            columns share a name.
    """
    file = Path(path)
    if not file.is_file():
        raise TableError(f"there is no file {file}")
    suffixes = [suffix.lower() for suffix in file.suffixes]
    compressed = bool(suffixes) and suffixes[-1] == ".gz"
    kind = suffixes[-2] if compressed and len(suffixes) > 1 else suffixes[-1] if suffixes else ""
    if kind not in SUFFIXES or (compressed and kind == ".parquet"):
        raise TableError(
            f"{file.name}: cannot tell the kind of table; the name must end in "
            f"{', '.join(SUFFIXES)}, text also with .gz"
        )
    try:
        table = _parse(file, kind, "gzip" if compressed else None)
    except TableError:
        raise
    except ImportError as error:
        raise TableError(f"{file.name}: reading Parquet needs the package pyarrow ({error})") from error
    except (
        ValueError,
        OSError,
        EOFError,
        KeyError,
    ) as error:  # ParserError and UnicodeDecodeError are ValueErrors
        raise TableError(f"{file.name}: cannot be read as {kind[1:]}: {_one_line(error)}") from error
    except Exception as error:
        if type(error).__module__.startswith("pyarrow"):
            raise TableError(f"{file.name}: cannot be read as {kind[1:]}: {_one_line(error)}") from error
        raise
    if not len(table):
        raise TableError(f"{file.name}: the table has no rows")
    return table


def _parse(file: Path, kind: str, compression: Literal["gzip"] | None) -> pd.DataFrame:
    if kind == ".parquet":
        return pd.read_parquet(file)
    if kind in (".jsonl", ".ndjson"):
        return _json_lines(file, compression)
    separator = "\t" if kind == ".tsv" else ","
    header = pd.read_csv(
        file,
        sep=separator,
        compression=compression,
        header=None,
        nrows=1,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
    )
    names = header.iloc[0].str.strip()
    _refuse_duplicates(file, names)
    _refuse_other_separator(file, names, separator)
    table = pd.read_csv(
        file,
        sep=separator,
        compression=compression,
        skipinitialspace=True,
        **EXACT,
    )
    if not isinstance(table.index, pd.RangeIndex):  # pandas would take the first column for names of rows
        raise TableError(
            f"{file.name}: the rows have more values than the first line has names ({len(names)}); name every "
            "column, and write decimals with a point"
        )
    return table.rename(columns=lambda name: name.strip() if isinstance(name, str) else name)


def _json_lines(file: Path, compression: Literal["gzip"] | None) -> pd.DataFrame:
    """One object per line. Not by pandas, which guesses dates from names (`train_time`) and rounds numbers."""
    opened = gzip.open if compression else open
    rows = []
    with opened(file, "rt", encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, object_pairs_hook=_distinct)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is no object: every line must be one network, {{...}}")
            nested = next((name for name, value in row.items() if isinstance(value, (dict, list))), None)
            if nested is not None:
                raise ValueError(
                    f"line {number}: {nested!r} holds a list or an object; give it columns of its own"
                )
            rows.append(row)
    return pd.DataFrame(rows)


def _refuse_duplicates(file: Path, names: pd.Series[str]) -> None:
    """pandas would rename the second `x` to `x.1`, which would be scored under a name that nobody gave."""
    names = names[names != ""]
    twice = list(dict.fromkeys(names[names.duplicated()]))
    if twice:
        raise TableError(
            f"{file.name}: more than one column is named {', '.join(map(repr, twice))}; rename them"
        )


def _refuse_other_separator(file: Path, names: pd.Series[str], separator: str) -> None:
    if len(names) > 1:
        return
    spoken = {";": "semicolons", "\t": "tabs", ",": "commas"}
    for other, name in spoken.items():
        if other != separator and other in names.iloc[0]:
            raise TableError(
                f"{file.name}: the columns are separated by {name}, not {spoken[separator]}; save the table with "
                "commas as .csv, or with tabs as .tsv"
            )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object; pandas would keep the last of two of one name and say nothing."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"more than one member of a line is named {twice!r}; rename them")
    return found


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
