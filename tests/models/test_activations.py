"""How many numbers a network computes for an input, counted without computing them."""

from __future__ import annotations

import pytest

from gapbench_models import activation_count, list_models


def test_of_a_linear_map_the_logits_alone():
    assert activation_count("plain/linear", 1.0, (3, 8, 8), 10) == 10


@pytest.mark.parametrize("name", list_models())
def test_a_wider_network_and_a_larger_input_need_more(name):
    if name == "plain/linear":
        return
    few = activation_count(name, 0.25, (3, 16, 16), 5)
    assert 0 < few < activation_count(name, 1.0, (3, 16, 16), 5)
    assert few <= activation_count(name, 0.25, (3, 32, 32), 5)
