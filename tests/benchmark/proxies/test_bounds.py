"""Bounds with their constants against dense matrices in float64, and against what they bound."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn

import gapbench
from benchmark.small_networks import Residual, data, networks
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.registry import proxy_entry

NETWORKS = networks()
ALL = [
    "bartlett_2017_bound",
    "neyshabur_2015_bound",
    "golowich_2018_bound",
    "neyshabur_2018_bound",
    "graf_2022_bound_norms",
    "graf_2022_bound_parameters",
]
SHAPE = (2, 6, 6)


def convolutional(seed=0):
    torch.manual_seed(seed)
    layers = [nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False), nn.ReLU()]
    layers += [nn.Conv2d(4, 5, 2, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3, bias=False)]
    return nn.Sequential(*layers).double()


def fitted(network, shape=SHAPE, count=25):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(count, *shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        return x, network(x).argmax(1)


def matrix_of(layer, shape):
    count = math.prod(shape)
    with torch.no_grad():
        return layer(torch.eye(count, dtype=torch.float64).reshape(count, *shape)).flatten(1).T


def parts_of(network):
    """[(full matrix, kernel)] of `convolutional`."""
    shapes = [(0, (2, 6, 6)), (2, (4, 3, 3)), (5, (20,))]
    return [(matrix_of(network[i], shape), network[i].weight.detach()) for i, shape in shapes]


def spectral(matrix):
    return float(torch.linalg.matrix_norm(matrix, 2))


def value(name, network, x, y, **options):
    found = gapbench.measure(name, network, x, y, **options)
    assert found.status == "ok", found
    return found


def measured(network, x, y):
    logits = network(x).detach()
    two = logits.topk(2).values
    margins = two[:, 0] - two[:, 1]
    gamma = float(torch.quantile(margins, 0.1))
    return gamma, float((1 - margins / gamma).clamp(0, 1).mean()), float((margins <= gamma).double().mean())


@pytest.mark.parametrize("reference", ["zero", "initial"])
def test_bounds_against_dense_matrices(reference):
    network, initial = convolutional(0), convolutional(1)
    x, y = fitted(network)
    gamma, ramp, below = measured(network, x, y)
    n, size, delta = len(x), float(x.norm()), 0.05
    parts, starts = parts_of(network), parts_of(initial)
    moved = [
        (m - m0, k - k0) if reference == "initial" else (m, k) for (m, k), (m0, k0) in zip(parts, starts)
    ]
    sigma, fro = [spectral(m) for m, _ in parts], [float(m.norm()) for m, _ in parts]
    lipschitz, cost = math.prod(sigma), 3 * math.sqrt(math.log(2 / delta) / (2 * n))

    # Bartlett, Foster and Telgarsky
    rows = [float(m.norm(dim=1).sum()) for m, _ in moved]
    r_a = lipschitz * sum((b / s) ** (2 / 3) for b, s in zip(rows, sigma)) ** 1.5
    capacity = 4 / n**1.5 + 36 * size * math.log(n) * math.sqrt(math.log(2 * 72**2)) * r_a / (gamma * n)
    expected = {"bartlett_2017_bound": ramp + 2 * capacity + cost}

    # Graf et al.: norms over input channels at every output channel and tap
    taps = [
        sum(float(v.norm()) for v in k.flatten(2).transpose(1, 2).reshape(-1, k.shape[1]))
        if k.dim() > 2
        else float(k.norm(dim=1).sum())
        for _, k in moved
    ]
    c = [4 / gamma * size / math.sqrt(n) * lipschitz * b / s for b, s in zip(taps, sigma)]
    harmonic = sum(1 / m for m in range(1, n))
    counts = [k.numel() for _, k in parts]
    norms = sum(math.ceil(v ** (2 / 3)) for v in c) ** 1.5
    capacity = 4 / n + 12 * harmonic / math.sqrt(n) * math.sqrt(math.log(2 * max(counts))) * norms
    expected["graf_2022_bound_norms"] = ramp + 2 * capacity + cost
    inside = sum(2 * w * math.log(1 + math.ceil(9 * v**2)) + 2.7 for w, v in zip(counts, c))
    expected["graf_2022_bound_parameters"] = ramp + 2 * 12 / math.sqrt(n) * math.sqrt(inside) + cost
    for name, number in expected.items():
        found = value(name, network, x, y, initial=initial, reference=reference)
        assert found.value == pytest.approx(number, rel=1e-7)
        assert found.details["vacuous"] is True
        assert found.details["is_bound"] is True

    if reference == "zero":
        product = math.prod(fro) * size / n * 2 * 3 / gamma
        largest = float(x.flatten(1).norm(dim=1).max())
        kl = 42**2 * math.e**2 / 2 * (largest * 3 / gamma) ** 2 * 72 * math.log(4 * 3 * 72)
        kl *= lipschitz**2 * sum((f / s) ** 2 for f, s in zip(fro, sigma))
        confidence = math.log(6 * 3 * n ** (1 + 1 / 6) / delta)
        expected = {
            "neyshabur_2015_bound": ramp + 2 * 4 * product + cost,
            "golowich_2018_bound": ramp + 2 * (math.sqrt(6 * math.log(2)) + 1) * product + cost,
            "neyshabur_2018_bound": below + 4 * math.sqrt((kl + confidence) / (n - 1)),
        }
        for name, number in expected.items():
            found = value(name, network, x, y)
            assert found.value == pytest.approx(number, rel=1e-7)
            assert found.details["is_bound"] is True


def test_the_leading_term_is_that_of_the_spectral_margin_bound():
    network = convolutional()
    x, y = fitted(network)
    leading = value("spectral_margin_bound", network, x, y).value / math.log(72)
    found = value("bartlett_2017_bound", network, x, y).details["complexity"]
    n = len(x)
    factor = 2 * 36 * math.log(n) * math.sqrt(math.log(2 * 72**2))
    assert found - 8 / n**1.5 == pytest.approx(factor * leading, rel=1e-9)


@pytest.mark.parametrize("name", ["neyshabur_2015_bound", "golowich_2018_bound"])
def test_what_is_bounded_is_smaller_for_one_linear_layer(name):
    """E sup over |W|_F <= M of the mean of eps_ik f_k(x_i) over all signs is M E |sum eps_i x_i'|_F / n."""
    torch.manual_seed(0)
    network = nn.Linear(3, 2, bias=False).double()
    x = torch.randn(5, 3, dtype=torch.float64)
    y = network(x).argmax(1)
    found = value(name, network, x, y, gamma=1.0)
    norms = []
    for signs in itertools.product((-1.0, 1.0), repeat=10):
        eps = torch.tensor(signs, dtype=torch.float64).reshape(5, 2)
        norms.append(float((eps.T @ x).norm()))
    exact = (
        2 * float(network.weight.norm()) * sum(norms) / len(norms) / 5
    )  # sqrt(2) twice: contraction and ramp
    assert exact * 2 <= found.details["complexity"]
    scale = 2 * 2 * float(network.weight.norm()) * float(x.norm()) / 5
    factor = 1.0 if name.startswith("ney") else math.sqrt(2 * math.log(2)) + 1
    assert found.details["complexity"] == pytest.approx(2 * factor * scale, rel=1e-9)


