"""Flatness that rescaling does not change, against dense Hessians, closed forms and minimisation in float64."""

import copy
import itertools
import math

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import nn

import gapbench
from benchmark.small_networks import data, dense_hessian, networks
from gapbench.curvature.exact_diagonal import exact_diagonal
from gapbench.curvature.loss import Landscape
from gapbench.curvature.rescaled_minima import least_over_layer_scales, least_over_rows_and_columns
from gapbench.curvature.trace import adaptive_gauss_newton_trace, gauss_newton_trace
from gapbench.proxies.registry import proxy_entry
from gapbench_base.errors import NotDefined

NETWORKS = networks()
RELATIVE = [
    "relative_flatness_trace",
    "relative_flatness_max",
    "relative_flatness_trace_normalised",
    "relative_flatness_max_normalised",
]
ALL = [*RELATIVE, "normalised_sharpness", "minimum_sharpness", "hessian_top_eigenvalue_scale_invariant"]
CHAIN = ["normalised_sharpness", "minimum_sharpness", "hessian_top_eigenvalue_scale_invariant"]


def value(name, network, x, y, loss="cross_entropy", **options):
    found = gapbench.measure(name, network, x, y, loss=loss, **options)
    assert found.status == "ok", found
    return found.value


def refused(name, network, x, y, loss="cross_entropy"):
    found = gapbench.measure(name, network, x, y, loss=loss)
    assert (found.status, found.value) == ("not_applicable", None), found
    return found.reason


def bias_free(seed=0):
    torch.manual_seed(seed)
    layers = [nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 4, bias=False), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(4, 3, bias=False)).double()


def scaled_layers(network, factors):
    """W_l times factor l, b_l times the product up to l; the last product must be 1."""
    found, so_far = copy.deepcopy(network), 1.0
    layers = [m for m in found if isinstance(m, nn.Linear)]
    with torch.no_grad():
        for layer, factor in zip(layers, factors):
            so_far *= factor
            layer.weight.mul_(factor)
            if layer.bias is not None:
                layer.bias.mul_(so_far)
    return found


def blocks(network, x, y, loss):
    """Dense blocks {(s, s'): (m, m)} of the Hessian in the rows of the last layer's weight, and the weight."""
    named = list(network.named_parameters())
    names = [n for n, p in named if p.dim() == 2]
    sizes = [p.numel() for _, p in named]
    place = [n for n, _ in named].index(names[-1])
    start = sum(sizes[:place])
    weight = named[place][1].detach()
    hessian = dense_hessian(network, x, y, loss)[start : start + sizes[place], start : start + sizes[place]]
    count, m = weight.shape
    parts = hessian.reshape(count, m, count, m)
    return {(s, t): parts[s, :, t] for s, t in itertools.product(range(count), repeat=2)}, weight


# ---- relative flatness -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("name", ["relu", "gelu", "conv_bn", "depthwise_residual", "attention"])
def test_relative_flatness_against_dense_blocks(name, loss):
    network, shape = NETWORKS[name]
    x, y = data(shape, loss)
    parts, w = blocks(network, x, y, loss)
    trace = sum(float((w[s] @ w[t]) * h.trace()) for (s, t), h in parts.items())
    assert value("relative_flatness_trace", network, x, y, loss) == pytest.approx(trace, rel=1e-9)
    largest = sum(float(w[s] @ w[s] * torch.linalg.eigvalsh(parts[s, s])[-1]) for s in range(len(w)))
    assert value("relative_flatness_max", network, x, y, loss) == pytest.approx(largest, rel=1e-9)


def test_relative_flatness_of_one_logit():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).double()
    x, y = torch.randn(9, 4, dtype=torch.float64), torch.arange(9) % 2
    parts, w = blocks(network, x, y, "cross_entropy")
    expected = float(w[0] @ w[0] * parts[0, 0].trace())
    assert value("relative_flatness_trace", network, x, y) == pytest.approx(expected, rel=1e-9)
    expected = float(w[0] @ w[0] * torch.linalg.eigvalsh(parts[0, 0])[-1])
    assert value("relative_flatness_max", network, x, y) == pytest.approx(expected, rel=1e-9)


