"""Content of files from anybody, as typed records or one clear sentence on what is wrong."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from gapbench_base.errors import GapbenchError
from gapbench_base.suggestions import did_you_mean

T = TypeVar("T")
WORDS = (
    (r"Expected `array` of length >= 1", r"should be a list of at least one entry"),
    (r"Expected `int` >= (.*)", r"should be a whole number of at least \1"),
    (r"Expected `int` <= (.*)", r"should be a whole number of at most \1"),
    (r"Expected (.*), got (.*)", r"should be \1, not \2"),
    (r"Expected (.*)", r"should be \1"),
    (r"(?i)number out of range", r"is out of range"),
)
"""msgspec's messages and ours."""
TYPES = {
    "array": "a list",
    "bool": "true or false",
    "date": "a date",
    "datetime": "a date with a time",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "a table",
    "str": "a text",
    "time": "a time",
}
LONGEST = 60  # characters of a value that are shown


def validated(content: Any, kind: type[T], where: str, *, strict: bool = False) -> T:
    """Plain values (of JSON or TOML) as an instance of a dataclass.

    Args:
        content: nested dictionaries, lists, texts and numbers.
        kind: the dataclass, or another type. The `description` of a pattern (`msgspec.Meta`) says what fits.
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
        raise GapbenchError(f"{where}: {_complaint(text, place, content, kind)}.") from None


def _complaint(text: str, place: str, content: Any, kind: Any) -> str:
    """msgspec's message with place and value first: "`version` = 0 should be a whole number of at least 1"."""
    if found := re.fullmatch(r"Object missing required field `(.*)`", text):
        return f"`{_counted('.'.join(filter(None, (place, found[1]))))}` is missing"
    there = _shown(content, place)
    subject = f"`{_counted(place)}`{there}" if place else ""
    if text.startswith("Invalid enum value"):
        return f"{subject} is none of {', '.join(map(str, _choices(kind, place)))}"
    if text.startswith("Expected `str` matching regex"):
        return f"{subject} should be {_kind_at(kind, place)[1]}"
    for shape, words in WORDS:
        if found := re.fullmatch(shape, text):
            said = re.sub(r"`([a-z |]+)`", _types, found.expand(words))
            if there and said == "should be a whole number, not a number":  # as one can see of 1.5
                said = "should be a whole number"
            return f"{subject} {said}".lstrip()
    said = text.rstrip(".")
    return f"{subject}: {said}" if subject else said  # of a record's own check


def _counted(place: str) -> str:
    """Places in lists counted from 1: `grid 1.task`."""
    return re.sub(r"\[(\d+)\]", lambda found: f" {int(found[1]) + 1}", place)


def _shown(content: Any, place: str) -> str:
    """` = value` for a short text or number at a place; nothing for what cannot be shown."""
    for name in re.findall(r"\w+|\[[^]]*\]", place):
        if isinstance(content, list) and name.strip("[]").isdecimal():
            content = content[int(name.strip("[]"))]
        elif isinstance(content, dict) and name in content:
            content = content[name]
        else:
            return ""
    shown = repr(content)
    return f" = {shown}" if isinstance(content, str | int | float) and len(shown) <= LONGEST else ""


def _kind_at(kind: Any, place: str) -> tuple[Any, str]:
    """The type at a place within a dataclass, such as `measure.loss`, and the words for its pattern."""
    for name in re.findall(r"\w+|\[[^]]*\]", place):
        # of `Part | None`, `list[Part]`, `dict[str, Part]`: Part
        while not is_dataclass(kind) and get_args(kind):
            parts = get_args(kind)[:1] if get_origin(kind) is Annotated else get_args(kind)
            kind = next((part for part in parts if is_dataclass(part)), parts[-1])
        if is_dataclass(kind) and not name.startswith("["):
            kind = get_type_hints(kind, include_extras=True)[name]
    words = ""
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        words = next(
            (note.description for note in notes if isinstance(note, msgspec.Meta) and note.description), ""
        )
    return kind, words


def _choices(kind: Any, place: str) -> tuple[str, ...]:
    """What a place within a dataclass may be."""
    found, _ = _kind_at(kind, place)
    return tuple(
        choice for part in (found, *get_args(found)) for choice in get_args(part) if isinstance(choice, str)
    )


def _types(found: re.Match[str]) -> str:
    """`float | null` as "a number or null"."""
    return " or ".join(TYPES.get(name, name) for name in found[1].split(" | "))


def _refuse_unknown(content: Any, kind: Any, where: str) -> None:
    """Refuse keys of tables within tables, and of tables in lists, that the dataclasses do not know."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    for member in get_args(kind):
        if isinstance(content, list) and is_dataclass(member):
            for number, part in enumerate(content, start=1):
                _refuse_unknown(part, member, f"{where} {number}")
        elif not is_dataclass(kind):
            _refuse_unknown(content, member, where)
    if not is_dataclass(kind) or not isinstance(content, dict):
        return
    types = get_type_hints(kind, include_extras=True)
    for key, value in content.items():
        if key not in types:
            hint = did_you_mean(key, types) or f" Known: {', '.join(sorted(types))}."
            raise GapbenchError(f"{where}: unknown key {key!r}.{hint}")
        _refuse_unknown(value, types[key], f"{where}, {key}")
