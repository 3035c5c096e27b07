"""The first sheet of an Excel workbook."""

from __future__ import annotations

from pathlib import Path

from gapbench_base.errors import TableError
from gapbench_leaderboard.intake.delimited import Grid, grid


def read_workbook(file: Path) -> Grid:
    """The cells of the first sheet that has any; formulas count as the values that were stored with them.

    Returns:
        Headings, rows and notes.

    Raises:
        TableError: if openpyxl is not installed, the file is no workbook, or its sheets are empty.
    """
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise TableError(
            f"{file.name}: reading Excel needs the package openpyxl: pip install openpyxl, or pip install "
            "'gapbench[tables]'"
        ) from error
    try:
        book = load_workbook(file, read_only=True, data_only=True)
        sheets = {
            sheet.title: [list(row) for row in sheet.iter_rows(values_only=True)] for sheet in book.worksheets
        }
        book.close()
    except Exception as error:  # openpyxl raises what zipfile, its XML parser and itself find wrong
        raise TableError(f"{file.name}: cannot be read as xlsx: {' '.join(str(error).split())}") from error
    filled = {
        title: rows for title, rows in sheets.items() if any(cell is not None for row in rows for cell in row)
    }
    if not filled:
        raise TableError(f"{file.name}: the workbook has no filled sheet")
    title, rows = next(iter(filled.items()))
    rows = [row for row in rows if any(cell is not None for cell in row)]
    found = grid(rows, file.name)
    others = [other for other in filled if other != title]
    if others:
        found.notes.append(f"only the sheet {title!r} was read, not {', '.join(map(repr, others))}")
    return found
