"""Margins at hidden layers and beside examples, against dense Jacobians and closed forms in float64."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

import gapbench
from benchmark.small_networks import Residual, data, networks
from gapbench.proxies.registry import proxy_entry

NETWORKS = networks()
HIDDEN = ["hidden_margin", "hidden_margin_mean"]
BESIDE = ["mixup_margin", "shift_margin"]
ALL = [*HIDDEN, *BESIDE]


def value(name, network, x, y, **options):
    found = gapbench.measure(name, network, x, y, **options)
    assert found.status == "ok", found
    return found.value


def distances(tail, z, y):
    """Signed distances at activations z, one Jacobian at a time."""
    found = []
    for row, label in zip(z.detach(), y.tolist()):

        def margin(point, label=label):
            f = tail(point[None])[0]
            return f[label] - torch.stack([f[j] for j in range(len(f)) if j != label]).max()

        gradient = torch.autograd.functional.jacobian(margin, row)
        found.append(float(margin(row).detach()) / float(gradient.norm()))
    spread = z.detach().flatten(1)
    return np.array(found) / math.sqrt(float((spread - spread.mean(0)).pow(2).sum() / len(z)))


def split(network, x):
    """[(activation that a layer takes, the rest of the network from that layer on)] of a sequence of modules."""
    found = []
    for place, module in enumerate(network):
        if isinstance(module, nn.Linear | nn.Conv2d):
            found.append((network[:place](x), network[place:]))
    return found


@pytest.mark.parametrize("name", ["relu", "gelu", "conv_bn", "hidden_norm"])
def test_hidden_margins_against_jacobians(name):
    network, shape = NETWORKS[name]
    x, y = data(shape, "cross_entropy")
    parts = [distances(tail, z, y) for z, tail in split(network, x)]
    for place, expected in enumerate(parts):
        for q in (0.0, 0.3, 0.5):
            number = pytest.approx(np.quantile(expected, q), rel=1e-8)
            assert value("hidden_margin", network, x, y, layer=place, quantile=q) == number
            assert value("hidden_margin", network, x, y, layer=place - len(parts), quantile=q) == number
    found = gapbench.measure("hidden_margin", network, x, y, layer=1)
    assert found.details["quartiles"] == pytest.approx(
        np.quantile(parts[1], [0, 0.25, 0.5, 0.75, 1]).tolist()
    )
    expected = np.mean([np.quantile(part, 0.5) for part in parts])
    assert value("hidden_margin_mean", network, x, y) == pytest.approx(expected, rel=1e-8)


def test_chunks_change_nothing():
    network, shape = NETWORKS["conv_bn"]
    x, y = data(shape, "cross_entropy")
    both = [value("hidden_margin_mean", network, x, y, batch_size=size) for size in (2, None)]
    assert both[0] == pytest.approx(both[1], rel=1e-10)


def test_shortcuts_count_from_where_a_layer_reads():
    torch.manual_seed(0)
    inner = nn.Linear(4, 4).double()
    network = nn.Sequential(Residual(inner), nn.Linear(4, 3)).double()
    x, y = data((4,), "cross_entropy")
    expected = np.quantile(distances(network, x, y), 0.5)
    assert value("hidden_margin", network, x, y, layer=0) == pytest.approx(expected, rel=1e-8)


def test_the_features_of_a_linear_head_in_closed_form():
    """(f_y - f_j) / |w_y - w_j| over the root of the features' total variance."""
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    z, w = network[:3](x).detach(), network[3].weight.detach()
    logits = network(x).detach()
    found = []
    for row, label in zip(logits, y.tolist()):
        other = max((j for j in range(3) if j != label), key=lambda j, row=row: float(row[j]))
        found.append(float((row[label] - row[other]) / (w[label] - w[other]).norm()))
    spread = math.sqrt(float(z.var(dim=0, correction=0).sum()))
    assert value("hidden_margin", network, x, y) == pytest.approx(np.median(found) / spread, rel=1e-10)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_the_scale_of_activations_and_of_the_outputs_changes_nothing(layer):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)]
    network = nn.Sequential(*layers).double()
    x, y = data((4,), "cross_entropy")
    scaled = copy.deepcopy(network)
    with torch.no_grad():
        for place, factor in ((0, 20.0), (2, 0.3), (4, 7.0)):
            scaled[place].weight.mul_(factor)
        scaled[0].bias.mul_(20.0)
        scaled[2].bias.mul_(6.0)
        scaled[4].bias.mul_(42.0)
    both = [value("hidden_margin", n, x, y, layer=layer) for n in (network, scaled)]
    assert both[0] == pytest.approx(both[1], rel=1e-9)
    moved = value("hidden_margin", network, 5 * x + 3, y, layer=0)
    assert moved != pytest.approx(value("hidden_margin", network, x, y, layer=0), rel=1e-3)


def test_wrong_examples_have_negative_margins():
    network, shape = NETWORKS["relu"]
    x, _ = data(shape, "cross_entropy")
    with torch.no_grad():
        right, wrong = network(x).argmax(1), network(x).argmin(1)
    for name in HIDDEN:
        assert value(name, network, x, right) > 0 > value(name, network, x, wrong)


# ---- beside examples -------------------------------------------------------------------------------------------


