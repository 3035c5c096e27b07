"""Bad arguments: each message names the family, the argument and what would do."""

from __future__ import annotations

from typing import Any

import pytest

from gapbench_models import build_model, describe, parameter_count
from models.family_cases import FAMILIES


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"width": 0.0}, "width must be a positive"),
        ({"width": -1}, "width must be a positive"),
        ({"width": float("nan")}, "width must be a positive"),
        ({"width": float("inf")}, "width must be a positive"),
        ({"width": "wide"}, "width must be a positive"),
        ({"width": True}, "width must be a positive"),
        ({"input_shape": (8, 8)}, "channels, height, width"),
        ({"input_shape": 8}, "channels, height, width"),
        ({"input_shape": "388"}, "channels, height, width"),
        ({"input_shape": (0, 8, 8)}, "three positive integers"),
        ({"input_shape": (3, 8.0, 8)}, "three positive integers"),
        ({"num_classes": 1}, "num_classes must be an integer of at least 2"),
        ({"num_classes": 2.0}, "num_classes must be an integer of at least 2"),
        ({"depth": 0}, "depth"),
        ({"depth": 1.5}, "depth"),
        ({"dropout": 1.0}, "probability in"),
        ({"dropout": -0.1}, "probability in"),
        ({"dropout": float("nan")}, "probability in"),
        ({"seed": -1}, "seed must be"),
        ({"seed": 2**64}, "seed must be"),
        ({"seed": 0.5}, "seed must be"),
        ({"init_scale": 0.0}, "init_scale must be"),
        ({"init_scale": float("inf")}, "init_scale must be"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build_model("plain/mlp", **arguments)


@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_family_has_not_is_refused_by_name(name: str) -> None:
    family = describe(name)
    if not family.supports_depth:
        with pytest.raises(ValueError, match=f"{name}.*depth"):
            build_model(name, 0.125, (1, 8, 8), depth=2)
    if not family.supports_dropout:
        with pytest.raises(ValueError, match=f"{name}.*dropout"):
            build_model(name, 0.125, (1, 8, 8), dropout=0.5)
    if family.smallest_size > 1:
        too_small = (1, family.smallest_size - 1, 8)
        with pytest.raises(ValueError, match=f"{name}.*at least {family.smallest_size}"):
            parameter_count(name, 0.125, too_small)


def test_seeds_may_have_64_bits() -> None:
    build_model("plain/mlp", seed=2**64 - 1)
