"""Rises of the loss in boxes, batches and under noise, against closed forms and brute force in float64."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn

import gapbench
from benchmark.small_networks import data, dense_hessian, networks
from gapbench.curvature.heads import per_example_loss
from gapbench.proxies.registry import proxy_entry

NETWORKS = networks()
MODULES = ["perturbed_sharpness", "loss_radius", "logit_normalised"]
NORMALISED = [
    "sharpness_logit_normalised",
    "sharpness_adaptive_logit_normalised",
    "sharpness_average_logit_normalised",
    "sharpness_average_adaptive_logit_normalised",
]
ALL = [
    "keskar_sharpness",
    "sharpness_linf",
    "sharpness_average_gaussian",
    "m_sharpness",
    "m_sharpness_adaptive",
    "sam_one_step",
    "radius_of_rise",
    "radius_of_average_rise",
    *NORMALISED,
]


def linear(count=5, inputs=4, seed=0):
    """One output w . x with the squared loss: L is quadratic in w, its Hessian X' X / n."""
    generator = torch.Generator().manual_seed(seed)
    network = nn.Linear(inputs, 1, bias=False).double()
    with torch.no_grad():
        network.weight.copy_(torch.randn(1, inputs, generator=generator, dtype=torch.float64))
    x = torch.randn(count, inputs, generator=generator, dtype=torch.float64)
    return network, x, torch.randn(count, 1, generator=generator, dtype=torch.float64)


def loss_at(network, x, y, theta, loss="mse"):
    moved = copy.deepcopy(network)
    with torch.no_grad():
        nn.utils.vector_to_parameters(theta, moved.parameters())
        return float(per_example_loss(moved(x), y, loss).mean())


def flat(network):
    return torch.cat([p.detach().reshape(-1) for p in network.parameters()])


def value(name, network, x, y, **options):
    found = gapbench.measure(name, network, x, y, **options)
    assert found.status == "ok", found
    return found.value


def residuals(network, x, y):
    return (network(x) - y).detach()[:, 0]


# ---- boxes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_boxes_of_a_convex_loss_against_all_their_corners(seed):
    network, x, y = linear(seed=seed)
    w, base = flat(network), loss_at(network, x, y, flat(network))
    signs = [torch.tensor(s, dtype=torch.float64) for s in itertools.product((-1.0, 1.0), repeat=4)]
    options = {"loss": "mse", "restarts": 4}
    corners = max(loss_at(network, x, y, w + 0.3 * s) for s in signs)
    assert value("sharpness_linf", network, x, y, radius=0.3, **options) == pytest.approx(corners - base)
    corners = max(loss_at(network, x, y, w + 0.2 * (w.abs() + 1) * s) for s in signs)
    expected = 100 * (corners - base) / (1 + base)
    assert value("keskar_sharpness", network, x, y, epsilon=0.2, **options) == pytest.approx(expected)


def test_keskar_of_one_example_is_in_percent():
    network, x, y = linear(count=1)
    r, w = abs(float(residuals(network, x, y)[0])), flat(network)
    reach = 1e-3 * float((x[0].abs() * (w.abs() + 1)).sum())
    expected = 100 * (0.5 * (r + reach) ** 2 - 0.5 * r**2) / (1 + 0.5 * r**2)
    assert value("keskar_sharpness", network, x, y, loss="mse") == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ["relu", "conv_bn", "attention"])
def test_maxima_are_not_negative_and_not_below_the_average(name):
    """Descent in place of ascent, or the radius in place of the rise, would be."""
    network, shape = NETWORKS[name]
    x, y = data(shape, "cross_entropy")
    assert value("keskar_sharpness", network, x, y, epsilon=1e-9) >= 0
    for radius in (0.01, 0.1):
        worst = value("sharpness_linf", network, x, y, radius=radius)
        assert worst >= value("sharpness_average_gaussian", network, x, y, sigma=radius / 3**0.5)
        batches = value("m_sharpness_adaptive", network, x, y, radius=radius, norm="linf", m=3)
        assert batches >= value("sharpness_average_adaptive", network, x, y, radius=radius, norm="linf")
        assert value("sharpness_linf", network, x, y, radius=2 * radius) > worst
        relative = value("sharpness_adaptive_logit_normalised", network, x, y, radius=radius, norm="linf")
        options = {"radius": radius, "norm": "linf"}
        assert relative >= value("sharpness_average_adaptive_logit_normalised", network, x, y, **options)


