"""Norms of layers against dense matrices, in float64; and what other implementations got wrong."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn

import gapbench
from benchmark.small_networks import Residual

SHAPE = (2, 6, 7)
OPERATOR = [
    "log_prod_of_spec",
    "log_prod_of_spec_over_margin",
    "log_spec_orig_main",
    "log_spec_init_main",
    "fro_over_spec",
    "log_sum_of_spec_over_margin",
    "log_sum_of_spec",
    "dist_spec_init",
]
RESHAPED = [f"{name}_reshaped" for name in OPERATOR]
FROBENIUS = [
    "log_prod_of_fro",
    "log_prod_of_fro_over_margin",
    "log_sum_of_fro",
    "log_sum_of_fro_over_margin",
    "fro_dist",
    "param_norm_folded",
]
OTHERS = ["stable_rank", "log_lipschitz", "log_lipschitz_over_margin"]
ALL = [*OPERATOR, *RESHAPED, *FROBENIUS, *OTHERS]
WITH_MARGIN = [name for name in ALL if "margin" in name or "_main" in name]


def generic(network):
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.running_mean.normal_(std=0.3)
                module.running_var.uniform_(0.5, 2.0)
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias, std=0.3)
    return network.double().eval()


def convolutional(seed=0):
    """Layers of every kind: strided and padded, grouped without bias, dense; batch normalisation after two."""
    torch.manual_seed(seed)
    return generic(
        nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 6, 3, padding=1, groups=2, bias=False),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(72, 3),
        )
    )


def fitted(network, shape=SHAPE, count=11):
    """Inputs, and the network's own predictions as targets: all margins are positive."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(count, *shape, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        return x, network(x).argmax(1)


def values(network, x, y, names=ALL, initial=None):
    found = {name: gapbench.measure(name, network, x, y, initial=initial) for name in names}
    assert {f.status for f in found.values()} == {"ok"}, found
    return {name: f.value for name, f in found.items()}


def matrix_of(network, shape):
    """The dense matrix of an affine network, column by column."""
    count = math.prod(shape)
    with torch.no_grad():
        zero = network(torch.zeros(1, *shape, dtype=torch.float64))
        images = network(torch.eye(count, dtype=torch.float64).reshape(count, *shape)) - zero
    return images.flatten(1).T


def spectral(matrix):
    return float(torch.linalg.matrix_norm(matrix, 2))


def folded_kernel(layer, norm):
    if norm is None:
        return layer.weight.detach()
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    return (layer.weight * scale.reshape(-1, 1, 1, 1)).detach()


def dense_parts(network):
    """[(full matrix, folded kernel)] of `convolutional`."""
    stages = [(network[:2], (2, 6, 7)), (network[3:5], (4, 3, 4)), (network[7], (72,))]
    kernels = [
        folded_kernel(network[0], network[1]),
        folded_kernel(network[3], network[4]),
        folded_kernel(network[7], None),
    ]
    return [(matrix_of(part, shape), kernel) for (part, shape), kernel in zip(stages, kernels)]


def with_statistics_of(initial, x):
    """A copy whose batch normalisations have the statistics of `x`, each after those before it in training mode."""
    found = copy.deepcopy(initial)
    with torch.no_grad():
        for module in found:
            if isinstance(module, nn.BatchNorm2d):
                mean, axes = x.mean((0, 2, 3)), (0, 2, 3)
                module.running_mean.copy_(mean)
                module.running_var.copy_(x.var(axes, unbiased=True))
                spread = (x.var(axes, unbiased=False) + module.eps).sqrt()
                columns = [t.reshape(1, -1, 1, 1) for t in (mean, spread, module.weight, module.bias)]
                x = (x - columns[0]) / columns[1] * columns[2] + columns[3]
            else:
                x = module(x)
    return found