def test_normalised_features_are_those_of_a_network_that_has_them():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    spread = network[:3](x).std(dim=0, correction=0).detach()
    assert bool((spread > 0).all())
    other = copy.deepcopy(network)
    with torch.no_grad():
        other[1].weight.div_(spread[:, None])
        other[1].bias.div_(spread)
        other[3].weight.mul_(spread)
    for name in ("relative_flatness_trace", "relative_flatness_max"):
        expected = value(name, other, x, y)
        assert expected != pytest.approx(value(name, network, x, y), rel=1e-2)
        for same in (network, other):  # whatever the scales of the features were
            assert value(f"{name}_normalised", same, x, y) == pytest.approx(expected, rel=1e-9)


def test_features_that_do_not_vary_are_a_bias():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    constant, without = copy.deepcopy(network), copy.deepcopy(network)
    with torch.no_grad():
        constant[1].weight[0].zero_()
        constant[1].bias[0] = 0.7
        without[1].weight[0].zero_()
        without[1].bias[0] = -1.0
        without[3].bias.add_(0.7 * without[3].weight[:, 0])
        assert torch.allclose(constant(x), without(x))
    for name in ("relative_flatness_trace_normalised", "relative_flatness_max_normalised"):
        both = [value(name, n, x, y) for n in (constant, without)]
        assert both[0] == pytest.approx(both[1], rel=1e-9)


def test_heads_that_are_not_linear_are_refused():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    torch.manual_seed(0)
    tied = nn.Linear(4, 4)
    cases = [
        nn.Sequential(network, nn.Tanh()),
        nn.Sequential(nn.Conv2d(1, 3, 2), nn.Flatten()),
        nn.Sequential(nn.Flatten(), tied, nn.ReLU(), tied),
    ]
    for case in cases:
        for name in RELATIVE:
            assert "linear layer" in refused(name, case.double(), x, y)


# ---- the diagonal ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "gelu", "conv_bn", "prelu", "shared", "scaled"])
def test_the_diagonal_against_dense_hessians(name):
    network, shape = NETWORKS[name]
    for loss in ("cross_entropy", "mse"):
        x, y = data(shape, loss)
        expected = dense_hessian(network, x, y, loss).diagonal()
        found = exact_diagonal(Landscape(network, x, y, loss, 3))
        assert torch.allclose(found, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["conv_bn", "prelu", "shared", "attention"])
def test_squared_gradients_by_layers_are_those_at_once_and_one_by_one(name, monkeypatch):
    from gapbench.curvature import squared_gradients as module

    network, shape = NETWORKS[name]
    x, y = data(shape, "cross_entropy")
    landscape = Landscape(network, x, y, "cross_entropy", 3)
    found = module.gauss_newton_diagonal(landscape)
    # The traces are by layers of another form.
    assert float(found.sum()) == pytest.approx(gauss_newton_trace(Landscape(network, x, y, "cross_entropy")))
    expected = float(landscape.theta() ** 2 @ found)
    assert adaptive_gauss_newton_trace(landscape) == pytest.approx(expected, rel=1e-12)
    for missing in ("_by_layers", "_at_once"):
        monkeypatch.setattr(module, missing, lambda *_, m=missing: {} if m == "_by_layers" else None)
        slow = module.gauss_newton_diagonal(Landscape(network, x, y, "cross_entropy"))
        assert torch.allclose(found, slow, rtol=1e-10, atol=1e-14)


def test_a_diagonal_that_takes_too_many_products_is_refused(monkeypatch):
    from gapbench.curvature import exact_diagonal as module

    monkeypatch.setattr(module, "exact_is_cheap", lambda _: False)
    network, shape = NETWORKS["gelu"]
    x, y = data(shape, "cross_entropy")
    with pytest.raises(NotDefined, match="too many, and there is no shorter way because of gelu"):
        exact_diagonal(Landscape(network, x, y, "cross_entropy"))


# ---- Tsuzuku et al. --------------------------------------------------------------------------------------------


def minimised(h, squares):
    """The same by a general method."""
    rows, columns = h.shape

    def objective(z):
        e = z[:rows, None] + z[None, rows:]
        return float((np.exp(e) * h + np.exp(-e) * squares).sum())

    return scipy.optimize.minimize(objective, np.zeros(rows + columns), tol=1e-12).fun


