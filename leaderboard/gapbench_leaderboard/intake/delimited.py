"""Rows of a delimited text (CSV, TSV and their relatives): headings, lengths of rows, blank ones."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, field

from gapbench_base.errors import TableError

SPOKEN = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}
WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_LOOKED_AT = 20


@dataclass(frozen=True)
class Grid:
    """Headings and rows of one length."""

    names: list[str]
    rows: list[list[object]]
    notes: list[str] = field(default_factory=list)


def delimiter_of(text: str) -> str:
    """The sign that a user names: itself, or "tab", "semicolon", "comma", "pipe", "space".

    Returns:
        One character.

    Raises:
        TableError: if it is no single sign.
    """
    sign = WORDS.get(text.lower(), text)
    if len(sign) != 1 or sign.isalnum() or sign in '"\r\n':
        raise TableError(f"the delimiter must be one sign (; or | or tab), not {text!r}")
    return sign


def split(text: str, delimiter: str, file: str) -> Grid:
    """The cells of a text.

    Returns:
        Headings, rows and notes.

    Raises:
        TableError: for an empty text, another delimiter than that, two columns of a name, rows that are longer
            than the first, or a quotation mark that is never closed.
    """
    lines = _rows(text, delimiter)
    if lines and lines[-1] and "\n" in lines[-1][-1].rstrip("\n") and text.count('"') % 2:
        raise TableError(
            f"{file}: a quotation mark is opened and never closed, in the last data row at the latest"
        )
    if not lines:
        raise TableError(f"{file}: cannot be read as a table: it is empty")
    _refuse_other_delimiter(text, lines, delimiter, file)
    return grid([[*line] for line in lines], file)


def grid(lines: list[list[object]], file: str) -> Grid:
    """Headings from the first line, the others brought to its length; columns without heading get a name.

    Returns:
        Headings, rows and notes.

    Raises:
        TableError: for two columns of a name, or rows that are longer than the first.
    """
    notes: list[str] = []
    header = [_heading(cell) for cell in lines[0]]
    named = [name for name in header if name]
    twice = list(dict.fromkeys(name for name in named if named.count(name) > 1))
    if twice:
        raise TableError(f"{file}: more than one column is named {', '.join(map(repr, twice))}; rename them")
    filled = [line for line in lines[1:] if any(_filled(cell) for cell in line)]
    if len(filled) < len(lines) - 1:
        notes.append(f"{len(lines) - 1 - len(filled)} rows without any value are left out")
    longest = max((len(_cut(line)) for line in filled), default=0)
    if longest > len(header):
        raise TableError(
            f"{file}: the rows have more values than the first line has names ({longest} to {len(header)}); name "
            "every column, and write decimals with a point, or separate columns by another sign than decimals"
        )
    short = [row for row, line in enumerate(filled) if len(line) < len(header)]
    if short:
        notes.append(
            f"{len(short)} rows have fewer values than there are columns, first data row {short[0] + 1}: the rest "
            "counts as empty"
        )
    rows = [(line + [""] * len(header))[: len(header)] for line in filled]
    kept = [k for k, name in enumerate(header) if name or any(_filled(row[k]) for row in rows)]
    if len(kept) < len(header):
        notes.append(
            f"{len(header) - len(kept)} columns without a heading and without any value are left out"
        )
    names = [header[k] or _unnamed(k, named) for k in kept]
    return Grid(names, [[row[k] for k in kept] for row in rows], notes)


def _rows(text: str, delimiter: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=delimiter != " ")
    return [line for line in reader if line and line != [""]]


def _heading(cell: object) -> str:
    return "" if cell is None else str(cell).replace("\ufeff", "").strip()


def _unnamed(position: int, named: list[str]) -> str:
    """The name that pandas gives to a column without one."""
    name = f"Unnamed: {position}"
    while name in named:
        name += ".1"
    return name


def _filled(cell: object) -> bool:
    return cell is not None and (not isinstance(cell, str) or bool(cell.strip()))


def _cut(line: list[object]) -> list[object]:
    """A row without the empty cells at its end."""
    end = len(line)
    while end and not _filled(line[end - 1]):
        end -= 1
    return line[:end]


def _refuse_other_delimiter(text: str, lines: list[list[str]], delimiter: str, file: str) -> None:
    first = lines[0]
    for other, name in SPOKEN.items():
        if other == delimiter or not any(other in heading for heading in first):
            continue
        by_other = [len(line) for line in _rows(_beginning(text), other)]
        lengths = {len(line) for line in lines[: _LOOKED_AT + 1]}
        evident = len(set(by_other)) == 1 and by_other[0] > len(first) and len(lengths) > 1
        if len(first) == 1 or evident:
            option = "tab" if other == "\t" else other
            raise TableError(
                f"{file}: the columns are separated by {name}, not {SPOKEN.get(delimiter, repr(delimiter))}; say "
                f"--delimiter '{option}' (read_table: delimiter={option!r}; with decimal commas also --decimal ,), "
                "or save the table with commas as .csv"
            )


def _beginning(text: str) -> str:
    return "\n".join(text.splitlines()[: _LOOKED_AT + 1])
