"""Cells of a table as people write them: words for what is missing, and numbers in several notations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import pandas as pd

from gapbench_base.errors import TableError

MISSING_WORDS = frozenset(
    {
        "#n/a", "#n/a n/a", "#na", "-1.#ind", "1.#ind", "-1.#qnan", "1.#qnan", "-nan", "+nan", "nan", "<na>",
        "n/a", "na", "n.a.", "null", "none", "nil", "nat", "-", "--", "–", "—", "?",
    }
)  # fmt: skip
"""In lower case. In a measure they can hardly mean anything else; in an axis they may be levels."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_CURRENCY = re.compile(r"[$€£¥]|\b(usd|eur|gbp|chf|jpy)\b", re.IGNORECASE)
_NEAR = re.compile(
    r"([~<>≤≥≈=±]|[$€£¥]|\b(usd|eur|gbp|chf|jpy)\b)?\s*[+-]?[0-9][0-9.,'_ \u00a0\u202f]*([eE][+-]?[0-9]+)?\s*"
    r"([$€£¥%‰]|\b(usd|eur|gbp|chf|jpy)\b|[a-zµ°/]{1,4}|[±(].*)?",
    re.IGNORECASE,
)
_MINUS = str.maketrans({"−": "-"})
_THOUSANDS = {" ": "[ \u00a0\u202f]", "'": "['’]"}


def is_missing(value: object) -> bool:
    """True for None, NaN, pandas.NA, NaT, blank text, and text that pandas, R or Excel write for these."""
    if isinstance(value, str):
        return not value.strip() or value.strip().lower() in MISSING_WORDS
    return is_empty(value)


def is_empty(value: object) -> bool:
    """True for what a table has where nothing is: None, NaN, pandas.NA, NaT, blank text."""
    if isinstance(value, str):
        return not value.strip()
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    return not isinstance(value, np.ndarray) and bool(value != value)


@dataclass(frozen=True)
class NumberFormat:
    """How numbers are written.

    Raises:
        TableError: for a decimal sign other than point and comma, or a mark for thousands that is one digit,
            letter, sign, or the decimal sign.
    """

    decimal: str = "."
    thousands: str | None = None
    """Mark between groups of three digits; None: there is none."""
    percent: bool = False
    """Whether 12.5% is 0.125; a percentage is no number otherwise."""

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise TableError(f"the decimal sign must be . or , and not {self.decimal!r}")
        mark = self.thousands
        if mark is not None and (len(mark) != 1 or mark.isalnum() or mark in "+-%" or mark == self.decimal):
            raise TableError(
                f"the mark for thousands must be one sign other than the decimal sign, not {mark!r}"
            )

    @cached_property
    def _grouped(self) -> re.Pattern[str] | None:
        if self.thousands is None:
            return None
        mark = _THOUSANDS.get(self.thousands, re.escape(self.thousands))
        return re.compile(rf"([+-]?[0-9]{{1,3}})((?:{mark}[0-9]{{3}})+)(?![0-9])(.*)")

    def read(self, text: str) -> int | float | None:
        """The number that a text is: a whole one as int, exactly; None if it is no number."""
        text = text.strip().translate(_MINUS)
        share = text.endswith("%")
        if share:
            if not self.percent:
                return None
            text = text[:-1].rstrip()
        if self._grouped is not None and (grouped := self._grouped.fullmatch(text)):
            text = grouped[1] + re.sub("[^0-9]", "", grouped[2]) + grouped[3]
        if self.decimal == ",":
            if "." in text:
                return None
            text = text.replace(",", ".")
        if not share and _WHOLE.fullmatch(text):
            return int(text)
        if _REAL.fullmatch(text):
            return (
                float(f"{text}e-2")
                if share and "e" not in text.lower()
                else float(text) / (100 if share else 1)
            )
        return float(text) if not share and _INFINITE.fullmatch(text) else None

    def is_percentage(self, text: str) -> bool:
        """True for a text that is read as a percentage."""
        return self.percent and text.strip().endswith("%") and self.read(text) is not None


def remedy(text: object, used: NumberFormat | None = None) -> str:
    """What to do about a text that is no number: the options that read it, and as what; in words."""
    if not isinstance(text, str):
        return "write plain numbers"
    used = used or NumberFormat()
    if used.read(text) is not None:
        return "it has no percent sign, others of the column have"
    found: list[str] = []
    for decimal, thousands, percent in sorted(
        product((".", ","), (None, ",", ".", " ", "'", "_"), (False, True)),
        key=lambda choice: (
            (choice[0] != used.decimal) + (choice[1] != used.thousands) + (choice[2] != used.percent)
        ),
    ):
        if thousands == decimal:
            continue
        value = NumberFormat(decimal, thousands, percent).read(text)
        changes = [
            *([f"--decimal {decimal}"] if decimal != used.decimal else []),
            *([f"--thousands {_spoken(thousands)}"] if thousands != used.thousands and thousands else []),
            *(["--percent"] if percent and not used.percent else []),
        ]
        if value is None or not changes or any(set(changes) > set(other.split(" | ")) for other in found):
            continue
        found.append(" | ".join(changes))
    if found:
        options = " or ".join(" with ".join(option.split(" | ")) for option in found[:3])
        return f"{options} reads it as a number"
    if _CURRENCY.search(text):
        return "write plain numbers, without the currency"
    return "write plain numbers; an empty cell leaves a network out"


def nearly(text: object) -> bool:
    """True for a text that seems to be meant as a number: with a unit, a currency, a bound, an error."""
    return isinstance(text, str) and _NEAR.fullmatch(text.strip().translate(_MINUS)) is not None


def _spoken(mark: str) -> str:
    return {" ": "' '", "'": '"\'"'}.get(mark, mark)
