"""The path norm against sums over all paths, the Fisher-Rao norm against single gradients; their invariances."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn
from torch.func import functional_call

import gapbench
from benchmark.proxies import strangers
from benchmark.small_networks import Residual, data, networks
from benchmark.symmetry import zoo
from gapbench.curvature import directional
from gapbench.curvature.heads import per_example_loss
from gapbench.curvature.loss import Landscape

NETWORKS = networks()


def path_norm(network, shape, count=3):
    x = torch.randn(count, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = gapbench.measure("path_norm", network.double().eval(), x, torch.arange(count) % 3)
    assert found.status == "ok", found.reason
    return found.value


def dense(*sizes, seed=0, bias=True):
    torch.manual_seed(seed)
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


def by_enumeration(layers):
    """The sum over every path: from each input, and from the bias of each unit, to each output."""
    total = 0.0
    sizes = [layers[0].in_features] + [layer.out_features for layer in layers]
    for start in range(len(layers) + 1):  # 0: from the inputs; k: from the biases of layer k
        ranges = [range(s) for s in sizes[start:]]
        for path in itertools.product(*ranges):
            product = 1.0 if start == 0 else float(layers[start - 1].bias[path[0]]) ** 2
            for step, layer in enumerate(layers[start:]):
                product *= float(layer.weight[path[step + 1], path[step]]) ** 2
            total += product
    return total


def test_path_norm_is_the_sum_over_all_paths():
    network = dense(3, 4, 2, 3)
    expected = by_enumeration([m for m in network if isinstance(m, nn.Linear)])
    assert path_norm(network, (3,)) == pytest.approx(expected, rel=1e-12)


def affine_squares(module, shape, value):
    """(rows of the dense matrix squared) . value + shift squared: all paths through one affine module."""
    count = math.prod(shape)
    with torch.no_grad():
        zero = module(torch.zeros(1, *shape, dtype=torch.float64))
        images = module(torch.eye(count, dtype=torch.float64).reshape(count, *shape)) - zero
    return images.flatten(1).T.pow(2) @ value.flatten() + zero.flatten().pow(2)


def test_convolutions_batch_norm_and_pooling():
    """Batch normalisation is one affine map with the convolution before it; maxima stay maxima."""
    network, shape = NETWORKS["conv_bn"]
    first = affine_squares(network[:2], shape, torch.ones(shape, dtype=torch.float64)).reshape(1, 3, 4, 4)
    pooled = nn.functional.max_pool2d(first, 2)
    second = affine_squares(network[4], (3, 2, 2), pooled)
    last = affine_squares(network[7], (4,), second)
    assert path_norm(network, shape) == pytest.approx(float(last.sum()), rel=1e-12)


def test_residual_blocks_add_paths_and_averages_average():
    network, shape = NETWORKS["depthwise_residual"]
    with_relu = copy.deepcopy(network)
    with_relu[1].inner[1] = nn.ReLU()
    v = affine_squares(with_relu[0], shape, torch.ones(shape, dtype=torch.float64)).reshape(1, 4, 4, 4)
    norm, conv = with_relu[1].inner[0], with_relu[1].inner[2]
    inner = affine_squares(norm, (4, 4, 4), v)
    v = v.flatten() + affine_squares(conv, (4, 4, 4), inner)
    pooled = v.reshape(4, 16).mean(1)
    expected = affine_squares(with_relu[4], (4,), pooled).sum()
    assert path_norm(with_relu, shape) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("name", ["flat mlp relu", "cnn", "depthwise", "grouped"])
def test_without_batch_norm_it_is_the_network_of_squares_on_ones(name):
    network = zoo.build(name)
    squared = {n: p.detach().pow(2) for n, p in network.named_parameters()}
    ones = torch.ones(1, *zoo.shape(name), dtype=torch.float64)
    expected = float(functional_call(network, squared, (ones,)).detach().sum())
    assert path_norm(network, zoo.shape(name)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bias", [False, True])
def test_batch_norm_folded_by_hand_gives_the_same(bias):
    torch.manual_seed(0)
    conv, norm = nn.Conv2d(2, 3, 3, padding=1, bias=bias).double(), nn.BatchNorm2d(3).double()
    with torch.no_grad():
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2.0)
        norm.weight.normal_()
        norm.bias.normal_()
    head = [nn.ReLU(), nn.Flatten(), nn.Linear(48, 3).double()]
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    folded = nn.Conv2d(2, 3, 3, padding=1).double()
    with torch.no_grad():
        folded.weight.copy_(conv.weight * scale.reshape(-1, 1, 1, 1))
        before = conv.bias if bias else torch.zeros(3, dtype=torch.float64)
        folded.bias.copy_((before - norm.running_mean) * scale + norm.bias)
    found = path_norm(nn.Sequential(conv, norm, *head), (2, 4, 4))
    assert found == pytest.approx(path_norm(nn.Sequential(folded, *head), (2, 4, 4)), rel=1e-12)


@pytest.mark.parametrize(
    "name", ["flat mlp relu", "flat mlp leaky", "cnn", "cnn bn", "flat bn1d", "densenet"]
)
def test_transformations_that_keep_the_function_keep_the_path_norm(name):
    network = zoo.build(name)
    x = zoo.inputs(name, 6)
    y = torch.arange(6) % 3
    symmetry = gapbench.symmetry.find(network, x[:2])
    assert symmetry.dimension > 0
    for seed in (1, 2):
        moved = symmetry.transform(seed, 0.5)
        assert (moved(x) - network(x)).abs().max() < 1e-8
        first, second = (gapbench.measure("path_norm", n, x, y).value for n in (network, moved))
        assert second == pytest.approx(first, rel=1e-6)


def test_moving_weights_of_one_unit_and_permuting_units_change_nothing():
    network, x = dense(4, 5, 6, 3), torch.randn(8, 4).double()
    y = network(x).argmax(1)
    names = ("path_norm", "path_norm_over_margin", "fisher_rao_norm")
    before = [gapbench.measure(n, network, x, y).value for n in names]
    order = torch.tensor([3, 1, 0, 4, 2])
    with torch.no_grad():
        for unit, factor in ((0, 7.0), (3, 0.02)):
            network[0].weight[unit] *= factor
            network[0].bias[unit] *= factor
            network[2].weight[:, unit] /= factor
        network[0].weight.copy_(network[0].weight[order].clone())
        network[0].bias.copy_(network[0].bias[order].clone())
        network[2].weight.copy_(network[2].weight[:, order].clone())
    assert [gapbench.measure(n, network, x, y).value for n in names] == pytest.approx(before, rel=1e-10)


def test_over_margin_divides_by_the_square_of_the_tenth_percentile():
    network, x = dense(4, 5, 3), torch.randn(30, 4, generator=torch.Generator().manual_seed(0)).double()
    logits = network(x).detach()
    y = logits.argmax(1)
    two = logits.topk(2).values
    gamma = float(torch.quantile(two[:, 0] - two[:, 1], 0.1))
    whole = gapbench.measure("path_norm", network, x, y).value
    found = gapbench.measure("path_norm_over_margin", network, x, y)
    assert found.value == pytest.approx(whole / gamma**2, rel=1e-12)
    found = gapbench.measure("path_norm_over_margin", network, x, (y + 1) % 3)
    assert found.status == "not_applicable"
    assert "not positive" in found.reason


REFUSED = {
    "gelu": "gelu",
    "attention": "layer_norm",
    "hidden_norm": "layer_norm",
    "prelu": "prelu",
    "depthwise_residual": "hardtanh",  # ReLU6
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_paths_that_do_not_exist_are_refused(name):
    network, shape = NETWORKS[name]
    x, _ = data(shape, "cross_entropy")
    for proxy in ("path_norm", "path_norm_over_margin"):
        found = gapbench.measure(proxy, network, x, network(x).argmax(1))
        assert (found.status, found.value) == ("not_applicable", None)
        assert REFUSED[name] in found.reason


class Written(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 3)
        self.scale, self.run = nn.Parameter(torch.tensor([2.0, -3.0, 0.5])), forward

    def forward(self, x):
        return self.run(self, x)


def test_factors_shifts_and_concatenations_are_paths_too():
    ones = torch.ones(4, dtype=torch.float64)

    def both(network):
        return [affine_squares(m, (4,), ones) for m in (network.first, network.second)]

    network = Written(lambda s, x: torch.relu(s.first(x)) * s.scale).double()
    square = network.scale.detach().pow(2)
    assert path_norm(network, (4,)) == pytest.approx(float((both(network)[0] * square).sum()), rel=1e-12)
    network = Written(lambda s, x: torch.relu(s.first(x)) + s.scale).double()
    assert path_norm(network, (4,)) == pytest.approx(float((both(network)[0] + square).sum()), rel=1e-12)
    network = Written(lambda s, x: torch.cat([s.first(x), s.scale.expand(len(x), 3)], 1)).double()
    assert path_norm(network, (4,)) == pytest.approx(float((both(network)[0] + square).sum()), rel=1e-12)
    network = Written(lambda s, x: torch.maximum(s.first(x), s.second(x))).double()
    expected = float(torch.maximum(*both(network)).sum())
    assert path_norm(network, (4,)) == pytest.approx(expected, rel=1e-12)
    network = Written(lambda s, x: 0.5 * s.first(x) + s.second(x) * 0.25).double()
    first, second = both(network)
    assert path_norm(network, (4,)) == pytest.approx(float((0.5 * first + 0.25 * second).sum()), rel=1e-12)


@pytest.mark.parametrize(
    "forward",
    [
        lambda s, x: s.first(x) - s.second(x),
        lambda s, x: s.first(x) * s.second(x),
        lambda s, x: -s.first(x),
        lambda s, x: -2.0 * s.first(x),
        lambda s, x: s.first(x) + 1.0,
        lambda s, x: torch.softmax(s.first(x), 1),
        lambda s, x: s.first(x).clamp(0, 1),
        lambda s, x: nn.functional.leaky_relu(s.first(x), 3.0),
        lambda s, x: s.first(nn.functional.pad(x, (1, 1), value=1.0)[:, 1:-1]),
    ],
)
def test_what_is_no_sum_of_paths_is_refused(forward):
    x = torch.randn(3, 4).double()
    found = gapbench.measure("path_norm", Written(forward).double(), x, torch.arange(3))
    assert found.status == "not_applicable"


def test_path_norms_beyond_floating_point_numbers_are_refused():
    """Outputs of the order of 1; the product of squares is 1e400."""
    layers = [nn.Linear(2, 2, bias=False).double() for _ in range(100)]
    with torch.no_grad():
        for layer in layers:
            layer.weight.copy_(100.0 * torch.eye(2))
    x = torch.tensor([[1e-200, 0.0], [0.0, 1e-200]], dtype=torch.float64)
    found = gapbench.measure("path_norm", nn.Sequential(*layers), x, torch.arange(2))
    assert found.status == "not_applicable"
    assert "beyond the range" in found.reason
    few = gapbench.measure("path_norm", nn.Sequential(*layers[:70]), x, torch.arange(2))
    assert few.value == pytest.approx(2e280, rel=1e-12)


# ---- Fisher-Rao ------------------------------------------------------------------------------------------------


def one_by_one(network, x, y, loss):
    """mean (grad l_i . theta)^2, one gradient at a time."""
    found = []
    for i in range(len(x)):
        value = per_example_loss(network(x[i : i + 1]), y[i : i + 1], loss)[0]
        parameters = list(network.parameters())
        gradients = torch.autograd.grad(value, parameters, allow_unused=True, materialize_grads=True)
        found.append(float(sum((g * p).sum() for g, p in zip(gradients, parameters)).detach()) ** 2)
    return sum(found) / len(found)


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_fisher_rao_norm_is_that_of_single_gradients(name, loss):
    network, shape = NETWORKS[name]
    x, y = data(shape, loss)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = one_by_one(network, x, y, loss)
    found = gapbench.measure("fisher_rao_norm", network, x, y, loss=loss)
    assert found.value == pytest.approx(expected, rel=1e-9)


def test_fisher_rao_norm_is_a_form_of_the_empirical_fisher_matrix():
    network, x, _ = dense(4, 5, 3), torch.randn(6, 4).double(), None
    y = torch.arange(6) % 3
    theta = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    rows = []
    for i in range(6):
        value = nn.functional.cross_entropy(network(x[i : i + 1]), y[i : i + 1])
        rows.append(
            torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, list(network.parameters()))])
        )
    fisher = torch.stack(rows).T @ torch.stack(rows) / 6
    found = gapbench.measure("fisher_rao_norm", network, x, y).value
    assert found == pytest.approx(float(theta @ fisher @ theta), rel=1e-10)


def unbiased_cnn():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 2, bias=False),
        nn.LeakyReLU(0.1),
        nn.Flatten(),
        nn.Linear(4, 3, bias=False),
    ).double()


HOMOGENEOUS = {
    "one layer": (lambda: dense(4, 3, bias=False), (4,), 1),
    "three layers": (lambda: dense(4, 6, 5, 3, bias=False), (4,), 3),
    "convolutions": (unbiased_cnn, (1, 4, 4), 3),
}


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("name", sorted(HOMOGENEOUS))
def test_closed_form_of_networks_without_biases(name, loss):
    build, shape, depth = HOMOGENEOUS[name]
    network = build()
    x, y = data(shape, loss)
    found = gapbench.measure("fisher_rao_norm_homogeneous", network, x, y, loss=loss)
    assert found.details["degree"] == depth
    assert found.value == pytest.approx(one_by_one(network, x, y, loss), rel=1e-10)
    f = network(x).detach()
    if loss == "cross_entropy":  # (L + 1)^2 E( sum_k p_k f_k - f_y )^2
        inner = (torch.softmax(f, 1) * f).sum(1) - f.gather(1, y[:, None])[:, 0]
    else:
        inner = ((f - y) * f).sum(1)
    assert found.value == pytest.approx(depth**2 * float(inner.pow(2).mean()), rel=1e-12)


@pytest.mark.parametrize("name", ["relu", "conv_bn", "gelu", "attention", "depthwise_residual"])
def test_closed_form_is_refused_where_outputs_are_not_homogeneous(name):
    network, shape = NETWORKS[name]
    x, y = data(shape, "cross_entropy")
    found = gapbench.measure("fisher_rao_norm_homogeneous", network, x, y)
    assert found.status == "not_applicable"
    assert "not homogeneous" in found.reason


def test_closed_form_of_a_shortcut_without_biases_is_refused():
    torch.manual_seed(0)
    network = nn.Sequential(Residual(nn.Linear(4, 4, bias=False)), nn.Linear(4, 3, bias=False)).double()
    x, y = torch.randn(6, 4).double(), torch.arange(6) % 3
    assert gapbench.measure("fisher_rao_norm_homogeneous", network, x, y).status == "not_applicable"


def test_one_logit_and_sequences_of_logits():
    torch.manual_seed(0)
    single, double = nn.Linear(4, 1, bias=False).double(), nn.Linear(4, 2, bias=False).double()
    with torch.no_grad():
        double.weight.copy_(torch.cat([torch.zeros(1, 4), single.weight]))
    x, y = torch.randn(9, 4).double(), torch.arange(9) % 2
    for name in ("fisher_rao_norm", "fisher_rao_norm_homogeneous"):
        values = [gapbench.measure(name, n, x, y).value for n in (single, double)]
        assert values[0] == pytest.approx(values[1], rel=1e-12)
    tokens, labels = torch.randn(6, 5, 4).double(), torch.randint(0, 2, (6, 5))
    values = [
        gapbench.measure(n, double, tokens, labels).value
        for n in ("fisher_rao_norm", "fisher_rao_norm_homogeneous")
    ]
    assert values == pytest.approx([one_by_one(double, tokens, labels, "cross_entropy")] * 2, rel=1e-10)


@pytest.mark.parametrize(
    "name", ["once differentiable", "checkpointed reentrantly", "slope saved as a number"]
)
def test_networks_whose_gradient_cannot_be_differentiated(name):
    stranger = strangers.make(strangers.strangers()[name])
    found = gapbench.measure("fisher_rao_norm", stranger.network, stranger.inputs, stranger.targets)
    landscape = Landscape(stranger.network, stranger.inputs, stranger.targets, stranger.loss)
    theta, h = landscape.theta(), 1e-6
    columns = []
    for sign in (1.0, -1.0):
        moved = copy.deepcopy(stranger.network)
        with torch.no_grad():
            for p in moved.parameters():
                p.mul_(1.0 + sign * h)
            columns.append(per_example_loss(moved(stranger.inputs), stranger.targets, stranger.loss))
    expected = float(((columns[0] - columns[1]) / (2 * h)).pow(2).mean())
    assert found.value == pytest.approx(expected, rel=1e-6)
    slow = directional._one_by_one(landscape, stranger.inputs, stranger.targets, theta)
    assert float(slow.pow(2).mean()) == pytest.approx(expected, rel=1e-6)


def test_examples_that_meet_are_differentiated_together():
    stranger = strangers.make(strangers.mixing()["batch centred"])
    found = gapbench.measure("fisher_rao_norm", stranger.network, stranger.inputs, stranger.targets)
    h, columns = 1e-6, []
    for sign in (1.0, -1.0):
        moved = copy.deepcopy(stranger.network)
        with torch.no_grad():
            for p in moved.parameters():
                p.mul_(1.0 + sign * h)
            columns.append(per_example_loss(moved(stranger.inputs), stranger.targets, stranger.loss))
    expected = float(((columns[0] - columns[1]) / (2 * h)).pow(2).mean())
    assert found.value == pytest.approx(expected, rel=1e-6)
    landscape = Landscape(stranger.network, stranger.inputs, stranger.targets, stranger.loss)
    slow = directional._one_by_one(landscape, stranger.inputs, stranger.targets, landscape.theta())
    assert float(slow.pow(2).mean()) == pytest.approx(expected, rel=1e-6)


def test_a_wrong_gradient_is_refused():
    stranger = strangers.make(strangers.wrong_gradients()["reversed gradient"])
    found = gapbench.measure("fisher_rao_norm", stranger.network, stranger.inputs, stranger.targets)
    assert found.status == "not_applicable"
    assert "not the derivative" in found.reason