def test_all_of_jiang_et_al_against_dense_matrices():
    network, initial = convolutional(0), convolutional(1)
    x, y = fitted(network)
    parts, starts = dense_parts(network), dense_parts(with_statistics_of(initial, x))
    found = values(network, x, y, initial=initial)
    logits = network(x).detach()
    two = logits.topk(2).values
    gamma = float(torch.quantile(two[:, 0] - two[:, 1], 0.1))
    fro = [float(kernel.norm()) ** 2 for _, kernel in parts]
    moved = [float((k - k0).norm()) ** 2 for (_, k), (_, k0) in zip(parts, starts)]
    rows = [k.reshape(len(k), -1) for _, k in parts]
    rows_moved = [k - k0.reshape(len(k), -1) for k, (_, k0) in zip(rows, starts)]
    for suffix, matrices, differences in (
        ("", [m for m, _ in parts], [m - m0 for (m, _), (m0, _) in zip(parts, starts)]),
        ("_reshaped", rows, rows_moved),
    ):
        spec = [spectral(m) ** 2 for m in matrices]
        product = math.prod(spec)
        expected = {
            "log_prod_of_spec": math.log(product),
            "log_prod_of_spec_over_margin": math.log(product / gamma**2),
            "log_spec_orig_main": math.log(product / gamma**2 * sum(f / s for f, s in zip(fro, spec))),
            "log_spec_init_main": math.log(product / gamma**2 * sum(f / s for f, s in zip(moved, spec))),
            "fro_over_spec": sum(f / s for f, s in zip(fro, spec)),
            "log_sum_of_spec_over_margin": math.log(3 * (product / gamma**2) ** (1 / 3)),
            "log_sum_of_spec": math.log(3 * product ** (1 / 3)),
            "dist_spec_init": sum(spectral(m) ** 2 for m in differences),
        }
        for name, value in expected.items():
            assert found[name + suffix] == pytest.approx(value, rel=1e-8), name + suffix
    product = math.prod(fro)
    expected = {
        "log_prod_of_fro": math.log(product),
        "log_prod_of_fro_over_margin": math.log(product / gamma**2),
        "log_sum_of_fro": math.log(3 * product ** (1 / 3)),
        "log_sum_of_fro_over_margin": math.log(3 * (product / gamma**2) ** (1 / 3)),
        "fro_dist": sum(moved),
        "param_norm_folded": sum(fro),
        "stable_rank": sum(float(m.norm()) ** 2 / spectral(m) ** 2 for m, _ in parts) / 3,
        "log_lipschitz": sum(math.log(spectral(m)) for m, _ in parts),
        "log_lipschitz_over_margin": math.log(math.prod(spectral(m) for m, _ in parts) / gamma),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-8), name


@pytest.mark.parametrize("name", [*OPERATOR, "stable_rank"])
def test_reshaped_and_full_maps_are_one_for_dense_layers(name):
    networks = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        networks.append(nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3)).double())
    x, y = fitted(networks[0], (5,))
    first = gapbench.measure(name, networks[0], x, y, initial=networks[1]).value
    other = "fro_over_spec_reshaped" if name == "stable_rank" else f"{name}_reshaped"
    second = gapbench.measure(other, networks[0], x, y, initial=networks[1]).value
    assert first == pytest.approx(second / 2 if name == "stable_rank" else second, rel=1e-12)


@pytest.mark.parametrize("pad", ["zeros", "circular", "reflect", "replicate"])
def test_frobenius_norms_and_distances_of_full_maps_with_every_padding(pad):
    first, second = (nn.Conv2d(2, 3, 3, padding=1, padding_mode=pad).double() for _ in range(2))
    networks = [nn.Sequential(c, nn.Flatten()) for c in (first, second)]
    x, y = fitted(networks[0], (2, 4, 5))
    matrix, other = (matrix_of(c, (2, 4, 5)) for c in (first, second))
    found = values(networks[0], x, y, ["stable_rank", "dist_spec_init", "fro_dist"], networks[1])
    assert found["stable_rank"] == pytest.approx(float(matrix.norm()) ** 2 / spectral(matrix) ** 2, rel=1e-8)
    assert found["dist_spec_init"] == pytest.approx(spectral(matrix - other) ** 2, rel=1e-8)
    assert found["fro_dist"] == pytest.approx(
        float((first.weight - second.weight).detach().norm()) ** 2, rel=1e-12
    )


@pytest.mark.parametrize("transposed", [False, True])
def test_stable_ranks_of_transposed_and_positionwise_layers(transposed):
    torch.manual_seed(0)
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1) if transposed else nn.Linear(5, 4)
    network = nn.Sequential(layer, nn.Flatten()).double()
    shape = (2, 4, 5)
    x, y = fitted(network, shape)
    matrix = matrix_of(network, shape)
    expected = float(matrix.norm()) ** 2 / spectral(matrix) ** 2
    assert values(network, x, y, ["stable_rank"])["stable_rank"] == pytest.approx(expected, rel=1e-8)


# ---- what other implementations got wrong ----------------------------------------------------------------------


