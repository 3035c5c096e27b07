"""Content of files from anybody, as typed records or one clear sentence on what is wrong."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import did_you_mean

T = TypeVar("T")
WORDS = (
    (r"Expected `str` matching regex '(.*)'", r"should match the pattern \1"),
    (r"Expected `array` of length >= 1", r"should be a list of at least one entry"),
    (r"Expected `int` >= (.*)", r"should be a whole number of at least \1"),
    (r"Expected (.*), got (.*)", r"should be \1, not \2"),
    (r"Expected (.*)", r"should be \1"),
    (r"Invalid enum value (.*); it may be (.*)", r"= \1 is none of \2"),
)
"""msgspec's messages and ours."""
TYPES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "a table",
    "str": "a text",
}


def validated(content: Any, kind: type[T], where: str, *, strict: bool = False) -> T:
    """Plain values (of JSON or TOML) as an instance of a dataclass.

    Args:
        content: nested dictionaries, lists, texts and numbers.
        kind: the dataclass, or another type.
        where: what stands in front of a complaint, such as "The entry FILE".
        strict: whether keys that the dataclass does not know are refused; else they are ignored.

    Returns:
        The record.

    Raises:
        GapbenchError: naming the place within `content` that does not fit, what is expected and what is there.
    """
    if strict:
        _refuse_unknown(content, kind, where)
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `")
        place = path.rstrip("`").removeprefix("$").removeprefix(".")
        if text.startswith("Invalid enum value"):
            text += f"; it may be {', '.join(map(str, _choices(kind, place)))}"
        raise GapbenchError(f"{where}: {in_words(text, place)}.") from None


def in_words(text: str, place: str) -> str:
    """msgspec's message with the place first: "`claimed.value` should be a number or null, not a text"."""
    if found := re.fullmatch(r"Object missing required field `(.*)`", text):
        return f"`{'.'.join(filter(None, (place, found[1])))}` is missing"
    for shape, words in WORDS:
        if found := re.fullmatch(shape, text):
            text = re.sub(r"`([a-z |]+)`", _types, found.expand(words))
            break
    else:
        text = text[:1].lower() + text[1:]
    return f"`{place}` {text}" if place else text


def _choices(kind: Any, place: str) -> tuple[Any, ...]:
    """What a place within a dataclass, such as `measure.loss`, may be."""
    for name in re.findall(r"\w+|\[[^]]*\]", place):
        while not is_dataclass(kind) and get_args(
            kind
        ):  # of `Part | None`, `list[Part]`, `dict[str, Part]`: Part
            kind = next((part for part in get_args(kind) if is_dataclass(part)), get_args(kind)[-1])
        if is_dataclass(kind) and not name.startswith("["):
            kind = get_type_hints(kind)[name]
    return tuple(
        choice for part in (kind, *get_args(kind)) for choice in get_args(part) if isinstance(choice, str)
    )


def _types(found: re.Match[str]) -> str:
    """`float | null` as "a number or null"."""
    return " or ".join(TYPES.get(name, name) for name in found[1].split(" | "))


def _refuse_unknown(content: Any, kind: Any, where: str) -> None:
    """Refuse keys of tables within tables, and of tables in lists, that the dataclasses do not know."""
    for member in get_args(kind):
        if isinstance(content, list) and is_dataclass(member):
            for number, part in enumerate(content, start=1):
                _refuse_unknown(part, member, f"{where}, number {number}")
        elif not is_dataclass(kind):
            _refuse_unknown(content, member, where)
    if not is_dataclass(kind) or not isinstance(content, dict):
        return
    types = get_type_hints(kind, include_extras=True)
    for key, value in content.items():
        if key not in types:
            hint = did_you_mean(key, types) or f" Known: {', '.join(sorted(types))}."
            raise GapbenchError(f"{where}: unknown key {key!r}.{hint}")
        _refuse_unknown(value, types[key], f"{where}, [{key}]")
