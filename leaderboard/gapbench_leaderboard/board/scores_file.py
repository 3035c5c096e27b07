"""Reading the scores of a board back, exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from gapbench_leaderboard.scores import COLUMNS, TableError

NUMBERS = ("value", "low", "high")


def read_scores(path: Path) -> pd.DataFrame:
    """The long form from a `scores.csv`, or from the folder of a board or of a run that has one.

    Names stay text whatever they look like ("NA", "007", ""); numbers are those that were written, to the
    last digit.

    Raises:
        TableError: if there is no such file, or it is not a board's scores.
    """
    path = Path(path)
    places = [path] if path.is_file() else [path / "scores.csv", path / "board" / "scores.csv"]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise TableError(f"{path}: there is no scores.csv (looked for {', '.join(map(str, places))})")
    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False, na_filter=False)
    except (ValueError, OSError) as error:
        raise TableError(f"{file}: cannot be read as CSV: {error}") from error
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        raise TableError(f"{file}: not the scores of a board; it lacks the columns {', '.join(missing)}")
    try:
        for column in NUMBERS:
            table[column] = [float(text) if text else float("nan") for text in table[column]]
        table["models"] = [int(float(text)) if text else 0 for text in table["models"]]
    except ValueError as error:
        raise TableError(f"{file}: a number cannot be read: {error}") from error
    return table[COLUMNS]


def suite_of(path: Path) -> str | None:
    """Name and version of the suite of a board, where its `data.json` says so."""
    path = Path(path)
    places = [path.parent] if path.is_file() else [path, path / "board"]
    file = next((place / "data.json" for place in places if (place / "data.json").is_file()), None)
    try:
        suite = json.loads(file.read_text(encoding="utf-8"))["suite"] if file is not None else None
        return None if suite is None else f"{suite['name']} version {suite['version']}"
    except (ValueError, KeyError, TypeError, OSError):
        return None