@pytest.mark.parametrize("name", WITH_MARGIN)
def test_margins_that_are_not_positive_are_refused_not_made_positive(name):
    network = convolutional()
    x, y = fitted(network)
    found = gapbench.measure(name, network, x, (y + 1) % 3, initial=convolutional(1))
    assert (found.status, found.value) == ("not_applicable", None)
    assert "10th percentile" in found.reason
    assert "not positive" in found.reason


def test_spectral_norms_are_of_the_strided_padded_layer_not_of_a_periodic_grid():
    network = nn.Sequential(nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.Flatten()).double()
    x, y = fitted(network, (1, 5, 5))
    found = values(network, x, y, ["log_prod_of_spec", "log_prod_of_spec_reshaped"])
    kernel = network[0].weight.detach()
    transforms = torch.fft.fft2(kernel, (32, 32)).permute(2, 3, 0, 1)
    periodic = float(torch.linalg.svdvals(transforms).max())
    true = spectral(matrix_of(network, (1, 5, 5)))
    assert found["log_prod_of_spec"] == pytest.approx(2 * math.log(true), rel=1e-8)
    assert abs(2 * math.log(periodic) - found["log_prod_of_spec"]) > 0.1
    assert abs(found["log_prod_of_spec_reshaped"] - found["log_prod_of_spec"]) > 1e-3


class OutOfOrder(nn.Module):
    """Registered backwards, convolutions without bias; otherwise the layers of a chain."""

    def __init__(self, chain):
        super().__init__()
        self.count = len(chain)
        for i in reversed(range(len(chain))):
            self.add_module(f"part{i}", copy.deepcopy(chain[i]))

    def forward(self, x):
        for i in range(self.count):
            x = getattr(self, f"part{i}")(x)
        return x


def test_batch_norm_is_folded_by_the_graph_whatever_the_order_of_children():
    network, initial = convolutional(0), convolutional(1)
    x, y = fitted(network)
    expected = values(network, x, y, initial=initial)
    found = values(OutOfOrder(network), x, y, initial=OutOfOrder(initial))
    assert found == pytest.approx(expected, rel=1e-9)


class Shortcut(nn.Module):
    """A residual block whose shortcut has a convolution of its own, without biases."""

    def __init__(self):
        super().__init__()
        self.short = nn.Sequential(nn.Conv2d(2, 3, 1, bias=False), nn.BatchNorm2d(3))
        self.body = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3))
        self.head = nn.Linear(3, 3)

    def forward(self, x):
        return self.head(torch.relu(self.short(x) + self.body(x)).mean((2, 3)))


def test_residual_networks_have_each_layer_with_the_batch_norm_that_reads_it():
    torch.manual_seed(0)
    network = generic(Shortcut())
    shape = (2, 4, 4)
    x, y = fitted(network, shape)
    parts = [network.short, network.body, network.head]
    norms = [spectral(matrix_of(p, shape if p is not network.head else (3,))) for p in parts]
    kernels = [folded_kernel(p[0], p[1]) for p in parts[:2]] + [network.head.weight.detach()]
    found = values(network, x, y, ["log_prod_of_spec", "log_prod_of_fro", "log_lipschitz"])
    assert found["log_prod_of_spec"] == pytest.approx(2 * sum(map(math.log, norms)), rel=1e-8)
    assert found["log_prod_of_fro"] == pytest.approx(2 * sum(math.log(float(k.norm())) for k in kernels))
    # Branches add, and the mean over 16 positions has the norm 1 / 4.
    expected = math.log((norms[0] + norms[1]) / 4 * norms[2])
    assert found["log_lipschitz"] == pytest.approx(expected, rel=1e-8)


def identity_norm(channels):
    norm = nn.BatchNorm2d(channels, eps=0.0)
    return norm.double()


@pytest.mark.parametrize("where", ["after a layer", "before an activation"])
def test_batch_norms_of_ones_are_no_layers(where):
    def build(seed, norm):
        torch.manual_seed(seed)
        first = nn.Conv2d(2, 3, 3, padding=1)
        second, head = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(48, 3)
        extra = [identity_norm(3)] if norm else []
        if where == "after a layer":
            return nn.Sequential(first, *extra, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), head).double()
        return nn.Sequential(first, nn.ReLU(), *extra, nn.ReLU(), second, nn.Flatten(), head).double()

    plain, normed = build(0, False).eval(), build(0, True).eval()
    x, y = fitted(plain, (2, 4, 4))
    names = [name for name in ALL if "init" not in name and "dist" not in name]
    found = {name: gapbench.measure(name, normed, x, y) for name in names}
    expected = values(plain, x, y, names)
    assert {n: f.value for n, f in found.items()} == pytest.approx(expected, rel=1e-9)
    assert len(found["log_prod_of_spec"].details["layers"]) == 3