# ---- noise on every coordinate ---------------------------------------------------------------------------------


@pytest.mark.parametrize("inputs", [4, 40])
def test_noise_by_coordinates_rises_by_half_the_trace_whatever_the_dimension(inputs):
    network, x, y = linear(inputs=inputs)
    trace = float(x.pow(2).sum()) / len(x)
    found = gapbench.measure("sharpness_average_gaussian", network, x, y, loss="mse", sigma=0.3, samples=200)
    assert abs(found.value - 0.5 * 0.09 * trace) <= 4 * found.standard_error + 1e-10
    assert found.standard_error < 0.1 * found.value
    sphere = gapbench.measure("sharpness_average_full", network, x, y, loss="mse", radius=0.3, samples=200)
    assert abs(sphere.value - 0.5 * 0.09 * trace / inputs) <= 4 * sphere.standard_error + 1e-10


def test_sigma_of_the_average_is_no_variance():
    network, x, y = linear()
    values = [value("sharpness_average_gaussian", network, x, y, loss="mse", sigma=s) for s in (0.05, 0.1)]
    assert values[1] == pytest.approx(4 * values[0], rel=0.2)  # 16 for a deviation of sigma^2


# ---- batches and one step --------------------------------------------------------------------------------------


def test_batches_of_one_example_are_maximised_each_on_its_own():
    """max over |delta|_2 <= rho of (r + x . delta)^2 / 2 is (|r| + rho |x|)^2 / 2."""
    network, x, y = linear()
    r = residuals(network, x, y).abs()
    for norm, dual in (("l2", x.norm(dim=1)), ("linf", x.abs().sum(1))):
        expected = float((0.5 * (r + 0.2 * dual) ** 2 - 0.5 * r**2).mean())
        found = value("m_sharpness", network, x, y, loss="mse", radius=0.2, m=1, norm=norm)
        assert found == pytest.approx(expected, rel=1e-10)
    sizes = (x * flat(network)).norm(dim=1)
    expected = float((0.5 * (r + 0.2 * sizes) ** 2 - 0.5 * r**2).mean())
    found = value("m_sharpness_adaptive", network, x, y, loss="mse", radius=0.2, m=1)
    assert found == pytest.approx(expected, rel=1e-10)


def test_one_batch_is_the_worst_case_and_smaller_ones_give_more():
    network, shape = NETWORKS["gelu"]
    x, y = data(shape, "cross_entropy")
    whole = value("sharpness_full", network, x, y, radius=0.3, quotient_start=False)
    assert value("m_sharpness", network, x, y, radius=0.3, m=7) == pytest.approx(whole, rel=1e-12)
    halves = value("m_sharpness", network, x, y, radius=0.3, m=4)
    single = value("m_sharpness", network, x, y, radius=0.3, m=1)
    assert whole < halves < single
    parts = [value("m_sharpness", network, x[i : i + 4], y[i : i + 4], radius=0.3, m=9) for i in (0, 4)]
    assert halves == pytest.approx((4 * parts[0] + 3 * parts[1]) / 7, rel=1e-10)  # by size, not 1/2 each


def test_rescaling_units_changes_no_adaptive_value():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    scaled = copy.deepcopy(network)
    factors = torch.tensor([0.01, 0.3, 1.0, 7.0, 100.0], dtype=torch.float64)
    with torch.no_grad():
        scaled[1].weight.mul_(factors[:, None])
        scaled[1].bias.mul_(factors)
        scaled[3].weight.div_(factors)
    for name in ("m_sharpness_adaptive", "sharpness_adaptive_logit_normalised"):
        for norm in ("l2", "linf"):
            both = [value(name, n, x, y, norm=norm) for n in (network, scaled)]
            assert both[0] == pytest.approx(both[1], rel=1e-9)
    both = [value("m_sharpness", n, x, y) for n in (network, scaled)]
    assert both[0] != pytest.approx(both[1], rel=0.1)