def test_least_over_rows_and_columns_in_closed_form():
    generator = torch.Generator().manual_seed(0)
    h = torch.rand(3, 4, generator=generator, dtype=torch.float64)
    r, c = (
        torch.rand(3, 1, generator=generator, dtype=torch.float64),
        torch.rand(1, 4, generator=generator).double(),
    )
    one = torch.tensor([[0.7]], dtype=torch.float64)
    assert least_over_rows_and_columns(one, 9 * one) == pytest.approx(2 * math.sqrt(0.7 * 6.3), rel=1e-12)
    squares = h * (r * c)  # the ratio has rank one: every entry is as small as it can be
    expected = float(2 * (h * squares).sqrt().sum())
    assert least_over_rows_and_columns(h, squares) == pytest.approx(expected, rel=1e-10)
    other = torch.rand(3, 4, generator=generator, dtype=torch.float64)
    found = least_over_rows_and_columns(h, other)
    assert found == pytest.approx(minimised(h.numpy(), other.numpy()), rel=1e-6)
    assert found > float(2 * (h * other).sqrt().sum())
    dead = torch.cat([h, torch.zeros(1, 4, dtype=torch.float64)])  # a row without curvature
    with_dead = torch.cat([other, torch.ones(1, 4, dtype=torch.float64)])
    assert least_over_rows_and_columns(dead, with_dead) == pytest.approx(found, rel=1e-12)
    assert least_over_rows_and_columns(torch.zeros_like(h), other) == 0.0


@pytest.mark.parametrize("name", ["relu", "conv_bn"])
def test_normalised_sharpness_against_a_general_minimiser(name):
    network, shape = NETWORKS[name]
    x, y = data(shape, "cross_entropy")
    diagonal = dense_hessian(network, x, y, "cross_entropy").diagonal()
    expected, start = 0.0, 0
    for p in network.parameters():
        h = diagonal[start : start + p.numel()].reshape(p.shape)
        start += p.numel()
        if p.dim() > 1:
            h, squares = (t.reshape(*p.shape[:2], -1).sum(-1).numpy() for t in (h, p.detach() ** 2))
            alive = h.sum(1) > 0
            expected += minimised(h[alive], squares[alive])
    assert value("normalised_sharpness", network, x, y) == pytest.approx(expected, rel=1e-5)


def test_rescaling_units_does_not_change_normalised_sharpness():
    network, shape = NETWORKS["relu"]
    x, y = data(shape, "cross_entropy")
    scaled = copy.deepcopy(network)
    factors = torch.tensor([0.01, 0.3, 1.0, 7.0, 100.0], dtype=torch.float64)
    with torch.no_grad():
        scaled[1].weight.mul_(factors[:, None])
        scaled[1].bias.mul_(factors)
        scaled[3].weight.div_(factors)
    both = [value("normalised_sharpness", n, x, y) for n in (network, scaled)]
    assert both[0] == pytest.approx(both[1], rel=1e-8)


def test_where_normalised_sharpness_is_not_defined():
    network, shape = NETWORKS["gelu"]
    x, _ = data(shape, "cross_entropy")
    with torch.no_grad():
        wrong = network(x).argmin(1)
    assert "negative" in refused("normalised_sharpness", network, x, wrong)
    network, shape = NETWORKS["attention"]
    assert "in_proj_weight" in refused("normalised_sharpness", network, *data(shape, "cross_entropy"))
    network, shape = NETWORKS["depthwise_residual"]
    assert "groups" in refused("normalised_sharpness", network, *data(shape, "cross_entropy"))


# ---- minimum sharpness -----------------------------------------------------------------------------------------


def test_minimum_sharpness_without_biases_is_a_geometric_mean():
    network = bias_free()
    x, y = data((1, 2, 2), "cross_entropy")
    diagonal = dense_hessian(network, x, y, "cross_entropy").diagonal()
    traces = [float(part.sum()) for part in diagonal.split([20, 20, 12])]
    found = gapbench.measure("minimum_sharpness", network, x, y)
    assert found.value == pytest.approx(3 * math.prod(traces) ** (1 / 3), rel=1e-9)
    assert found.details["trace"] == pytest.approx(sum(traces), rel=1e-9)
    assert found.value < sum(traces)


