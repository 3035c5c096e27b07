"""Tables as CSV in full precision."""

from __future__ import annotations

import csv
import io

import pandas as pd

from gapbench_leaderboard.board.numbers import exact, plain_cells


class _LineFeeds:
    """Ends lines with a line feed alone.

    The writer is told of both characters, since it quotes only those that it ends lines with, and
    readers take a carriage return in a name for the end of a line.
    """

    def __init__(self, stream: io.StringIO) -> None:
        self.stream = stream

    def write(self, line: str) -> int:
        return self.stream.write(line.removesuffix("\r\n") + "\n")


def csv_text(frame: pd.DataFrame) -> str:
    """RFC 4180 with line feeds: floats as `repr`, missing cells empty, text quoted where it must be."""
    stream = io.StringIO()
    writer = csv.writer(_LineFeeds(stream), lineterminator="\r\n")
    writer.writerow([exact(name) for name in frame.columns])
    columns = [
        ["" if cell is None else repr(cell) if type(cell) is float else cell for cell in plain_cells(column)]
        for column in (frame.iloc[:, position] for position in range(frame.shape[1]))
    ]
    writer.writerows(zip(*columns))
    return stream.getvalue()
