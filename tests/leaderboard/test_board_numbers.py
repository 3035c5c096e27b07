"""One number has one text: in CSV, JSON, Markdown and on a terminal."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapbench_leaderboard.board.numbers import exact, plain, rounded


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_exact_text_reads_back_as_the_same_number(value: float) -> None:
    assert float(exact(value)) == value
    assert float(exact(np.float64(value))) == value
    assert exact(value) == json.dumps(plain(value))


@given(st.integers(-(10**18), 10**18))
def test_integers_stay_integers(value: int) -> None:
    assert exact(np.int64(value)) == str(value)
    assert plain(np.int64(value)) == value
    assert isinstance(plain(np.int64(value)), int)


@pytest.mark.parametrize("value", [None, float("nan"), np.nan, pd.NA, pd.NaT, np.float32("nan")])
def test_missing_is_empty_and_null(value: object) -> None:
    assert exact(value) == ""
    assert plain(value) is None
    assert rounded(value) == "–"


def test_infinities_are_texts_that_json_can_hold() -> None:
    assert exact(math.inf) == plain(math.inf) == "inf"
    assert exact(-math.inf) == plain(-math.inf) == "-inf"


def test_booleans_are_not_integers() -> None:
    assert plain(np.bool_(True)) is True
    assert exact(False) == "False"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.3125, "0.313"),  # a tie: tau = 5/16; half to even would say 0.312
        (-0.3125, "-0.313"),
        (0.0625, "0.063"),
        (1.0005, "1.000"),  # the double below 1.0005
        (-0.0004, "0.000"),
        (2 / 3, "0.667"),
        (1, "1.000"),
        (1e22, "10000000000000000000000.000"),
    ],
)
def test_ties_go_away_from_zero_and_zero_has_no_sign(value: float, text: str) -> None:
    assert rounded(value) == text


def test_lone_surrogates_do_not_break_files() -> None:
    assert exact("a\ud800b").encode("utf-8") == b"a?b"
    assert plain({"k\ud800": ["\ud800", 1.5]}) == {"k?": ["?", 1.5]}