def test_one_step_along_the_gradient():
    network, shape = NETWORKS["conv_bn"]
    x, y = data(shape, "cross_entropy")
    loss = nn.functional.cross_entropy(network(x), y)
    gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(network.parameters()))])
    theta, base = flat(network), float(loss.detach())
    expected = loss_at(network, x, y, theta + 0.2 * gradient / gradient.norm(), "cross_entropy") - base
    assert value("sam_one_step", network, x, y, radius=0.2) == pytest.approx(expected, rel=1e-10)
    worst = value("sharpness_full", network, x, y, radius=0.2, quotient_start=False)
    assert value("sam_one_step", network, x, y, radius=0.2) <= worst


# ---- radii -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rise", [0.1, 1.0])
def test_the_radius_of_one_example_in_closed_form(rise):
    network, x, y = linear(count=1)
    r, length = abs(float(residuals(network, x, y)[0])), float(x.norm())
    expected = (math.sqrt(r**2 + 2 * rise) - r) / length
    found = value("radius_of_rise", network, x, y, loss="mse", rise=rise)
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("rise", [0.1, 1.0])
def test_the_radius_of_the_average_in_closed_form(rise):
    network, x, y = linear(count=30)
    trace = float(x.pow(2).sum()) / len(x)
    found = gapbench.measure("radius_of_average_rise", network, x, y, loss="mse", rise=rise, samples=100)
    expected = math.sqrt(2 * rise * 4 / trace)
    assert abs(found.value - expected) < 4 * found.standard_error
    assert found.standard_error < 0.05 * found.value


def test_the_loss_has_risen_by_that_much_at_the_radius():
    network, shape = NETWORKS["conv_bn"]
    x, y = data(shape, "cross_entropy")
    radius = value("radius_of_rise", network, x, y, rise=0.5)
    at = value("sharpness_full", network, x, y, radius=radius, steps=10, quotient_start=False)
    assert at == pytest.approx(0.5, rel=2e-3)
    average = value("radius_of_average_rise", network, x, y, rise=0.5)
    assert average > radius
    found = gapbench.measure("sharpness_average_full", network, x, y, radius=average, samples=200)
    assert abs(found.value - 0.5) < 0.25


def test_a_loss_that_does_not_rise_that_far_has_no_radius():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    tamed = nn.Sequential(network, nn.Tanh())  # logits within 1
    for name in ("radius_of_rise", "radius_of_average_rise"):
        found = gapbench.measure(name, tamed, x, y, rise=5.0)
        assert found.status == "not_applicable"
        assert "does not reach 5" in found.reason


# ---- normalised logits -----------------------------------------------------------------------------------------