def test_mixed_examples_of_pairs_are_their_midpoints():
    """Two examples of each class have one midpoint, whatever is drawn."""
    network, _ = NETWORKS["gelu"]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(6, 1, 2, 2, generator=generator, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    middle = 0.5 * (x[:3] + x[3:])
    found = distances(network[1:], middle.flatten(1), y[:3])
    own = float((middle.flatten(1) - middle.flatten(1).mean(0)).pow(2).sum() / 3) ** 0.5
    spread = float((x.flatten(1) - x.flatten(1).mean(0)).pow(2).sum() / 6) ** 0.5
    result = gapbench.measure("mixup_margin", network, x, y)
    assert result.value == pytest.approx(np.median(found) * own / spread, rel=1e-8)
    assert result.standard_error == pytest.approx(0.0, abs=1e-12)
    assert result.details["midpoints"] == 4 * 6


def test_shifted_images_are_among_the_eight_of_one_pixel():
    network, shape = NETWORKS["conv_bn"]
    x, y = data(shape, "cross_entropy", count=1)
    x, y = torch.cat([x, -x]), torch.cat([y, y])
    spread = float((x.flatten(1) - x.flatten(1).mean(0)).pow(2).sum() / 2) ** 0.5

    def moved(image, down, right):
        rows = [min(max(i - down, 0), 3) for i in range(4)]
        columns = [min(max(j - right, 0), 3) for j in range(4)]
        return image[:, rows][:, :, columns]

    possible = []
    for sign, (down, right) in itertools.product((1, -1), itertools.product((-1, 0, 1), repeat=2)):
        image = moved(sign * x[0], down, right)[None]
        pair = torch.cat([image, image + 1.0])  # the variance of a pair is not what is divided by here
        own = float((pair.flatten(1) - pair.flatten(1).mean(0)).pow(2).sum() / 2) ** 0.5
        number = distances(network, pair, torch.cat([y[:1], y[:1]]))[0] * own / spread
        possible.append((sign, down == right == 0, number))
    allowed = {sign: [v for s, still, v in possible if s == sign and not still] for sign in (1, -1)}
    seen = set()
    for seed in range(6):
        found = gapbench.measure("shift_margin", network, x, y, quantile=0.0, rounds=2, seed=seed)
        lowest = [min(pair) for pair in itertools.product(allowed[1], allowed[-1])]
        means = [0.5 * (a + b) for a, b in itertools.product(lowest, repeat=2)]
        assert min(abs(found.value - mean) for mean in means) < 1e-9
        seen.add(found.value)
    assert len(seen) > 1


@pytest.mark.parametrize("name", BESIDE)
def test_their_standard_error_is_that_of_other_draws(name):
    network, shape = NETWORKS["conv_bn"]
    x, y = data(shape, "cross_entropy", count=20)
    found = [gapbench.measure(name, network, x, y, seed=s, rounds=8) for s in range(30)]
    spread = float(np.std([f.value for f in found], ddof=1))
    told = math.sqrt(float(np.mean([f.standard_error**2 for f in found])))
    assert 0.6 < told / spread < 1.6


# ---- where nothing is defined ------------------------------------------------------------------------------------


def test_where_margins_are_not_defined():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    found = gapbench.measure("hidden_margin", network, x, y, layer=2)
    assert (found.status, found.reason) == ("not_applicable", "the network has 2 layers, and no layer 2")
    regression = data(shape, "mse")[1]
    for name in ALL:
        found = gapbench.measure(name, network, x, regression, loss="mse")
        assert found.status == "not_applicable"
        assert "classes" in found.reason
    assert "images" in gapbench.measure("shift_margin", network[1:], x.flatten(1), y).reason
    alone = torch.arange(3)
    assert "two examples" in gapbench.measure("mixup_margin", network, x[:3], alone).reason
    dead = copy.deepcopy(network)
    with torch.no_grad():
        dead[1].weight.zero_()
    assert "does not vary" in gapbench.measure("hidden_margin", dead, x, y).reason


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        x = x.flatten(1) * 1.0
        hidden = self.first(x)
        x += torch.tanh(hidden)  # what the layer took is another thing now
        return self.head(x)


def test_activations_that_are_changed_in_place_give_no_number():
    torch.manual_seed(0)
    x, y = data((4,), "cross_entropy")
    found = gapbench.measure("hidden_margin", InPlace().double(), x, y, layer=0)
    assert found.value is None
    assert "inplace" in found.reason or "in place" in found.reason


def test_options_that_cannot_be():
    network, shape = NETWORKS["conv_bn"]
    x, y = data(shape, "cross_entropy")
    cases = [(name, {"quantile": 1.5}) for name in ALL] + [(name, {"rounds": 1}) for name in BESIDE]
    for name, options in [*cases, ("shift_margin", {"pixels": 0}), ("hidden_margin", {"layer": 0.5})]:
        found = gapbench.measure(name, network, x, y, **options)
        assert found.status == "failed"
        assert next(iter(options)) in found.reason


def test_every_proxy_of_the_module_is_tested_here():
    registered = {
        name
        for name in gapbench.list_proxies()
        if "catalogue/hidden_margins.py" in proxy_entry(name).origin.replace("\\", "/")
    }
    assert registered == set(ALL)
