"""Counts of layers, multiplications and weights against closed forms and torch's own counter."""

import math

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import gapbench
from benchmark.proxies import strangers
from benchmark.small_networks import Residual, data, networks

NETWORKS = networks()
FAMILIES = ["plain/cnn", "timm/resnetv2_18", "timm/convmixer", "timm/mixer", "torchvision/vit"]


def measured(name, network, shape, count=4):
    x = torch.randn(count, *shape, dtype=torch.float64)
    return gapbench.measure(name, network.double().eval(), x, torch.arange(count) % 3)


def small(family):
    return gapbench.build_model(family, 1 / 16, (1, 8, 8), 3, seed=0)


def test_train_size_is_that_of_the_whole_training_set():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    assert gapbench.measure("train_size", network, x, y).value == 7.0
    context = gapbench.proxies.measuring.make_context(network, x[:3], y[:3], all_inputs=x, all_targets=y)
    assert gapbench.proxies.registry.proxy_entry("train_size").function(context) == 7.0


DEPTHS = {
    "relu": 2,
    "deep_linear": 2,
    "conv_bn": 3,
    "depthwise_residual": 3,
    "shared": 3,  # one layer used twice
    "scaled": 2,
    "attention": 3,  # values, projection, head; the product of queries and keys is none
    "hidden_norm": 2,
}


@pytest.mark.parametrize("name", sorted(DEPTHS))
def test_depth_counts_layers_one_after_another(name):
    assert measured("depth", *NETWORKS[name]).value == DEPTHS[name]


def test_depth_is_that_of_the_longest_branch():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    assert measured("depth", nn.Sequential(Residual(inner), nn.Linear(4, 3)), (4,)).value == 3
    assert measured("depth", nn.Sequential(nn.Linear(4, 3)), (4,)).value == 1


@pytest.mark.parametrize(
    ("family", "layers"),
    # 18 by their names; a stem, 8 blocks of a depthwise and a pointwise convolution, a head; 6 blocks of values,
    # projection and two of the MLP, with a stem and a head.
    [("torchvision/resnet18", 18), ("timm/convmixer", 18), ("torchvision/vit", 26), ("plain/cnn", 4)],
)
def test_depths_of_families(family, layers):
    assert measured("depth", small(family), (1, 8, 8)).value == layers


@pytest.mark.parametrize("family", FAMILIES)
def test_multiply_adds_are_half_the_operations_that_torch_counts(family):
    network = small(family).double().eval()
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        network(torch.zeros(1, 1, 8, 8, dtype=torch.float64))
    assert measured("multiply_adds", network, (1, 8, 8)).value == counter.get_total_flops() / 2


CLOSED = {
    "strided": (nn.Conv2d(2, 3, 3, stride=2, padding=1), (2, 5, 7), (3 * 3 * 4) * (2 * 9)),
    "grouped": (nn.Conv2d(4, 6, 3, groups=2), (4, 5, 5), (6 * 3 * 3) * (2 * 9)),
    "transposed": (nn.ConvTranspose2d(2, 3, 2, stride=2), (2, 4, 4), (2 * 4 * 4) * (3 * 4)),
    "one-dimensional": (nn.Conv1d(2, 3, 3), (2, 7), (3 * 5) * (2 * 3)),
    "by position": (nn.Linear(5, 4), (3, 5), 3 * 5 * 4),
    "circular": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 4, 4), (3 * 16) * (2 * 9)),
}


@pytest.mark.parametrize("name", sorted(CLOSED))
def test_multiply_adds_of_one_layer(name):
    layer, shape, expected = CLOSED[name]
    assert measured("multiply_adds", nn.Sequential(layer, nn.Flatten()), shape).value == expected


class Attention(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.fused, self.q, self.k, self.v = fused, nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(6, 5)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, k, v).mean(1)
        return (torch.softmax(q @ k.transpose(1, 2) / 2, 2) @ v).mean(1)


@pytest.mark.parametrize("fused", [False, True])
def test_attention_counts_both_of_its_products(fused):
    tokens = 3
    expected = tokens * 6 * (4 + 4 + 5) + tokens * tokens * (4 + 5)
    network = Attention(fused).double()
    assert measured("multiply_adds", network, (tokens, 6)).value == expected
    assert measured("depth", network, (tokens, 6)).value == 1


def test_weights_that_are_computed_are_not_multiplied_for_each_example():
    plain = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    normed = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    nn.utils.parametrizations.orthogonal(normed[0])
    for name in ("multiply_adds", "depth"):
        assert measured(name, normed, (4,)).value == measured(name, plain, (4,)).value


@pytest.mark.parametrize("name", ["depth", "multiply_adds"])
def test_layers_hidden_in_one_operator_are_not_guessed(name):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.LSTM(4, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x):
            return self.head(self.body(x)[0][:, -1])

    x, y = torch.randn(4, 5, 4), torch.arange(4) % 3
    found = gapbench.measure(name, Recurrent().eval(), x, y)
    assert found.status == "not_applicable"


def test_examples_that_meet_have_no_multiply_adds_of_their_own():
    stranger = strangers.make(strangers.mixing()["attention over examples"])
    found = gapbench.measure("multiply_adds", stranger.network, stranger.inputs, stranger.targets)
    assert found.status == "not_applicable"
    assert "depend on the others" in found.reason


def test_vc_bound_in_closed_form():
    network, shape = NETWORKS["conv_bn"]  # kernels 3 x 1 x 3 x 3, 4 x 3 x 2 x 2 and 3 x 4; images 4 x 4
    weights = 27 + 48 + 12
    expected = 3 + 2 * 3 * math.log(22 * 3 * 16) * weights
    found = measured("vc_dimension_bound", network, shape)
    assert found.value == pytest.approx(expected, rel=1e-14)
    assert (found.details["kernels"], found.details["weights"]) == (3, weights)


def test_vc_bound_of_the_images_of_pgdl():
    """32 x 32 images: d + 2 d ln(22 d 32^2) sum |W|, as PGDL's baseline has it."""
    network = nn.Sequential(
        nn.Conv2d(3, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3)
    )
    expected = 2 + 2 * 2 * math.log(22 * 2 * 32**2) * (54 + 6)
    assert measured("vc_dimension_bound", network, (3, 32, 32)).value == pytest.approx(expected, rel=1e-14)


def test_vc_bound_counts_weights_not_biases_nor_normalisations():
    plain = nn.Sequential(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 3, bias=False))
    other = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
    values = [measured("vc_dimension_bound", n, (4,)).value for n in (plain, other)]
    assert values[0] == values[1] == pytest.approx(2 + 4 * math.log(44) * 35, rel=1e-14)


@pytest.mark.parametrize("name", ["gelu", "attention", "hidden_norm"])
def test_vc_bound_is_refused_where_the_theorem_does_not_hold(name):
    found = measured("vc_dimension_bound", *NETWORKS[name])
    assert found.status == "not_applicable"
    assert "piecewise affine" in found.reason


def test_sizes_do_not_depend_on_what_was_learned():
    network = small("plain/cnn")
    names = ("depth", "multiply_adds", "vc_dimension_bound")
    before = [measured(name, network, (1, 8, 8)).value for name in names]
    with torch.no_grad():
        for p in network.parameters():
            p.normal_()
    assert [measured(name, network, (1, 8, 8)).value for name in names] == before
