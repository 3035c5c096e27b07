"""How many numbers a network computes for an input, counted without computing them."""

from __future__ import annotations

import pytest

from gapbench_models import activation_count, list_models, work_count


def test_of_a_linear_map_the_logits_alone():
    assert activation_count("plain/linear", 1.0, (3, 8, 8), 10) == 10


@pytest.mark.parametrize("name", list_models())
def test_a_wider_network_and_a_larger_input_need_more(name):
    if name == "plain/linear":
        return
    few = activation_count(name, 0.25, (3, 16, 16), 5)
    assert 0 < few < activation_count(name, 1.0, (3, 16, 16), 5)
    assert few <= activation_count(name, 0.25, (3, 32, 32), 5)


def test_the_work_of_plain_networks_is_that_of_their_matrices():
    assert work_count("plain/linear", 1.0, (3, 8, 8), 10)[1] == 3 * 64 * 10
    operations, products = work_count("plain/mlp", 1.0, (1, 8, 8), 3, depth=2)
    assert products == 64 * 64 + 64 * 64 + 64 * 3
    assert 5 <= operations <= 20


@pytest.mark.parametrize("name", ["plain/cnn", "torchvision/resnet18", "timm/convmixer"])
def test_a_wider_network_has_more_work_in_as_many_operations(name):
    few, less = work_count(name, 0.25, (3, 16, 16), 5)
    many, more = work_count(name, 1.0, (3, 16, 16), 5)
    assert many == few > 5
    assert more > 3 * less > 0