def test_a_simple_class_has_a_bound_that_says_something():
    """50,000 examples far from the boundary of a small linear network."""
    network = nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        network.weight.copy_(torch.tensor([[0.5, 0.0], [-0.5, 0.0]]))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50_000, 2, generator=generator, dtype=torch.float64)
    x[:, 0] = x[:, 0].sign() * 3
    y = (x[:, 0] < 0).long()
    context = make_context(network, x[:20], y[:20], all_inputs=x, all_targets=y)
    entry = proxy_entry("golowich_2018_bound")
    found = measure_in(context, entry, dict(entry.options), 0)
    assert 0 < found.value < 0.2
    assert found.details["vacuous"] is False
    assert found.details["is_bound"] is True


@pytest.mark.parametrize("name", ALL)
def test_moving_a_scale_between_layers_and_scaling_the_outputs_changes_nothing(name):
    network = convolutional()
    x, y = fitted(network)
    moved, louder = copy.deepcopy(network), copy.deepcopy(network)
    with torch.no_grad():
        moved[0].weight.mul_(7.0)
        moved[2].weight.div_(70.0)
        moved[5].weight.mul_(10.0)
        louder[5].weight.mul_(9.0)
    found = [value(name, n, x, y).value for n in (network, moved, louder)]
    assert found[1] == pytest.approx(found[0], rel=1e-6)
    assert found[2] == pytest.approx(found[0], rel=1e-6)


