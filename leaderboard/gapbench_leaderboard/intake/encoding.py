"""Bytes of a text file as text, whatever program wrote it."""

from __future__ import annotations

import codecs

from gapbench_base.errors import TableError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks, longer ones before those that they begin with."""


def decoded(data: bytes, file: str) -> tuple[str, list[str]]:
    """The text of a file, with notes for whoever reads the scores.

    UTF-8 (with a byte order mark or not), UTF-16 and UTF-32; what is none of these is Windows-1252 (western
    Europe), which every byte means something in, so that the note says it.

    Returns:
        The text, and the notes.

    Raises:
        TableError: if the bytes are not of the encoding that they begin with, or are no text.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data[len(mark) :], encoding, file), _note(encoding)
    if b"\0" in data:
        even, odd = data[::2].count(0), data[1::2].count(0)
        if 4 * max(even, odd) < len(data) // 2 or min(even, odd) > max(even, odd) // 4:
            raise TableError(
                f"{file}: is no text (it holds bytes of value 0); save the table as CSV in UTF-8"
            )
        encoding = "utf-16-le" if odd > even else "utf-16-be"
        return _strict(data, encoding, file), _note(encoding)
    try:
        return data.decode("utf-8"), []
    except UnicodeDecodeError:
        return _western(data), [
            "the file is not UTF-8; it was read as Windows-1252 (Latin-1): check names with accents"
        ]


def _strict(data: bytes, encoding: str, file: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise TableError(
            f"{file}: begins as {encoding.upper()}, but is not ({error.reason} at byte {error.start}); "
            "save it as UTF-8"
        ) from error


def _note(encoding: str) -> list[str]:
    return [] if encoding == "utf-8" else [f"the file was read as {encoding.upper()}"]


def _western(data: bytes) -> str:
    """Windows-1252; its five bytes without a meaning as in Latin-1."""
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return "".join(bytes([b]).decode("cp1252", "ignore") or chr(b) for b in data)