class Normalised(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        f = self.network(x)
        f = f - f.sum(1, keepdim=True) / f.shape[1]
        return f / f.pow(2).sum(1, keepdim=True).sqrt()


PAIRS = [
    ("sharpness_logit_normalised", "sharpness_full", {"radius": 0.1}, {"quotient_start": False}),
    ("sharpness_logit_normalised", "sharpness_linf", {"radius": 0.02}, {}),
    ("sharpness_average_logit_normalised", "sharpness_average_gaussian", {"sigma": 0.05}, {}),
    ("sharpness_average_adaptive_logit_normalised", "sharpness_average_adaptive", {"norm": "linf"}, {}),
]


@pytest.mark.parametrize(("name", "plain", "options", "more"), PAIRS)
def test_normalised_logits_are_those_of_a_network_that_normalises_them(name, plain, options, more):
    network, shape = NETWORKS["conv_bn"]
    x, y = data(shape, "cross_entropy")
    other = {"norm": "linf"} if plain == "sharpness_linf" else {}
    found = gapbench.measure(name, network, x, y, **options, **other)
    expected = gapbench.measure(plain, Normalised(network), x, y, **options, **more)
    if found.standard_error is None:
        assert found.value == pytest.approx(expected.value, rel=1e-10)
    else:
        assert abs(found.value - expected.value) < 4 * math.hypot(
            found.standard_error, expected.standard_error
        )


def test_averages_of_normalised_logits_take_no_hessian_product(monkeypatch):
    network, shape = NETWORKS["conv_bn"]
    x, y = data(shape, "cross_entropy")
    plain = gapbench.measure("sharpness_average_gaussian", network, x, y)
    assert plain.details["control_variate"]

    def never(*_):
        raise AssertionError("a Hessian product")

    monkeypatch.setattr("gapbench.curvature.loss.Landscape.hessian_product", never)
    for name in ("sharpness_average_logit_normalised", "sharpness_average_adaptive_logit_normalised"):
        found = gapbench.measure(name, network, x, y)
        assert (found.status, found.details["control_variate"]) == ("ok", False)


def test_the_best_relative_direction_of_normalised_logits_for_a_small_radius():
    """rho |theta * g|_2 to first order, g the gradient of the loss of normalised logits."""
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    normal = Normalised(network)
    loss = nn.functional.cross_entropy(normal(x), y)
    gradients = torch.autograd.grad(loss, list(normal.parameters()))
    scaled = torch.cat([(g * p).reshape(-1) for g, p in zip(gradients, normal.parameters())])
    found = value("sharpness_adaptive_logit_normalised", network, x, y, radius=1e-6)
    assert found == pytest.approx(1e-6 * float(scaled.norm()), rel=1e-4)


def test_the_scale_of_the_outputs_changes_nothing():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    louder = copy.deepcopy(network)
    with torch.no_grad():
        louder[3].weight.mul_(9.0)
        louder[3].bias.mul_(9.0)
    for name in ("sharpness_adaptive_logit_normalised", "sharpness_average_adaptive_logit_normalised"):
        both = [value(name, n, x, y) for n in (network, louder)]
        assert both[0] == pytest.approx(both[1], rel=1e-9)
    assert value("sharpness_adaptive", louder, x, y) > 3 * value("sharpness_adaptive", network, x, y)


@pytest.mark.parametrize("name", NORMALISED)
def test_where_normalised_logits_are_not_defined(name):
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    binary = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).double()
    zero = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).double()
    with torch.no_grad():
        for p in zero.parameters():
            p.zero_()
    cases = [
        (binary, y % 2, {}, "sign"),
        (zero, y, {}, "equal"),
        (network, data(shape, "mse")[1], {"loss": "mse"}, "cross"),
    ]
    for case, targets, options, word in cases:
        found = gapbench.measure(name, case, x, targets, **options)
        assert found.status == "not_applicable"
        assert word in found.reason


# ---- all -------------------------------------------------------------------------------------------------------


def test_second_order_of_small_noise_is_the_hessian():
    network, shape = NETWORKS["gelu"]
    x, y = data(shape, "cross_entropy")
    trace = float(dense_hessian(network, x, y, "cross_entropy").trace())
    found = gapbench.measure("sharpness_average_gaussian", network, x, y, sigma=1e-3, samples=100)
    assert abs(found.value - 0.5e-6 * trace) < 4 * found.standard_error + 1e-3 * abs(found.value)


def test_options_that_cannot_be():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    for name, options in (
        ("keskar_sharpness", {"epsilon": 0}),
        ("sharpness_linf", {"radius": -1.0}),
        ("sharpness_average_gaussian", {"sigma": True}),
        ("m_sharpness", {"m": 0}),
        ("m_sharpness", {"norm": "l1"}),
        ("radius_of_rise", {"rise": 0.0}),
        ("radius_of_average_rise", {"samples": 1}),
    ):
        found = gapbench.measure(name, network, x, y, **options)
        assert found.status == "failed"
        assert next(iter(options)) in found.reason


def test_every_proxy_of_these_modules_is_tested_here():
    registered = {
        name
        for name in gapbench.list_proxies()
        if any(f"catalogue/{m}.py" in proxy_entry(name).origin.replace("\\", "/") for m in MODULES)
    }
    assert registered == set(ALL)
