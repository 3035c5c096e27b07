"""Names in few columns, of which no two different ones become the same text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.cells import cell_len

ELLIPSIS = "…"
SHARES = (0.4, 0.5, 0.25, 0.6, 0.1, 0.8)
"""Of the columns left beside the ellipsis that the beginning has: the first share by which all names differ."""


def shortened(names: Iterable[str], width: int) -> dict[str, tuple[str, ...]]:
    """Each name in at most `width` columns of a terminal; the middle of a longer one is an ellipsis.

    A label begins with its kind and ends with its options, so both ends stay. Names that no such cut tells apart
    are given whole, on several lines; options begin one.

    Args:
        names: of one table.
        width: at least 2 columns, of which a wide character takes two.

    Returns:
        Name -> its lines, mostly one. Different names have different lines.
    """
    known = dict.fromkeys(names)
    for share in SHARES:
        found = {name: middle_cut(name, width, share) for name in known}
        if len(set(found.values())) == len(found):
            return {name: (text,) for name, text in found.items()}
    found = {name: middle_cut(name, width) for name in known}
    shared = Counter(found.values())
    return {
        name: (text,) if text == name or shared[text] == 1 else tuple(_lines(name, width))
        for name, text in found.items()
    }


def middle_cut(text: str, width: int, share: float = SHARES[0]) -> str:
    """A text in at most `width` columns, its middle left out where it is longer.

    Args:
        text: any.
        width: at least 1.
        share: of the columns beside the ellipsis that the beginning has.

    Returns:
        The text.
    """
    if cell_len(text) <= width:
        return text
    room = width - cell_len(ELLIPSIS)
    head = _begin(text, int(room * share))
    tail = _begin(text[::-1], room - cell_len(head))[::-1]
    return head + ELLIPSIS + tail


def _begin(text: str, width: int) -> str:
    """As many characters as `width` columns hold."""
    end = used = 0
    for character in text:
        used += cell_len(character)
        if used > width:
            break
        end += 1
    return text[:end]


def _lines(name: str, width: int) -> list[str]:
    """A name whole, broken before its options and wherever `width` columns end."""
    base, bracket, options = name.partition("[")
    lines = []
    for part in (base, bracket + options):
        while part:
            line = _begin(part, width) or part[0]
            lines.append(line)
            part = part[len(line) :]
    return lines