def test_unfolded_factors_scale_products_by_their_gain():
    torch.manual_seed(0)
    network = generic(
        nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.ReLU(), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)
        )
    )
    x, y = fitted(network, (2, 4, 4))
    norm = network[2]
    gain = float((norm.weight / (norm.running_var + norm.eps).sqrt()).abs().max())
    matrices = [matrix_of(network[0], (2, 4, 4)), network[5].weight.detach()]
    found = values(network, x, y, ["log_prod_of_spec", "log_prod_of_fro", "log_sum_of_spec", "fro_over_spec"])
    product = (math.prod(spectral(m) for m in matrices) * gain) ** 2
    assert found["log_prod_of_spec"] == pytest.approx(math.log(product), rel=1e-8)
    assert found["log_sum_of_spec"] == pytest.approx(math.log(2 * product**0.5), rel=1e-8)
    fro = float(network[0].weight.norm()) * float(network[5].weight.norm()) * gain
    assert found["log_prod_of_fro"] == pytest.approx(2 * math.log(fro), rel=1e-12)


# ---- what must not change, and what must not be invented -------------------------------------------------------


def test_rescaling_behind_batch_norm_and_permuting_channels_change_nothing():
    network, initial = convolutional(0), convolutional(1)
    for module in (*network, *initial):
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-14
    x, y = fitted(network)
    expected = values(network, x, y, initial=initial)
    order = torch.tensor([2, 0, 1, 5, 3, 4])  # within the groups of the grouped convolution
    for other in (network, initial):
        with torch.no_grad():
            factor = torch.tensor([3.0, 0.1, 7.0, 2.0], dtype=torch.float64)
            other[0].weight.mul_(factor.reshape(-1, 1, 1, 1))
            other[0].bias.mul_(factor)
            other[1].running_mean.mul_(factor)
            other[1].running_var.mul_(factor**2)
            for name in ("weight", "bias", "running_mean", "running_var"):
                getattr(other[4], name).copy_(getattr(other[4], name)[order].clone())
            other[3].weight.copy_(other[3].weight[order].clone())
            other[7].weight.copy_(other[7].weight.reshape(3, 6, 12)[:, order].reshape(3, 72).clone())
    assert values(network, x, y, initial=initial) == pytest.approx(expected, rel=1e-8)


def test_moving_a_scale_between_layers_changes_no_product_and_scaling_logits_no_ratio_to_the_margin():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 6, bias=False), nn.ReLU(), nn.Linear(6, 3, bias=False)).double()
    x, y = fitted(network, (5,))
    products = [n for n in ALL if "prod" in n or "log_sum" in n or "lipschitz" in n or "orig_main" in n]
    before = values(network, x, y, products)
    with torch.no_grad():
        network[0].weight.mul_(7.0)
        network[2].weight.div_(7.0)
    assert values(network, x, y, products) == pytest.approx(before, rel=1e-10)
    with torch.no_grad():
        network[2].weight.mul_(5.0)
    after = values(network, x, y, products)
    for name in products:
        if name in WITH_MARGIN:
            assert after[name] == pytest.approx(before[name], rel=1e-9), name
    assert after["log_prod_of_spec"] == pytest.approx(before["log_prod_of_spec"] + 2 * math.log(5), rel=1e-9)


