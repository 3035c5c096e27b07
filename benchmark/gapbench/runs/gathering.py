"""The rows of several run databases in one: what is new is taken over, what differs is found."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gapbench.runs.store import KEY_COLUMN, Store, Table, disk_errors

TABLES: tuple[Table, ...] = ("cells", "measurements")
TOLD: dict[Table, tuple[str, ...]] = {
    "cells": (
        "status",
        "description",
        "weights_sha256",
        "train_error",
        "test_error",
        "gap",
        "loss_gap",
        "train_correct",
        "test_correct",
    ),
    "measurements": ("status", "description", "label", "value", "standard_error"),
}
"""What two results of one key have in common; times, memory, devices and companies are those of the making."""


@dataclass(frozen=True)
class Difference:
    """A result that two databases have differently: key, cell, label (of a measurement), and in which columns."""

    table: Table
    key: str
    cell: str
    label: str
    columns: dict[str, tuple[Any, Any]]


@dataclass
class Taken:
    """What `Gathering.take` did: rows taken over, results that were there already, and the `differences`."""

    rows: dict[Table, int] = field(default_factory=dict)
    shared: dict[Table, int] = field(default_factory=dict)
    left_out: int = 0
    differences: list[Difference] = field(default_factory=list)


class Gathering(Store):
    """A database that takes rows over from others, and gives them on."""

    @contextlib.contextmanager
    def _attached(self, other: Path) -> Iterator[None]:
        """The database of another run as `other`, and one transaction on both."""
        with disk_errors(other / "run.sqlite"):
            self._db.execute("ATTACH ? AS other", (f"{(other / 'run.sqlite').absolute().as_uri()}?mode=ro",))
            try:
                self._db.execute("BEGIN")
                yield
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                self._db.execute("DETACH other")

    def take(self, other: Path, without: Collection[tuple[str, str]] = ()) -> Taken:
        """Take over the rows of a run that are not here.

        A failure gives way to a result; of two results the first stays. With differences nothing is taken over.

        Args:
            other: the folder of the run, which is only read.
            without: submissions, by identity and seed, whose measurements are left out.

        Returns:
            What was done.
        """
        found = Taken()
        with self._attached(other):
            for table in TABLES:
                found.differences += self._differences(table)
            if found.differences:
                return found
            self._leave_out(without)
            found.left_out = self._db.execute("SELECT COUNT(*) FROM left_out").fetchone()[0]
            for table in TABLES:
                found.shared[table] = self._shared(table)
                found.rows[table] = self._take(table)
            self._db.execute(
                "INSERT INTO main.attempts SELECT * FROM other.attempts EXCEPT SELECT * FROM main.attempts"
            )
        return found

    def _both(self, table: Table) -> str:
        key = KEY_COLUMN[table]
        return (
            f"FROM other.{table} AS b JOIN main.{table} AS a ON a.{key} = b.{key} "
            "WHERE a.status <> 'failed' AND b.status <> 'failed'"
        )

    def _differences(self, table: Table) -> list[Difference]:
        key = KEY_COLUMN[table]
        differs = " OR ".join(f"a.{name} IS NOT b.{name}" for name in TOLD[table])
        label = "a.label" if table == "measurements" else "''"
        names = ", ".join(f"a.{name}, b.{name}" for name in TOLD[table])
        rows = self._db.execute(
            f"SELECT a.{key}, a.cell, {label}, {names} {self._both(table)} AND ({differs}) "
            f"ORDER BY a.finished, a.{key}"
        ).fetchall()
        found = []
        for row in rows:
            pairs = {name: (row[3 + 2 * i], row[4 + 2 * i]) for i, name in enumerate(TOLD[table])}
            columns = {name: (one, two) for name, (one, two) in pairs.items() if one != two}
            found.append(Difference(table, row[0], row[1], row[2], columns))
        return found

    def _leave_out(self, without: Collection[tuple[str, str]]) -> None:
        """Keys of the other's measurements that were made for these submissions, as the table `left_out`."""
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS left_out (key TEXT PRIMARY KEY)")
        self._db.execute("DELETE FROM left_out")
        for identity, seed in without:
            self._db.execute(
                "INSERT OR IGNORE INTO left_out SELECT measurement FROM other.measurements "
                "WHERE json_extract(description, '$.submission') = ? AND json_extract(description, '$.seed') = ?",
                (identity, seed),
            )

    def _shared(self, table: Table) -> int:
        return int(self._db.execute(f"SELECT COUNT(*) {self._both(table)}").fetchone()[0])

    def _take(self, table: Table) -> int:
        key = KEY_COLUMN[table]
        names = self._columns(table)
        listed = ", ".join(names)
        own = ", ".join(f"(SELECT MAX(attempt) + 1 FROM main.{table} AS m WHERE m.{key} = b.{key})"
                        if name == "attempt" else f"b.{name}" for name in names)  # fmt: skip
        without = f"b.{key} NOT IN (SELECT key FROM left_out)"
        improved = self._db.execute(
            f"INSERT INTO main.{table} ({listed}) SELECT {own} FROM other.{table} AS b "
            f"WHERE b.status <> 'failed' AND {without} "
            f"AND EXISTS (SELECT 1 FROM main.{table} AS a WHERE a.{key} = b.{key}) AND NOT EXISTS "
            f"(SELECT 1 FROM main.{table} AS a WHERE a.{key} = b.{key} AND a.status <> 'failed')"
        ).rowcount
        new = self._db.execute(
            f"INSERT INTO main.{table} ({listed}) SELECT {listed} FROM other.{table} AS b WHERE {without} "
            f"AND NOT EXISTS (SELECT 1 FROM main.{table} AS a WHERE a.{key} = b.{key}) "
            f"ORDER BY b.finished, b.{key}"
        ).rowcount
        return int(improved + new)

    def _columns(self, table: Table) -> list[str]:
        """The columns that both databases have, which earlier versions have fewer of."""
        here, there = (
            [row[1] for row in self._db.execute(f"PRAGMA {place}.table_info({table})")]
            for place in ("main", "other")
        )
        return [name for name in here if name in there]

    def metas(self) -> dict[str, Any]:
        """All stored JSON values by name."""
        with disk_errors(self.path):
            rows = self._db.execute("SELECT name, value FROM meta ORDER BY name").fetchall()
        return {row[0]: self._json(row[1], row[0]) for row in rows}

    def missing(self, other: Path) -> int:
        """How many rows of another run are not here."""
        with self._attached(other):
            count = 0
            for table in (*TABLES, "attempts"):
                keys = "*" if table == "attempts" else f"{KEY_COLUMN[table]}, attempt"  # type: ignore[index]
                query = f"SELECT {keys} FROM other.{table} EXCEPT SELECT {keys} FROM main.{table}"
                count += int(self._db.execute(f"SELECT COUNT(*) FROM ({query})").fetchone()[0])
        return count

    def receive(self, other: Path, metas: dict[str, Any]) -> None:
        """Take over every row of another run that is not here, in the order they were made, and values by name.

        Args:
            other: the folder of the run, which has all rows of this one.
            metas: that stand in place of those here; None removes one.
        """
        import json

        with self._attached(other):
            for table in TABLES:
                key, listed = KEY_COLUMN[table], ", ".join(self._columns(table))
                self._db.execute(
                    f"INSERT INTO main.{table} ({listed}) SELECT {listed} FROM other.{table} AS b WHERE NOT "
                    f"EXISTS (SELECT 1 FROM main.{table} AS a WHERE a.{key} = b.{key} AND a.attempt = b.attempt) "
                    f"ORDER BY b.finished, b.{key}"
                )
            self._db.execute(
                "INSERT INTO main.attempts SELECT * FROM other.attempts EXCEPT SELECT * FROM main.attempts "
                "ORDER BY 2, 1"
            )
            for name, value in metas.items():
                if value is None:
                    self._db.execute("DELETE FROM main.meta WHERE name = ?", (name,))
                else:
                    self._db.execute(
                        "INSERT OR REPLACE INTO main.meta VALUES (?, ?)", (name, json.dumps(value))
                    )
