"""Reading a researcher's own table of models and measures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from .statistics.configurations import TableError

SUFFIXES = (".csv", ".tsv", ".parquet", ".jsonl", ".ndjson")


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
        raise TableError(f"{file.name}: cannot be read as {kind[1:]}: {error}") from error
    except Exception as error:
        if type(error).__module__.startswith("pyarrow"):
            raise TableError(f"{file.name}: cannot be read as {kind[1:]}: {error}") from error
        raise
    if not len(table):
        raise TableError(f"{file.name}: the table has no rows")
    return table


def _parse(file: Path, kind: str, compression: Literal["gzip"] | None) -> pd.DataFrame:
    if kind == ".parquet":
        return pd.read_parquet(file)
    if kind in (".jsonl", ".ndjson"):
        opened = gzip.open if compression else open
        with opened(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    json.loads(line, object_pairs_hook=_distinct)
        return pd.read_json(file, lines=True, compression=compression)
    separator = "\t" if kind == ".tsv" else ","
    _refuse_duplicates(
        file,
        pd.read_csv(
            file,
            sep=separator,
            compression=compression,
            header=None,
            nrows=1,
            dtype=str,
            keep_default_na=False,
        ),
    )
    return pd.read_csv(file, sep=separator, compression=compression)


def _refuse_duplicates(file: Path, header: pd.DataFrame) -> None:
    """pandas would rename the second `x` to `x.1`, which would be scored under a name that nobody gave."""
    names = header.iloc[0]
    names = names[names != ""]
    twice = list(dict.fromkeys(names[names.duplicated()]))
    if twice:
        raise TableError(
            f"{file.name}: more than one column is named {', '.join(map(repr, twice))}; rename them"
        )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object; pandas would keep the last of two of one name and say nothing."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"more than one member of a line is named {twice!r}; rename them")
    return found