def test_minimum_sharpness_with_biases_is_the_least_trace_of_rescaled_networks():
    torch.manual_seed(1)
    layers = [nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4), nn.LeakyReLU(0.2), nn.Linear(4, 3)]
    network = nn.Sequential(nn.Flatten(), *layers).double()
    x, y = data((1, 2, 2), "cross_entropy")

    def trace(u):
        factors = [math.exp(u[0]), math.exp(u[1]), math.exp(-u[0] - u[1])]
        other = scaled_layers(network, factors)
        assert torch.allclose(other(x), network(x), rtol=1e-8)
        return float(dense_hessian(other, x, y, "cross_entropy").trace())

    expected = scipy.optimize.minimize(trace, np.zeros(2), method="Nelder-Mead", options={"fatol": 1e-10}).fun
    assert value("minimum_sharpness", network, x, y) == pytest.approx(expected, rel=1e-7)


def test_least_over_layer_scales_with_extreme_traces():
    generator = np.random.default_rng(0)
    for depth in (1, 2, 5, 12):
        weights = np.exp(generator.normal(0, 6, depth)).tolist()
        biases = np.exp(generator.normal(0, 6, depth)).tolist()
        found = least_over_layer_scales(weights, [0.0] * depth)
        assert found == pytest.approx(depth * math.exp(np.log(weights).mean()), rel=1e-9)
        least = least_over_layer_scales(weights, biases)
        assert found < least <= sum(weights) + sum(biases) + 1e-9
        for _ in range(200):
            u = generator.normal(0, 1, depth)
            u -= u.mean()
            total = sum(w * math.exp(-2 * a) for w, a in zip(weights, u))
            total += sum(b * math.exp(-2 * c) for b, c in zip(biases, np.cumsum(u)))
            assert total >= least * (1 - 1e-9)
    with pytest.raises(NotDefined, match="no minimum"):
        least_over_layer_scales([1.0, 0.0], [0.0, 0.0])


@pytest.mark.parametrize("name", ["minimum_sharpness", "hessian_top_eigenvalue_scale_invariant", *RELATIVE])
def test_rescaling_layers_changes_nothing(name):
    network = bias_free(2)
    x, y = data((1, 2, 2), "cross_entropy")
    scaled = scaled_layers(network, [30.0, 0.01, 1 / 0.3])
    both = [value(name, n, x, y) for n in (network, scaled)]
    assert both[0] == pytest.approx(both[1], rel=1e-6)
    plain = [value("hessian_trace", n, x, y) for n in (network, scaled)]
    assert plain[0] != pytest.approx(plain[1], rel=0.5)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("gelu", "not positively homogeneous"),
        ("conv_bn", "chain"),
        ("depthwise_residual", "chain"),
        ("shared", "chain"),
        ("scaled", "chain"),
        ("prelu", "chain"),
        ("attention", "native_layer_norm"),
    ],
)
def test_where_minimum_sharpness_is_not_defined(name, word):
    network, shape = NETWORKS[name]
    assert word in refused("minimum_sharpness", network, *data(shape, "cross_entropy"))


# ---- Rangamani et al. ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relu", "gelu", "conv_bn", "attention"])
def test_the_scale_invariant_eigenvalue_is_that_of_the_dense_matrix(name):
    network, shape = NETWORKS[name]
    x, y = data(shape, "cross_entropy")
    hessian = dense_hessian(network, x, y, "cross_entropy")
    with torch.no_grad():
        root = torch.cat([p.norm().expand(p.numel()) for p in network.parameters()])
    expected = float(torch.linalg.eigvalsh(root[:, None] * hessian * root)[-1])
    found = value("hessian_top_eigenvalue_scale_invariant", network, x, y)
    assert found == pytest.approx(expected, rel=1e-8)


def test_every_proxy_of_the_module_is_tested_here():
    registered = {
        name
        for name in gapbench.list_proxies()
        if "catalogue/flatness.py" in proxy_entry(name).origin.replace("\\", "/")
    }
    assert registered == set(ALL)
