"""What may stand in a place, declared once: for whoever reads a value, and for the page that lists them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, get_type_hints

from gapbench_base.suggestions import did_you_mean

LARGEST = 1e300
"""Numbers beyond it, NaN among them, are no values."""
LONGEST = 60  # characters of a value that are shown


@dataclass(frozen=True, kw_only=True)
class Key:
    """What is known of a key beside its type, as a note in `Annotated`.

    Attributes:
        meaning: one line.
        example: a value; of an axis several, as a tuple.
        values: what it may be, in words, where its type does not say it.
        default: what stands for it where it is not given, in words, where the default does not say it.
        beside: other keys that the example needs, with their values.
    """

    meaning: str
    example: Any
    values: str = ""
    default: str = ""
    beside: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, kw_only=True)
class Rule(Key):
    """What a value may be: one of `choices`, or a number within bounds; with `values` alone, anything.

    Attributes:
        choices: texts.
        whole: whether only whole numbers fit.
        above: what the number must be greater than; `least`, `below` and `most` likewise.
    """

    choices: tuple[str, ...] = ()
    whole: bool = False
    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None

    @property
    def words(self) -> str:
        """What it may be, in words."""
        if self.values:
            return self.values
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        noun = "whole number" if self.whole else "number"
        return bounded(noun, above=self.above, least=self.least, below=self.below, most=self.most)

    def complaint(self, name: str, value: object) -> str:
        """What is wrong with a value, a sentence; empty if it fits."""
        if self.choices:
            if isinstance(value, str) and value in self.choices:
                return ""
            hint = did_you_mean(value, self.choices)
            return f"{name} = {shown(value)} is none of {', '.join(self.choices)}.{hint}"
        if not is_number(value):
            return f"{name} = {shown(value)} is not a finite number: it must be {self.words}."
        assert isinstance(value, int | float)
        fits = (
            (not self.whole or value == int(value))
            and (self.above is None or value > self.above)
            and (self.least is None or value >= self.least)
            and (self.below is None or value < self.below)
            and (self.most is None or value <= self.most)
        )
        return "" if fits else f"{name} = {shown(value)} must be {self.words}."


def bounded(
    noun: str,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> str:
    """A number within bounds, in words: `a positive number of at most 1`."""
    low = []
    if above == 0:
        noun = f"positive {noun}"
    elif above is not None:
        low = [f"above {above:g}"]
    elif least is not None:
        low = [f"at least {least:g}"]
    high = [f"at most {most:g}"] if most is not None else [f"below {below:g}"] if below is not None else []
    limits = " and ".join([*low, *high])
    if not limits:
        return f"a {noun}"
    return f"a {noun} {'of ' if limits.startswith('at') else ''}{limits}"


def is_number(value: object) -> bool:
    """Whether it is a finite real number, and no truth value."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and not (isinstance(value, float) and math.isnan(value)) and abs(value) <= LARGEST  # type: ignore[arg-type]


def shown(value: object) -> str:
    """A value as a message shows it, on one line and cut short."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


@lru_cache(maxsize=64)
def rules_of(declared: Callable[..., object]) -> dict[str, Rule]:
    """The rules in the annotations of a class or a function, by name; none where they cannot be read."""
    try:
        hints = get_type_hints(declared, include_extras=True)
    except (NameError, TypeError, AttributeError):  # of a plug-in, imported for type checkers alone
        return {}
    found = {name: _rule_in(getattr(kind, "__metadata__", ())) for name, kind in hints.items()}
    return {name: rule for name, rule in found.items() if rule is not None}


def _rule_in(notes: tuple[object, ...]) -> Rule | None:
    return next((note for note in notes if isinstance(note, Rule)), None)
