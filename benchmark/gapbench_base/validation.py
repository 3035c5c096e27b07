"""Content of files from anybody, as typed records or one clear sentence on what is wrong."""

from __future__ import annotations

import copy
import re
from dataclasses import is_dataclass
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from gapbench_base.complaints import Complaints
from gapbench_base.errors import GapbenchError
from gapbench_base.rules import Key, bounded
from gapbench_base.suggestions import near_and_others

T = TypeVar("T")
WORDS = (
    (r"Expected `array` of length >= 1", r"should be a list of at least one entry"),
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
MISSING = r"Object missing required field `(.*)`"
"""What msgspec says of a key without default."""
BOUND = r"Expected `(int|float)` [<>].*"
"""What msgspec says of a number out of its bounds, of which it names the one."""
BEYOND = 2**63 - 1
"""A bound that is none for people."""
LONGEST = 60  # characters of a value that are shown


def validated(content: Any, kind: type[T], where: str, *, strict: bool = False) -> T:
    """Plain values (of JSON or TOML) as an instance of a dataclass.

    Args:
        content: nested dictionaries, lists, texts and numbers.
        kind: the dataclass, or another type. The `description` of a pattern (`msgspec.Meta`) says what fits.
        where: what stands in front of a complaint, such as "The entry FILE".
        strict: whether keys that the dataclass does not know are refused, and all that is wrong is told at once;
            else they are ignored, and the first is told.

    Returns:
        The record.

    Raises:
        GapbenchError: naming the place within `content` that does not fit, what is expected and what is there.
    """
    complaints = Complaints()
    if strict:
        _refuse_unknown(content, kind, where, complaints)
    told: set[str] = set()
    while True:
        try:
            record = msgspec.convert(content, kind)
        except msgspec.ValidationError as error:
            text, _, path = str(error).partition(" - at `")
            place = path.rstrip("`").removeprefix("$").removeprefix(".")
            with complaints.collecting():
                raise GapbenchError(f"{where}: {_complaint(text, place, content, kind)}.") from None
            if found := re.fullmatch(MISSING, text):
                place = ".".join(filter(None, (place, found[1])))
            content = _with_example(content, place, kind) if strict and place not in told else None
            told.add(place)
            if content is None:
                complaints.refuse()
        else:
            complaints.refuse()
            return record


def _with_example(content: Any, place: str, kind: Any) -> Any:
    """The content with what fits in a place, so that others can be looked at; None where nothing is known to."""
    names = re.findall(r"\w+|\[\d+\]", place)
    examples = [
        note.example for note in getattr(_kind_at(kind, place), "__metadata__", ()) if isinstance(note, Key)
    ]
    if "[...]" in place or not names or not examples:
        return None
    whole = part = copy.deepcopy(content)
    for name in names[:-1]:
        part = part[int(name.strip("[]")) if name.startswith("[") else name]
    if not isinstance(part, dict) or names[-1].startswith("["):
        return None
    part[names[-1]] = examples[0]
    return whole


def _complaint(text: str, place: str, content: Any, kind: Any) -> str:
    """msgspec's message with place and value first: "`version` = 0 should be a whole number of at least 1"."""
    if found := re.fullmatch(MISSING, text):
        return f"`{_counted('.'.join(filter(None, (place, found[1]))))}` is missing"
    there = _shown(content, place)
    subject = f"`{_counted(place)}`{there}" if place else ""
    if text.startswith("Invalid enum value"):
        return f"{subject} is none of {', '.join(map(str, _choices(kind, place)))}"
    if text.startswith("Expected `str` matching regex"):
        return f"{subject} should be {words_of(_kind_at(kind, place))}"
    declared = _kind_at(kind, place)
    if re.fullmatch(BOUND, text):
        return f"{subject} should be {words_of(declared)}"
    if _key_in(declared) and (found := re.fullmatch(r"Expected `[^`]*`, got `([a-z]+)`", text)):
        words, given = words_of(declared), TYPES.get(found[1], found[1])
        seen = given == TYPES["float"] and "number" in words  # as one can see of 1.5
        return f"{subject} should be {words}" + ("" if seen else f", not {given}")
    for shape, words in WORDS:
        if found := re.fullmatch(shape, text):
            said = re.sub(r"`([a-z |]+)`", _types, found.expand(words))
            if there and said == "should be a whole number, not a number":  # as one can see
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


def words_of(kind: Any) -> str:
    """What a value of a type may be, in words: `a whole number of at least 2`.

    Args:
        kind: the annotation, with its bounds (`msgspec.Meta`) and what else is known of the key (`Key`).

    Returns:
        The words, with an article; of a `Literal` its values.
    """
    notes: tuple[object, ...] = ()
    while get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        notes += tuple(more)
    said = [note.values for note in notes if isinstance(note, Key) and note.values]
    metas = [note for note in notes if isinstance(note, msgspec.Meta)]
    said += [meta.description for meta in metas if meta.description]
    if said:
        return said[0]
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    members = [member for member in get_args(kind) if member is not type(None)]
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(words_of, members)))
    if kind not in (int, float):
        base = "dict" if is_dataclass(kind) else getattr(get_origin(kind) or kind, "__name__", "")
        return TYPES.get({"list": "array", "dict": "object"}.get(base, base), "anything")
    meta = metas[0] if metas else msgspec.Meta()
    return bounded(
        "whole number" if kind is int else "number",
        above=meta.gt,
        least=meta.ge,
        below=meta.lt,
        most=None if meta.le is None or meta.le >= BEYOND else meta.le,
    )


