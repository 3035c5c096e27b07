"""How the two sides talk: frames of bytes to the sandboxed process, lines of plain JSON back.

What comes back was written by a stranger: lengths are limited, numbers checked, text cleaned; it is never
unpickled.
"""

from __future__ import annotations

import json
import math
import os
import unicodedata
from collections.abc import Mapping
from typing import Any

LONGEST_LINE = 64 * 1024
LONGEST_REASON = 500
LONGEST_DETAILS = 16 * 1024
MOST_VIOLATIONS = 20


class Garbled(Exception):
    """What came back does not follow the protocol; the message says how."""


def frame(header: Mapping[str, object], blob: bytes | memoryview = b"") -> tuple[bytes, bytes | memoryview]:
    """Two parts to be written one after the other: lengths with the JSON header, and a blob."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + len(blob).to_bytes(8, "little") + text, blob


def read_frame(descriptor: int) -> tuple[dict[str, Any], bytearray] | None:
    """The next frame, None at the end of the stream."""
    lengths = _read(descriptor, 16)
    if len(lengths) < 16:
        return None
    sizes = int.from_bytes(lengths[:8], "little"), int.from_bytes(lengths[8:], "little")
    text, blob = _read(descriptor, sizes[0]), _read(descriptor, sizes[1])
    if (len(text), len(blob)) != sizes:
        return None
    return json.loads(text.decode()), blob


def _read(descriptor: int, size: int) -> bytearray:
    content = bytearray(size)
    view, done = memoryview(content), 0
    while done < size:
        count = os.readv(descriptor, [view[done : done + 2**20]])
        if count == 0:
            break
        done += count
    view.release()
    del content[done:]
    return content


def parse_line(line: bytes) -> dict[str, object]:
    """A message of the sandboxed process. Raises `Garbled`."""
    try:
        message = json.loads(line.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"a line that is no JSON ({type(error).__name__})") from None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise Garbled("a message without a kind")
    return message


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def number(value: object, what: str, least: float = -math.inf) -> float:
    """A finite number. Raises `Garbled`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Garbled(f"a {what} that is no number")
    try:
        found = float(value)
    except OverflowError:
        raise Garbled(f"a {what} beyond the range of floating-point numbers") from None
    if not math.isfinite(found) or found < least:
        raise Garbled(f"a {what} of {found}")
    return found


def clean(text: object, longest: int = LONGEST_REASON) -> str:
    """One line of printable text of at most `longest` characters."""
    line = " ".join(str(text)[: 20 * longest].split())
    line = "".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co") else c for c in line)
    return line if len(line) <= longest else line[: longest - 3] + "..."
