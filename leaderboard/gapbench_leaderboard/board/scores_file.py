"""Reading the scores of a board back, exactly."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd

from gapbench_leaderboard.scores import COLUMNS, TableError

NUMBERS = ("value", "low", "high")
KEYS = ["task", "family", "target", "proxy", "estimator"]
"""Of which no two rows may share all."""


def read_scores(path: Path) -> pd.DataFrame:
    """The long form from a `scores.csv`, or from the folder of a board or of a run that has one.

    Names stay text whatever they look like ("NA", "007", ""); numbers are those that were written, to the
    last digit.

    Returns:
        The columns `scores.COLUMNS`; missing numbers are NaN.

    Raises:
        TableError: if there is no such file, it is not a board's scores, or it is damaged: cut off, or with
            two rows for one number.
    """
    path = Path(path)
    places = [path] if path.is_file() else [path / "scores.csv", path / "board" / "scores.csv"]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise TableError(f"{path}: there is no scores.csv (looked for {', '.join(map(str, places))})")
    table = _texts(file)
    try:
        for column in NUMBERS:
            table[column] = [float(text) if text else float("nan") for text in table[column]]
        table["models"] = [int(float(text)) if text else 0 for text in table["models"]]
    except (ValueError, OverflowError) as error:
        raise TableError(f"{file}: a number cannot be read: {error}") from error
    twice = table[table.duplicated(KEYS)]
    if len(twice):
        shown = ", ".join(f"{name} {twice.iloc[0][name]!r}" for name in KEYS)
        raise TableError(f"{file}: has more than one row of {shown}")
    return table[COLUMNS]


def _texts(file: Path) -> pd.DataFrame:
    """The cells as they stand in the file."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = csv.reader(stream, strict=True)
            header = next(rows, [])
            fitting = all(
                len(row) in (0, len(header)) for row in rows
            )  # pandas fills up those that are too short
        whole = _last_byte(file) in (b"\n", b"\r")  # else the last number may be the start of another
        missing = [column for column in COLUMNS if column not in header]
        if missing:
            raise TableError(f"{file}: not the scores of a board; it lacks the columns {', '.join(missing)}")
        if len(set(header)) < len(header) or not whole or not fitting:
            raise TableError(
                f"{file}: is cut off, or its rows have more or fewer values than the first line has distinct names"
            )
        return pd.read_csv(file, dtype=str, keep_default_na=False, na_filter=False)
    except TableError:
        raise
    except (csv.Error, ValueError) as error:
        raise TableError(f"{file}: cannot be read as CSV: {error}") from error


def _last_byte(file: Path) -> bytes:
    with file.open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - 1))
        return stream.read()


def suite_of(path: Path) -> str | None:
    """Name and version of the suite of a board, where its `data.json` says so."""
    suite = _suite(path)
    try:
        return None if suite is None else f"{suite['name']} version {suite['version']}"
    except (KeyError, TypeError):
        return None


def population_of(path: Path) -> str | None:
    """Fingerprint and size of the population of a board, where its `data.json` says so."""
    suite = _suite(path)
    try:
        known = None if suite is None else suite["population"]
        return None if known is None else f"{known['fingerprint']}, {known['words']}"
    except (KeyError, TypeError):
        return None


def _suite(path: Path) -> Any:
    path = Path(path)
    places = [path.parent] if path.is_file() else [path, path / "board"]
    file = next((place / "data.json" for place in places if (place / "data.json").is_file()), None)
    try:
        return json.loads(file.read_text(encoding="utf-8"))["suite"] if file is not None else None
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return None
