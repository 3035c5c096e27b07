"""Schatten norms and tail exponents against closed forms, dense matrices and known distributions in float64."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

import gapbench
from benchmark.small_networks import data, networks
from gapbench.computation.spectra import hill_exponent, power_law, weight_matrices
from gapbench.proxies.registry import proxy_entry

NETWORKS = networks()
EXPONENTS = ["tail_exponent", "tail_exponent_weighted", "tail_exponent_hill"]
ALL = ["nuclear_norm", "log_prod_of_schatten", "log_prod_of_schatten_over_margin", *EXPONENTS]


def value(name, network, x, y, **options):
    found = gapbench.measure(name, network, x, y, **options)
    assert found.status == "ok", found
    return found.value


def with_singular_values(*spectra):
    """Linear layers of those singular values, between random orthogonal matrices."""
    generator = torch.Generator().manual_seed(0)
    layers = []
    for values in spectra:
        n = len(values)
        u, v = (
            torch.linalg.qr(torch.randn(n, n, generator=generator, dtype=torch.float64))[0] for _ in range(2)
        )
        layer = nn.Linear(n, n, bias=False).double()
        with torch.no_grad():
            layer.weight.copy_(u @ torch.diag(torch.as_tensor(values, dtype=torch.float64)) @ v)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def fitted(network, width):
    x = torch.randn(9, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x, network(x).argmax(1)


# ---- Schatten norms --------------------------------------------------------------------------------------------


def test_schatten_norms_of_known_spectra():
    network = with_singular_values([3.0, 2.0, 1.0], [5.0, 0.5, 0.0])
    x, y = fitted(network, 3)
    assert value("nuclear_norm", network, x, y) == pytest.approx(11.5, rel=1e-12)
    expected = 2 * math.log(6.0) + 2 * math.log(5.5)
    assert value("log_prod_of_schatten", network, x, y) == pytest.approx(expected, rel=1e-12)
    cubes = (27 + 8 + 1) ** (1 / 3), (125 + 0.125) ** (1 / 3)
    expected = 2 * sum(map(math.log, cubes))
    assert value("log_prod_of_schatten", network, x, y, p=3.0) == pytest.approx(expected, rel=1e-12)
    linear = with_singular_values([3.0, 2.0, 1.0])
    x, y = fitted(linear, 3)
    two = linear(x).detach().topk(2).values
    gamma = float(torch.quantile(two[:, 0] - two[:, 1], 0.1))
    expected = 2 * math.log(6.0) - 2 * math.log(gamma)
    assert value("log_prod_of_schatten_over_margin", linear, x, y) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ["relu", "conv_bn", "depthwise_residual"])
def test_schatten_norms_of_orders_2_and_infinity_are_the_others(name):
    network, shape = NETWORKS[name]
    x, y = data(shape, "cross_entropy")
    for p, other in ((2.0, "log_prod_of_fro"), (math.inf, "log_prod_of_spec_reshaped")):
        expected = value(other, network, x, y)
        assert value("log_prod_of_schatten", network, x, y, p=p) == pytest.approx(expected, rel=1e-10)
    norms = [value("log_prod_of_schatten", network, x, y, p=p) for p in (1.0, 1.5, 2.0, 4.0, math.inf)]
    assert norms == sorted(norms, reverse=True)


def test_where_schatten_norms_are_not_defined():
    network, shape = NETWORKS["attention"]
    x, y = data(shape, "cross_entropy")
    for name in ALL[:3]:
        assert gapbench.measure(name, network, x, y).status == "not_applicable"
    network, shape = NETWORKS["relu"]
    zero = copy.deepcopy(network)
    with torch.no_grad():
        zero[1].weight.zero_()
        wrong = network(x).argmin(1)
    found = gapbench.measure("log_prod_of_schatten", zero, x, y)
    assert found.status == "not_applicable"
    assert "zero" in found.reason
    found = gapbench.measure("log_prod_of_schatten_over_margin", network, x, wrong)
    assert "not positive" in found.reason


# ---- exponents -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [2.0, 3.5])
def test_exponents_of_a_pareto_distribution_are_found(alpha):
    """Standard error of the maximum likelihood estimate: (alpha - 1) / sqrt(n)."""
    generator = np.random.default_rng(0)
    values = torch.tensor(0.3 * (1 - generator.random(4000)) ** (-1 / (alpha - 1)))
    law = power_law(values[:1500], 50)
    assert law.alpha == pytest.approx(alpha, abs=5 * (alpha - 1) / math.sqrt(law.count))
    assert law.distance < 0.05
    found = hill_exponent(values, 0.25)
    assert found == pytest.approx(alpha, abs=5 * (alpha - 1) / math.sqrt(1000))


def test_a_tail_is_told_from_the_bulk():
    generator = np.random.default_rng(1)
    bulk = generator.uniform(0.0, 1.0, 600)
    tail = (1 - generator.random(400)) ** (-1 / 1.5)  # x^-2.5 from 1 on
    law = power_law(torch.tensor(np.concatenate([bulk, tail])), 20)
    assert law.alpha == pytest.approx(2.5, abs=0.35)
    assert 0.7 < law.least < 2.0


def test_exponents_in_closed_form():
    values = torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=torch.float64)
    assert hill_exponent(values, 0.5) == pytest.approx(1 + 2 / (math.log(4) + math.log(2)), rel=1e-14)
    assert hill_exponent(values, 0.01) == pytest.approx(1 + 1 / math.log(2), rel=1e-14)
    assert hill_exponent(torch.ones(4), 0.5) == math.inf
    law = power_law(values, 4)
    assert (law.alpha, law.least, law.count) == (pytest.approx(1 + 4 / (6 * math.log(2)), rel=1e-14), 1.0, 4)
    f = 1 - values ** (1 - law.alpha)
    distance = max(max(float(f[i]) - i / 4, (i + 1) / 4 - float(f[i])) for i in range(4))
    assert law.distance == pytest.approx(distance, rel=1e-12)
    assert power_law(torch.ones(9), 2) is None


def test_the_least_value_is_that_of_the_least_distance():
    generator = np.random.default_rng(2)
    x = np.sort(generator.lognormal(0, 1, 30))
    best = (math.inf, 0.0, 0.0)
    for i in range(27):
        tail = x[i:]
        alpha = 1 + len(tail) / np.log(tail / tail[0]).sum()
        model = 1 - (tail / tail[0]) ** (1 - alpha)
        steps = np.arange(len(tail)) / len(tail)
        distance = max((model - steps).max(), (steps + 1 / len(tail) - model).max())
        best = min(best, (distance, alpha, tail[0]))
    law = power_law(torch.tensor(x), 4)
    assert (law.distance, law.alpha, law.least) == pytest.approx(best, rel=1e-12)


def test_layers_are_averaged_and_their_squares_fitted():
    first, second = np.arange(1.0, 11.0), np.exp(np.linspace(0, 2, 12))
    network = nn.Sequential(
        with_singular_values(first), nn.Linear(10, 12, bias=False), with_singular_values(second)
    )
    network = network.double()
    x, y = fitted(network, 10)
    middle = torch.linalg.svdvals(network[1].weight.detach())
    laws = [power_law(torch.as_tensor(v) ** 2, 4) for v in (first, middle, second)]
    expected = sum(law.alpha for law in laws) / 3
    assert value("tail_exponent", network, x, y) == pytest.approx(expected, rel=1e-8)
    largest = [float(torch.as_tensor(v).max()) ** 2 for v in (first, middle, second)]
    expected = sum(law.alpha * math.log10(top) for law, top in zip(laws, largest)) / 3
    assert value("tail_exponent_weighted", network, x, y) == pytest.approx(expected, rel=1e-8)
    expected = sum(hill_exponent(torch.as_tensor(v) ** 2, 0.5) for v in (first, middle, second)) / 3
    assert value("tail_exponent_hill", network, x, y, share=0.5) == pytest.approx(expected, rel=1e-8)


def test_the_scale_of_a_layer_changes_no_exponent():
    network = with_singular_values(np.arange(1.0, 11.0), np.exp(np.linspace(0, 2, 10)))
    x, y = fitted(network, 10)
    scaled = copy.deepcopy(network)
    with torch.no_grad():
        scaled[0].weight.mul_(100.0)
    for name in ("tail_exponent", "tail_exponent_hill"):
        both = [value(name, n, x, y) for n in (network, scaled)]
        assert both[0] == pytest.approx(both[1], rel=1e-8)


def test_weights_are_matrices_once_and_directions_of_zero_are_no_eigenvalues():
    network, _ = NETWORKS["shared"]
    assert list(weight_matrices(network)) == ["layer.weight", "head.weight"]
    network, _ = NETWORKS["conv_bn"]
    shapes = {name: tuple(m.shape) for name, m in weight_matrices(network).items()}
    assert shapes == {"0.weight": (3, 9), "4.weight": (4, 12), "7.weight": (3, 4)}
    flat = with_singular_values([*np.arange(1.0, 11.0), 0.0, 0.0])
    x, y = fitted(flat, 12)
    law = power_law(torch.arange(1.0, 11.0, dtype=torch.float64) ** 2, 4)
    assert value("tail_exponent", flat, x, y) == pytest.approx(law.alpha, rel=1e-8)


@pytest.mark.parametrize("name", EXPONENTS)
def test_layers_that_are_too_small_have_no_exponent(name):
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    found = gapbench.measure(name, network, x, y)
    assert found.status == "not_applicable"
    assert "8 eigenvalues" in found.reason
    equal = with_singular_values([2.0] * 10)
    x, y = fitted(equal, 10)
    assert "equal" in gapbench.measure(name, equal, x, y).reason


def test_every_proxy_of_the_module_is_tested_here():
    registered = {
        name
        for name in gapbench.list_proxies()
        if "catalogue/layer_spectra.py" in proxy_entry(name).origin.replace("\\", "/")
    }
    assert registered == set(ALL)