def test_a_bound_that_knows_convolutions_does_not_grow_with_the_image():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, padding_mode="circular", bias=False),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(3, 2, bias=False),
    ).double()
    small = torch.randn(20, 1, 4, 4, dtype=torch.float64)
    large = small.repeat(1, 1, 2, 2) / 2  # the same norm
    y = network(small).argmax(1)
    for name, growth in (("graf_2022_bound_norms", 1.0), ("bartlett_2017_bound", 1.9)):
        both = [value(name, network, x, y, gamma=0.1).details["complexity"] for x in (small, large)]
        if growth == 1.0:
            assert both[1] <= 1.3 * both[0]
        else:
            assert both[1] > growth * both[0]


def test_theorems_that_do_not_cover_the_network_say_so():
    network, shape = NETWORKS["conv_bn"]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, *shape, generator=generator, dtype=torch.float64)
    y = network(x).argmax(1)
    for name in ALL:
        found = value(name, network, x, y)
        assert found.details["is_bound"] is False
        assert found.details["why_not_bound"]
    reasons = value("golowich_2018_bound", network, x, y).details["why_not_bound"]
    assert any("max_pool" in reason for reason in reasons)
    inner = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU())
    residual = nn.Sequential(Residual(inner), nn.Linear(4, 3, bias=False)).double()
    x = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    found = value("golowich_2018_bound", residual, x, residual(x).argmax(1))
    assert any("branches" in reason for reason in found.details["why_not_bound"])


@pytest.mark.parametrize("name", ALL)
def test_where_bounds_are_not_defined(name):
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    with torch.no_grad():
        wrong = network(x).argmin(1)
    found = gapbench.measure(name, network, x, wrong)  # negative margins are not made positive
    assert found.status == "not_applicable"
    assert "not positive" in found.reason
    attention, shape = NETWORKS["attention"]
    assert gapbench.measure(name, attention, x, y, gamma=1.0).status == "not_applicable"
    for options, word in (({"gamma": -1.0}, "gamma"), ({"delta": 0.0}, "delta")):
        found = gapbench.measure(name, network, x, y, **options)
        assert found.status == "failed"
        assert word in found.reason


def test_bounds_beyond_all_numbers_are_refused():
    layers = [nn.Linear(4, 4, bias=False) for _ in range(200)]
    network = nn.Sequential(*layers, nn.Linear(4, 3, bias=False)).double()
    with torch.no_grad():
        for layer in layers:
            layer.weight.copy_(torch.diag(torch.tensor([1.0, 90.0, 90.0, 90.0])))
        network[-1].weight.copy_(torch.eye(3, 4))
        network[-1].weight[:, 1:] = 0.0
    x = torch.zeros(6, 4, dtype=torch.float64)
    x[:, 0] = torch.linspace(1.0, 2.0, 6)
    found = gapbench.measure("golowich_2018_bound", network, x, torch.zeros(6, dtype=torch.int64))
    assert found.status == "not_applicable"
    assert "beyond the range" in found.reason


def test_every_bound_is_tested_here():
    registered = {
        name
        for name in gapbench.list_proxies()
        if "catalogue/bounds.py" in proxy_entry(name).origin.replace("\\", "/")
    }
    assert registered == set(ALL)
