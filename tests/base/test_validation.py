"""What is wrong with a file from anybody is said in words, with its place."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from gapbench_base.errors import GapbenchError
from gapbench_base.json_values import plain
from gapbench_base.validation import validated


@dataclass(frozen=True)
class Part:
    size: Annotated[int, Meta(ge=2, le=99)]
    kind: Literal["round", "square"] = "round"
    weight: float | None = None

    def __post_init__(self) -> None:
        if self.size == 13:
            raise ValueError("The size 13 brings bad luck.")


@dataclass(frozen=True)
class Whole:
    name: Annotated[str, Meta(pattern=r"^[a-z]+\Z", description="lower-case letters")]
    parts: Annotated[list[Part], Meta(min_length=1)]
    first: Part | None = None
    table: dict[str, Part] = field(default_factory=dict)


SIZES = "a whole number of at least 2 and at most 99"
PART = {"size": 3}
GOOD = {"name": "a", "parts": [PART]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 1}, "file: `name` = 1 should be a text, not a whole number."),
        ({"name": "A"}, "file: `name` = 'A' should be lower-case letters."),
        ({"name": "a\n"}, r"file: `name` = 'a\n' should be lower-case letters."),
        ({"name": "A" * 99}, "file: `name` should be lower-case letters."),
        ({"parts": []}, "file: `parts` should be a list of at least one entry."),
        ({"parts": {}}, "file: `parts` should be a list, not a table."),
        ({"parts": [PART, {}]}, "file: `parts 2.size` is missing."),
        (
            {"parts": [{"size": 1}]},
            f"file: `parts 1.size` = 1 should be {SIZES}.",
        ),
        (
            {"parts": [{"size": 100}]},
            f"file: `parts 1.size` = 100 should be {SIZES}.",
        ),
        ({"parts": [{"size": 2.0}]}, "file: `parts 1.size` = 2.0 should be a whole number."),
        (
            {"parts": [{"size": 2**70}]},
            f"file: `parts 1.size` = 1180591620717411303424 should be {SIZES}.",
        ),
        ({"parts": [{"size": 13}]}, "file: `parts 1`: The size 13 brings bad luck."),
        (
            {"parts": [PART | {"weight": "x"}]},
            "file: `parts 1.weight` = 'x' should be a number or null, not a text.",
        ),
        ({"parts": [PART | {"kind": "oval"}]}, "file: `parts 1.kind` = 'oval' is none of round, square."),
        ({"first": PART | {"kind": "oval"}}, "file: `first.kind` = 'oval' is none of round, square."),
        (
            {"table": {"x": PART | {"kind": 7}}},
            "file: `table[...].kind` should be a text, not a whole number.",
        ),
    ],
)
def test_what_does_not_fit_is_named(change, words):
    with pytest.raises(GapbenchError) as error:
        validated(GOOD | change, Whole, "file")
    assert str(error.value) == words


def test_unknown_keys_are_ignored_or_refused_wherever_they_stand():
    content = GOOD | {"more": 1, "parts": [PART | {"sice": 1}], "first": PART | {"wait": 2}}
    assert validated(content, Whole, "file") == Whole("a", [Part(3)], Part(3))
    with pytest.raises(GapbenchError, match=r"^file: unknown key 'more'. Known: first, name, parts, table.$"):
        validated(GOOD | {"more": 1}, Whole, "file", strict=True)
    with pytest.raises(
        GapbenchError,
        match=r"file, parts 1: unknown key 'sice'. Did you mean 'size'\? The .*: kind, weight.$",
    ):
        validated(GOOD | {"parts": [PART | {"sice": 1}]}, Whole, "file", strict=True)
    with pytest.raises(GapbenchError, match=r"file, first: unknown key 'wait'"):
        validated(GOOD | {"first": PART | {"wait": 2}}, Whole, "file", strict=True)


def test_plain_values_are_json():
    import numpy as np
    import torch

    found = plain({1: np.float64(0.5), "a": [np.int64(3), float("nan"), (torch.tensor(2.0), float("inf"))]})
    assert found == {"1": 0.5, "a": [3, None, [2.0, None]]}
    assert type(found["1"]) is float
    assert type(found["a"][0]) is int