def _key_in(kind: Any) -> bool:
    """Whether an annotation says what there is to say of a key."""
    return any(isinstance(note, Key) for note in getattr(kind, "__metadata__", ()))


def _kind_at(kind: Any, place: str) -> Any:
    """The annotation at a place within a dataclass, such as `measure.loss`."""
    for name in re.findall(r"\w+|\[[^]]*\]", place):
        # of `Part | None`, `list[Part]`, `dict[str, Part]`: Part
        while not is_dataclass(kind) and get_args(kind):
            parts = get_args(kind)[:1] if get_origin(kind) is Annotated else get_args(kind)
            kind = next((part for part in parts if is_dataclass(part)), parts[-1])
        if is_dataclass(kind) and not name.startswith("["):
            kind = get_type_hints(kind, include_extras=True)[name]
    return kind


def _choices(kind: Any, place: str) -> tuple[str, ...]:
    """What a place within a dataclass may be."""
    found = _kind_at(kind, place)
    while get_origin(found) is Annotated:
        found = get_args(found)[0]
    return tuple(
        choice for part in (found, *get_args(found)) for choice in get_args(part) if isinstance(choice, str)
    )


def _types(found: re.Match[str]) -> str:
    """`float | null` as "a number or null"."""
    return " or ".join(TYPES.get(name, name) for name in found[1].split(" | "))


def _refuse_unknown(content: Any, kind: Any, where: str, complaints: Complaints) -> None:
    """Complain of keys of tables within tables, and of tables in lists, that the dataclasses do not know."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    for member in get_args(kind):
        if isinstance(content, list) and is_dataclass(member):
            for number, part in enumerate(content, start=1):
                _refuse_unknown(part, member, f"{where} {number}", complaints)
        elif not is_dataclass(kind):
            _refuse_unknown(content, member, where, complaints)
    if not is_dataclass(kind) or not isinstance(content, dict):
        return
    types = get_type_hints(kind, include_extras=True)
    for key, value in content.items():
        if key in types:
            _refuse_unknown(value, types[key], f"{where}, {key}", complaints)
            continue
        with complaints.collecting():
            raise GapbenchError(f"{where}: unknown key {key!r}.{near_and_others(key, sorted(types))}")
