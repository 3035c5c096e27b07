"""The run database: one SQLite file, written by the driver alone, in transactions.

`cells` and `measurements` are insert-only, one row per finished result; a retried failure is a new row with
the next `attempt`, and the latest attempt counts. `attempts` logs what was begun, so that a network that
kills its worker is seen.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar

import msgspec

from gapbench.runs.records import StoredMeasurement, TrainedCell
from gapbench_base.errors import DiskFull, GapbenchError

FORMAT = 1

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS cells (
    cell TEXT NOT NULL, attempt INTEGER NOT NULL, description TEXT NOT NULL,
    task TEXT NOT NULL, family TEXT NOT NULL, width REAL NOT NULL, seed INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('converged', 'not_converged', 'diverged', 'failed')),
    reason TEXT NOT NULL, train_error REAL, test_error REAL, gap REAL, loss_gap REAL,
    train_loss REAL, test_loss REAL, parameters INTEGER, train_size INTEGER, test_size INTEGER,
    epochs INTEGER, steps INTEGER, seconds REAL, history TEXT, source TEXT, shift INTEGER,
    train_correct BLOB, test_correct BLOB, weights_sha256 TEXT, weights_bytes INTEGER, device TEXT,
    finished REAL NOT NULL, engine TEXT, company TEXT, test_groups TEXT,
    PRIMARY KEY (cell, attempt)) STRICT;
CREATE TABLE IF NOT EXISTS measurements (
    measurement TEXT NOT NULL, attempt INTEGER NOT NULL, cell TEXT NOT NULL, proxy TEXT NOT NULL,
    label TEXT NOT NULL, description TEXT NOT NULL, value REAL, standard_error REAL, seconds REAL,
    peak_memory REAL, status TEXT NOT NULL CHECK (status IN ('ok', 'not_applicable', 'failed')),
    reason TEXT NOT NULL, details TEXT NOT NULL, device TEXT, finished REAL NOT NULL,
    PRIMARY KEY (measurement, attempt)) STRICT;
CREATE TABLE IF NOT EXISTS attempts (
    key TEXT NOT NULL, begun REAL NOT NULL, worker INTEGER NOT NULL) STRICT;
CREATE TRIGGER IF NOT EXISTS cells_keep BEFORE UPDATE ON cells
    BEGIN SELECT RAISE(ABORT, 'cells is insert-only'); END;
CREATE TRIGGER IF NOT EXISTS measurements_keep BEFORE UPDATE ON measurements
    BEGIN SELECT RAISE(ABORT, 'measurements is insert-only'); END;
CREATE TRIGGER IF NOT EXISTS cells_stay BEFORE DELETE ON cells
    BEGIN SELECT RAISE(ABORT, 'cells is insert-only'); END;
CREATE TRIGGER IF NOT EXISTS measurements_stay BEFORE DELETE ON measurements
    BEGIN SELECT RAISE(ABORT, 'measurements is insert-only'); END;
"""

Table = Literal["cells", "measurements"]
ROWS = 20_000
"""Measurements that are read at a time."""
RECURRING = ("cell", "reason")
"""Texts of measurements of which a large run has few different ones."""
LATER_COLUMNS = ("engine", "company", "test_groups")
"""Of the cells; runs of before are given them when they are written to."""
KEY_COLUMN: dict[Table, str] = {"cells": "cell", "measurements": "measurement"}
Record = TypeVar("Record", TrainedCell, StoredMeasurement)


class Measured(NamedTuple):
    """What tables show of a measurement; see `StoredMeasurement`."""

    measurement: str
    cell: str
    label: str
    description: str
    value: float | None
    standard_error: float | None
    seconds: float | None
    peak_memory: float | None
    status: str
    reason: str
    details: str


class Sort(NamedTuple):
    """What many measurements have in common: a large run has few, of which one text is read for each row.

    `description` is without the key of the network.
    """

    label: str
    status: str
    description: str


