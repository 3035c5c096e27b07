"""Reading the document of a board back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from gapbench_leaderboard.board.content import Content
from gapbench_leaderboard.board.document import FORMAT
from gapbench_leaderboard.scores import TableError


def read_document(board: Path) -> Content:
    """The content of a board's `data.json`, as `document.document` made it.

    Returns:
        The document, whose parts that other modules read are there and of their kinds.

    Raises:
        TableError: if there is none, it is damaged or no board's, or another version of gapbench wrote it.
    """  # noqa: DOC501
    path = board / "data.json"
    if not path.is_file():
        raise TableError(f"{board} holds no board (no data.json); make it with: gapbench board RUN")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        suite, number = content["suite"], content["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _no_board(path) from error
    if number != FORMAT:
        raise TableError(
            f"{path} is of format {number}, written by another version of gapbench; this one writes {FORMAT}. "
            "Make it again with: gapbench board RUN"
        )
    if not isinstance(suite, dict) or not _whole(content):
        raise _no_board(path)
    return cast(Content, content)


def _whole(content: dict[str, Any]) -> bool:
    """Whether the parts that others read are there and of their kinds."""
    lists = [content.get(name) for name in ("notes", "axes", "targets", "proxies")]
    if not all(isinstance(part, list) for part in lists):
        return False
    if not all(isinstance(target, str) for target in content["targets"]):
        return False
    for entry in content["proxies"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("label"), str) or "baseline" not in entry:
            return False
    population = content.get("population")
    cells = population.get("cell") if isinstance(population, dict) else None
    coded = cells.get("codes") if isinstance(cells, dict) else cells
    return isinstance(coded, list)


def _no_board(path: Path) -> TableError:
    return TableError(f"{path} is not the data of a board; make it again with: gapbench board RUN")
