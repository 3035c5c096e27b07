"""Content of files from anybody, as typed records or one clear sentence on what is wrong."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from gapbench_base.errors import GapbenchError

T = TypeVar("T")
WORDS = (
    (r"Expected `str` matching regex '(.*)'", r"should match the pattern \1"),
    (r"Expected (.*), got (.*)", r"should be \1, not \2"),
    (r"Expected (.*)", r"should be \1"),
    (r"Invalid enum value (.*)", r"has the value \1, which it cannot have"),
)
"""msgspec's messages and ours."""


def validated(content: Any, kind: type[T], where: str) -> T:
    """Plain values (of JSON or TOML) as an instance of a dataclass; keys that it does not know are ignored.

    Args:
        content: nested dictionaries, lists, texts and numbers.
        kind: the dataclass, or another type.
        where: what stands in front of a complaint, such as "The entry FILE".

    Returns:
        The record.

    Raises:
        GapbenchError: naming the place within `content` that does not fit, what is expected and what is there.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise GapbenchError(f"{where}: {in_words(str(error))}.") from None


def in_words(message: str) -> str:
    """msgspec's message with the place first: `claimed.value` should be `float | null`, not `str`."""
    text, _, path = message.partition(" - at `")
    place = path.rstrip("`").removeprefix("$").removeprefix(".").removeprefix("key")
    if found := re.fullmatch(r"Object missing required field `(.*)`", text):
        return f"`{'.'.join(filter(None, (place, found[1])))}` is missing"
    for shape, words in WORDS:
        if found := re.fullmatch(shape, text):
            text = found.expand(words)
            break
    else:
        text = text[:1].lower() + text[1:]
    return f"`{place}` {text}" if place else text