SORT = (
    "status || char(10) || length(label) || char(10) || label || "
    "CASE cell WHEN '' THEN description ELSE replace(description, cell, '') END"
)
"""A `Sort` as one text."""


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn "disk full" from SQLite or the file system into one clear message."""
    try:
        yield
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        space = shutil.disk_usage(path.parent).free if path.parent.exists() else 1
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and space < 65536):
            raise DiskFull(_full(path, error)) from error
        raise GapbenchError(f"The run database {path} cannot be used: {error}") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise GapbenchError(
            f"The run database {path} is damaged or no database: {error}. Nothing was changed."
        ) from error
    except OSError as error:
        if error.errno in (28, 122):  # ENOSPC, EDQUOT
            raise DiskFull(_full(path, error)) from error
        raise


def _no_run(folder: Path) -> str:
    if not folder.exists():
        return f"{folder} is no run: there is no such folder."
    if (folder.absolute().parent / "run.sqlite").is_file():
        return f"{folder} is no run but lies within one: give {folder.parent}."
    return f"{folder} is no run: it has no run.sqlite."


def _full(path: Path, error: Exception) -> str:
    return (
        f"No space left for {path} ({error}). Every finished result is kept; free some space and give the "
        "same command again to go on."
    )


class Store:
    """An open run database. Use as a context manager; every write is one transaction."""

    def __init__(self, folder: Path, *, readonly: bool = False):
        self.path = folder / "run.sqlite"
        if readonly and not (self.path.is_file() and self.path.stat().st_size):
            raise GapbenchError(_no_run(folder))
        with disk_errors(self.path):
            if readonly:
                self._db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)
            else:
                # as an address, so that others can be attached
                address = f"{self.path.absolute().as_uri()}?mode=rwc"
                self._db = sqlite3.connect(address, uri=True, isolation_level=None)
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.executescript(SCHEMA)
                present = {row[1] for row in self._db.execute("PRAGMA table_info(cells)")}
                for column in (name for name in LATER_COLUMNS if name not in present):
                    self._db.execute(f"ALTER TABLE cells ADD COLUMN {column} TEXT")
            self._db.row_factory = sqlite3.Row
        written = self.meta("format")
        if written is None and not readonly:
            self.set_meta("format", FORMAT)
        elif written != FORMAT:
            self.close()
            raise GapbenchError(
                f"{self.path} has format {written}, this version of gapbench reads format {FORMAT}."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def meta(self, name: str) -> Any:
        """A stored JSON value, None where there is none."""
        with disk_errors(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else self._json(row[0], name)

    def environments(self) -> list[dict[str, object]]:
        """What the run was made with, one record per start of `gapbench run`, oldest first."""
        with disk_errors(self.path):
            rows = self._db.execute(
                "SELECT value FROM meta WHERE name LIKE 'environment %' ORDER BY name"
            ).fetchall()
        return [self._json(row[0], "environment") for row in rows]

    def _json(self, text: Any, name: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, TypeError) as error:
            raise GapbenchError(f"The run database {self.path} is damaged: its {name} is no JSON.") from error

    def set_meta(self, name: str, value: object) -> None:
        """Keep a JSON value under a name, in place of the one before."""
        with disk_errors(self.path):
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(value)))

    def begun(self, key: str, worker: int) -> None:
        """Log that work on a cell or measurement began."""
        with disk_errors(self.path):
            self._db.execute("INSERT INTO attempts VALUES (?, ?, ?)", (key, time.time(), worker))

    def begun_at(self) -> dict[str, float]:
        """Key -> when work on it was last begun, in seconds of the epoch."""
        with disk_errors(self.path):
            rows = self._db.execute("SELECT key, MAX(begun) FROM attempts GROUP BY key").fetchall()
        return {str(key): float(begun) for key, begun in rows}

    def add_cell(self, record: TrainedCell) -> None:
        """Insert one finished cell; a record with the same key must be a failure that is being retried."""
        self._insert("cells", record.cell, asdict(record))

    def add_measurements(self, records: Sequence[StoredMeasurement]) -> None:
        """Insert finished measurements in one transaction."""
        with disk_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for record in records:
                    self._insert("measurements", record.measurement, asdict(record))
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _insert(self, table: Table, key: str, record: dict[str, object]) -> None:
        with disk_errors(self.path):
            row = self._db.execute(
                f"SELECT attempt, status FROM {table} WHERE {KEY_COLUMN[table]} = ? ORDER BY attempt DESC LIMIT 1",
                (key,),
            ).fetchone()
            if row is not None and row["status"] != "failed":
                raise GapbenchError(
                    f"{table}: {key} is already finished ({row['status']}); no result is overwritten."
                )
            record |= {"attempt": 0 if row is None else row["attempt"] + 1, "finished": time.time()}
            names, marks = ", ".join(record), ", ".join("?" for _ in record)
            self._db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(record.values()))

    def cells(self) -> list[TrainedCell]:
        """The latest attempt of every cell, in the order of first insertion."""
        return self._records("cells", TrainedCell)

    def measurements(self) -> list[StoredMeasurement]:
        """The latest attempt of every measurement, in the order of first insertion."""
        return self._records("measurements", StoredMeasurement)

    def measured(self) -> Iterator[Measured]:
        """What tables show of every measurement.

        Returns:
            Of the latest attempt of each, in the order of insertion.

        Raises:
            GapbenchError: for a damaged row.
        """
        return itertools.starmap(Measured, self._measured())

    def measured_columns(self) -> Iterator[dict[str, Sequence[Any]]]:
        """What tables show of all measurements, column by column; of texts that recur one object.

        Yields:
            Parts of many rows, in the order of insertion, each with a column for every field of `Measured` but the
            label, the status and the description; these are in `sort`, see `Sort`.
        """
        self._check_types()
        columns = [name for name in Measured._fields[1:] if name not in Sort._fields]
        rows = self._of_latest("measurements", f"{SORT}, {', '.join(columns)}")
        names, same, sorts = ("measurement", "sort", *columns), dict[Any, Any](), dict[str, Sort]()
        while part := list(itertools.islice(rows, ROWS)):
            found: dict[str, Sequence[Any]] = dict(zip(names, zip(*part)))
            for text in set(found["sort"]).difference(sorts):
                status, length, rest = text.split("\n", 2)
                sorts[text] = Sort(rest[: int(length)], status, rest[int(length) :])
            found["sort"] = list(map(sorts.__getitem__, found["sort"]))
            for name in RECURRING:
                found[name] = list(map(same.setdefault, found[name], found[name]))
            yield found

    def _measured(self) -> Iterator[Any]:
        self._check_types()
        return self._of_latest("measurements", ", ".join(Measured._fields[1:]))

    def _check_types(self) -> None:
        """Where types are not the database's matter every measurement is looked at."""
        with disk_errors(self.path):
            strict = self._db.execute(
                "SELECT strict FROM pragma_table_list WHERE name = 'measurements'"
            ).fetchone()
        if not (strict and strict[0]):
            self.measurements()

    def _records(self, table: Table, kind: type[Record]) -> list[Record]:
        known = [field.name for field in fields(kind)]
        found = []
        rows = self._latest(table)
        names = [name for name in known if name in rows[0].keys()] if rows else []  # noqa: SIM118 (a Row is no mapping)
        for row in rows:
            content = {name: row[name] for name in names}
            try:
                found.append(msgspec.convert(content, kind))
            except msgspec.ValidationError as error:
                raise GapbenchError(
                    f"The run database {self.path} is damaged: {table}, {row[KEY_COLUMN[table]]}: {error}."
                ) from None
        return found

    def _latest(self, table: Table) -> list[sqlite3.Row]:
        key = KEY_COLUMN[table]
        with disk_errors(self.path):
            return self._db.execute(
                f"SELECT * FROM {table} AS a WHERE attempt = (SELECT MAX(attempt) FROM {table} AS b "
                f"WHERE b.{key} = a.{key}) ORDER BY rowid"
            ).fetchall()

    def statuses(self, table: Table) -> dict[str, str]:
        """Key -> status of the latest attempt, for `cells` or `measurements`."""
        return dict(self._of_latest(table, "status"))

    def keys(self, table: Table, failed: bool = True) -> set[str]:
        """Keys of a table, without `failed` those alone whose latest attempt has not failed."""
        if not failed:
            return {key for key, status in self._of_latest(table, "status") if status != "failed"}
        with disk_errors(self.path):
            cursor = self._db.cursor()
            cursor.row_factory = None
            return set(
                itertools.chain.from_iterable(cursor.execute(f"SELECT {KEY_COLUMN[table]} FROM {table}"))
            )

    def descriptions(self) -> Iterator[str]:
        """Of every cell what it depends on, as JSON, in the order of first insertion."""
        for _, description in self._of_latest("cells", "description"):
            yield description

    def measuring_costs(self, keys: Collection[str]) -> Iterator[tuple[str, float, int]]:
        """Cells with seconds and number of measurements, of the latest attempts of `keys`, which all are stored."""
        with disk_errors(self.path):
            count, again = self._db.execute("SELECT COUNT(*), MAX(attempt) FROM measurements").fetchone()
            if count == len(keys) and not again:  # all of them: added up by the database
                sums = "SUM(COALESCE(seconds, 0.0)), COUNT(*)"
                yield from map(
                    tuple, self._db.execute(f"SELECT cell, {sums} FROM measurements GROUP BY cell")
                )
                return
        for key, cell, seconds in self._of_latest("measurements", "cell, COALESCE(seconds, 0.0)"):
            if key in keys:
                yield cell, seconds, 1

    def _of_latest(self, table: Table, columns: str) -> Iterator[Any]:
        """Key and some columns of the latest attempt of each; of a large run faster than whole rows."""
        key = KEY_COLUMN[table]
        with disk_errors(self.path):
            again = self._db.execute(
                f"SELECT {key}, MAX(attempt) FROM {table} WHERE attempt > 0 GROUP BY {key}"
            )
            latest = dict(map(tuple, again.fetchall()))
            cursor = self._db.cursor()
            cursor.row_factory = None
            if not latest:  # nothing was retried
                yield from cursor.execute(f"SELECT {key}, {columns} FROM {table} ORDER BY rowid")
                return
            rows = cursor.execute(f"SELECT attempt, {key}, {columns} FROM {table} ORDER BY rowid")
            for row in rows:
                if latest.get(row[1], 0) == row[0]:
                    yield row[1:]