def test_nothing_overflows_in_deep_networks():
    """300 layers of factor 50: the product of squares is 50^600, beyond floating point numbers."""
    layers = [nn.Linear(2, 2, bias=False).double() for _ in range(300)]
    with torch.no_grad():
        for i, layer in enumerate(layers):
            layer.weight.copy_(torch.eye(2, dtype=torch.float64) * (50.0 if i < 150 else 1 / 50.0))
    small = nn.Sequential(*layers)
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]], dtype=torch.float64)
    y = torch.tensor([0, 1, 0])
    found = values(
        small, x, y, ["log_prod_of_spec", "log_prod_of_fro", "log_spec_orig_main", "log_sum_of_spec"]
    )
    assert found["log_prod_of_spec"] == pytest.approx(0.0, abs=1e-8)
    assert found["log_prod_of_fro"] == pytest.approx(300 * math.log(2.0), rel=1e-10)
    assert found["log_spec_orig_main"] == pytest.approx(math.log(300 * 2.0), rel=1e-8)
    assert found["log_sum_of_spec"] == pytest.approx(math.log(300.0), rel=1e-10)
    with torch.no_grad():
        for layer in layers[150:290]:
            layer.weight.copy_(torch.eye(2, dtype=torch.float64) * 50.0)
    huge = values(small, 1e-300 * x, y, ["log_prod_of_spec", "log_sum_of_spec", "log_prod_of_fro"])
    log = 2 * (290 - 10) * math.log(50.0)
    assert log > 709  # of which exp overflows
    assert huge["log_prod_of_spec"] == pytest.approx(log, rel=1e-9)
    assert huge["log_sum_of_spec"] == pytest.approx(math.log(300) + log / 300, rel=1e-9)
    assert huge["log_prod_of_fro"] == pytest.approx(log + 300 * math.log(2), rel=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_attention_and_layer_normalisation_are_refused(name):
    attention = gapbench.build_model("torchvision/vit", 1 / 8, (1, 8, 8), 3, seed=0).double().eval()
    x, y = fitted(attention, (1, 8, 8), 4)
    found = gapbench.measure(name, attention, x, y, initial=copy.deepcopy(attention))
    assert found.status == "not_applicable"
    assert "layer_norm" in found.reason


def test_layers_of_zeros_and_layers_that_did_not_move_are_refused():
    dense = nn.Sequential(nn.Linear(5, 3, bias=False)).double()
    x, y = fitted(dense, (5,))
    for name in ("log_spec_init_main", "log_spec_init_main_reshaped"):
        found = gapbench.measure(name, dense, x, y, initial=copy.deepcopy(dense))
        assert "as they were at initialisation" in found.reason
    assert values(dense, x, y, ["fro_dist", "dist_spec_init"], copy.deepcopy(dense)) == {
        "fro_dist": 0.0,
        "dist_spec_init": 0.0,
    }
    with torch.no_grad():
        dense[0].weight.zero_()
    for name in ("log_prod_of_spec", "log_prod_of_fro", "stable_rank", "fro_over_spec"):
        found = gapbench.measure(name, dense, x, y)
        assert found.status == "not_applicable"
        assert "is zero" in found.reason


@pytest.mark.parametrize("name", [n for n in ALL if "init" in n or "dist" in n])
def test_distances_need_the_initial_network(name):
    network = convolutional()
    found = gapbench.measure(name, network, *fitted(network))
    assert found.status == "not_applicable"
    assert "initial" in found.reason


def test_a_shared_layer_counts_at_each_use():
    torch.manual_seed(0)
    layer, head = nn.Linear(4, 4), nn.Linear(4, 3)
    network = nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), head).double()
    x, y = fitted(network, (4,))
    found = values(network, x, y, ["log_prod_of_spec", "log_sum_of_fro"])
    norms = [spectral(m.weight.detach()) for m in (layer, layer, head)]
    assert found["log_prod_of_spec"] == pytest.approx(2 * sum(map(math.log, norms)), rel=1e-12)
    product = math.prod(float(m.weight.norm()) ** 2 for m in (layer, layer, head))
    assert found["log_sum_of_fro"] == pytest.approx(math.log(3 * product ** (1 / 3)), rel=1e-12)


def test_a_residual_block_of_depthwise_layers():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, groups=3, bias=False), nn.BatchNorm2d(3))
    network = generic(nn.Sequential(Residual(inner), nn.Flatten(), nn.Linear(48, 3)))
    x, y = fitted(network, (3, 4, 4))
    matrices = [matrix_of(inner, (3, 4, 4)), network[2].weight.detach()]
    found = values(network, x, y, ["log_prod_of_spec", "stable_rank", "log_lipschitz"])
    assert found["log_prod_of_spec"] == pytest.approx(2 * sum(math.log(spectral(m)) for m in matrices))
    ranks = [float(m.norm()) ** 2 / spectral(m) ** 2 for m in matrices]
    assert found["stable_rank"] == pytest.approx(sum(ranks) / 2, rel=1e-8)
    expected = math.log((1 + spectral(matrices[0])) * spectral(matrices[1]))
    assert found["log_lipschitz"] == pytest.approx(expected, rel=1e-8)


def test_every_norm_proxy_is_tested_here():
    registered = {
        name
        for name in gapbench.list_proxies()
        if "catalogue/layer_norms" in gapbench.proxies.registry.proxy_entry(name).origin.replace("\\", "/")
    }
    assert registered == set(itertools.chain(ALL))
