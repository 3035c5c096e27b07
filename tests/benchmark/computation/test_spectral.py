import math

import pytest
import torch
from torch import nn

import gapbench
from gapbench.computation.lipschitz import NoLipschitzConstant, compose


def double(*layers):
    torch.manual_seed(0)
    return nn.Sequential(*layers).double().eval()


def jacobian_of_linear(network, shape):
    """The dense matrix of an affine network, column by column."""
    zero = network(torch.zeros(1, *shape, dtype=torch.float64))
    count = math.prod(shape)
    images = network(torch.eye(count, dtype=torch.float64).reshape(count, *shape)) - zero
    return images.flatten(1).T.detach()


CONVOLUTIONS = {
    "plain": (nn.Conv2d(2, 3, 3), (2, 5, 6)),
    "padded": (nn.Conv2d(2, 3, 3, padding=1), (2, 4, 5)),
    "strided": (nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False), (2, 6, 7)),
    "dilated": (nn.Conv2d(1, 2, 3, dilation=2, padding=2), (1, 5, 5)),
    "grouped": (nn.Conv2d(4, 6, 3, groups=2, padding=1), (4, 4, 4)),
    "depthwise": (nn.Conv2d(3, 3, 3, groups=3, padding=1), (3, 5, 5)),
    "transposed": (nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1), (2, 4, 4)),
    "one_dimensional": (nn.Conv1d(2, 3, 3, padding=1), (2, 7)),
    "dense": (nn.Linear(5, 4), (5,)),
    "dense_by_position": (nn.Linear(5, 4), (3, 5)),
}


@pytest.mark.parametrize("name", sorted(CONVOLUTIONS))
def test_norms_are_those_of_the_dense_matrix(name):
    layer, shape = CONVOLUTIONS[name]
    torch.manual_seed(1)
    layer = layer.double()
    nn.init.normal_(layer.weight)
    matrix = jacobian_of_linear(layer, shape)
    found = compose(layer, torch.zeros(2, *shape, dtype=torch.float64)).layers[0]
    assert found.sigma == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-9)
    assert found.norm_2_1 == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-12)
    assert (found.outputs, found.inputs) == tuple(matrix.shape)


def test_distance_to_a_reference_layer():
    torch.manual_seed(2)
    first, second = (nn.Conv2d(2, 3, 3, padding=1).double() for _ in range(2))
    found = compose(first, torch.zeros(2, 2, 4, 4, dtype=torch.float64), second).layers[0]
    difference = jacobian_of_linear(first, (2, 4, 4)) - jacobian_of_linear(second, (2, 4, 4))
    assert found.norm_2_1 == pytest.approx(float(difference.norm(dim=1).sum()), rel=1e-12)


def randomise(network):
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.3, 3.0)
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    return network


def test_batch_norm_is_folded_into_the_layer_before_it():
    network = randomise(double(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3)))
    matrix = jacobian_of_linear(network, (1, 4, 4))
    found = compose(network, torch.zeros(2, 1, 4, 4, dtype=torch.float64))
    assert len(found.layers) == 1
    assert found.layers[0].sigma == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-9)
    assert found.layers[0].norm_2_1 == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-12)
    assert found.chain


def test_batch_norm_without_a_layer_before_it_is_a_diagonal_map():
    network = randomise(double(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 2, 1)))
    found = compose(network, torch.zeros(2, 3, 4, 4, dtype=torch.float64))
    matrix = jacobian_of_linear(network[0], (3, 4, 4))
    assert [layer.kind for layer in found.layers] == ["diagonal", "convolution"]
    assert found.layers[0].sigma == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-12)
    assert found.layers[0].norm_2_1 == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-12)


class Branches(nn.Module):
    def __init__(self, join):
        super().__init__()
        torch.manual_seed(3)
        self.left, self.right, self.join = nn.Linear(4, 4), nn.Linear(4, 4), join

    def forward(self, x):
        left, right = self.left(x), self.right(x)
        return torch.cat([left, right], dim=1) if self.join == "cat" else left + right


@pytest.mark.parametrize("join", ["add", "cat"])
def test_sums_and_concatenations_compose_lipschitz_constants(join):
    network = Branches(join).double().eval()
    found = compose(network, torch.zeros(2, 4, dtype=torch.float64))
    a, b = (float(torch.linalg.matrix_norm(m.weight.detach(), 2)) for m in (network.left, network.right))
    expected = a + b if join == "add" else math.hypot(a, b)
    assert math.exp(found.log_lipschitz) == pytest.approx(expected, rel=1e-12)
    assert not found.chain
    true = float(torch.linalg.matrix_norm(jacobian_of_linear(network, (4,)), 2))
    assert true <= expected * (1 + 1e-12)


@pytest.mark.parametrize(
    ("layer", "constant"),
    [
        (nn.ReLU(), 1.0),
        (nn.LeakyReLU(3.0), 3.0),
        (nn.Tanh(), 1.0),
        (nn.Sigmoid(), 0.25),
        (nn.GELU(), 1.1289042),
        (nn.SiLU(), 1.0998394),
        (nn.Hardswish(), 1.5),
        (nn.ELU(), 1.0),
        (nn.ELU(2.0), 2.0),
        (nn.SELU(), 1.0507009873554805 * 1.6732632423543772),
        (nn.CELU(2.0), 1.0),
        (nn.AvgPool2d(2), 0.5),
        (nn.AvgPool2d(3, stride=1, padding=1), None),
        (nn.AdaptiveAvgPool2d(1), 0.25),
        (nn.MaxPool2d(2), 1.0),
        (nn.MaxPool2d(3, stride=2, padding=1), 2.0),
        (nn.Flatten(), 1.0),
    ],
)
def test_constants_of_fixed_operations(layer, constant):
    network = double(nn.Conv2d(1, 1, 1), layer)
    found = math.exp(compose(network, torch.zeros(2, 1, 4, 4, dtype=torch.float64)).log_lipschitz)
    scale = float(network[0].weight.detach().abs())
    if constant is None:
        constant = float(torch.linalg.matrix_norm(jacobian_of_linear(layer, (1, 4, 4)), 2))
    assert found / scale == pytest.approx(constant, rel=1e-6)


@pytest.mark.parametrize("activation", [nn.GELU(), nn.SiLU(), nn.Mish(), nn.Hardswish()])
def test_slopes_bound_the_derivative(activation):
    from gapbench.computation.lipschitz import SLOPES

    x = torch.linspace(-8, 8, 400_001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(activation(x).sum(), x)
    largest = float(slope.abs().max())
    claimed = SLOPES[type(activation).__name__.lower()]
    assert largest <= claimed * (1 + 1e-9)
    assert claimed <= largest * (1 + 1e-3)


@pytest.mark.parametrize(
    "family", ["plain/mlp", "plain/cnn", "torchvision/vgg11_bn", "torchvision/resnet18", "timm/convmixer"]
)
def test_no_pair_of_inputs_beats_the_constant(family):
    network = gapbench.build_model(family, 1 / 8, (1, 8, 8), 3, seed=0).double().eval()
    found = compose(network, torch.zeros(2, 1, 8, 8, dtype=torch.float64))
    x = torch.randn(30, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        y = network(x)
        ratios = torch.cdist(y, y) / (torch.cdist(x.flatten(1), x.flatten(1)) + torch.eye(30))
    assert float(ratios.max()) <= math.exp(found.log_lipschitz) * (1 + 1e-9)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return x * torch.sigmoid(self.layer(x))


def test_what_has_no_constant_says_so():
    example = torch.zeros(2, 4, dtype=torch.float64)
    for network, word in (
        (double(nn.Linear(4, 4), nn.LayerNorm(4)), "layer_norm"),
        (Gate().double().eval(), "product of two activations"),
        (double(nn.Linear(4, 4), nn.Softmax(1)), "attention"),
        (double(nn.Linear(4, 4), nn.Threshold(0.1, 20.0)), "threshold"),
    ):
        with pytest.raises(NoLipschitzConstant, match=word):
            compose(network, example)


def classifier(bias=False):
    return double(nn.Linear(3, 4, bias=bias), nn.ReLU(), nn.Linear(4, 3, bias=bias))


def test_bound_in_its_defining_formula():
    network = classifier()
    inputs = torch.randn(11, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    targets = network(inputs).argmax(1)  # all margins positive
    found = gapbench.measure("spectral_margin_bound", network, inputs, targets)
    logits = network(inputs).detach()
    own = logits.gather(1, targets[:, None])[:, 0]
    margins = own - logits.scatter(1, targets[:, None], -math.inf).max(1).values
    gamma = float(torch.quantile(margins, 0.1))
    matrices = [network[0].weight.detach(), network[2].weight.detach()]
    sigma = [float(torch.linalg.matrix_norm(a, 2)) for a in matrices]
    two_one = [float(a.norm(dim=1).sum()) for a in matrices]
    complexity = math.prod(sigma) * sum((t / s) ** (2 / 3) for t, s in zip(two_one, sigma)) ** 1.5
    expected = float(inputs.norm()) * complexity * math.log(4) / (gamma * 11)
    assert found.value == pytest.approx(expected, rel=1e-12)
    assert found.details["bound_term"] == found.value
    assert found.details["spectral_complexity"] == pytest.approx(complexity, rel=1e-12)
    assert found.details["sigma"] == pytest.approx(sigma)
    assert found.details["norm_2_1"] == pytest.approx(two_one)
    assert found.details["margins"] == pytest.approx(margins.tolist())
    assert found.details["is_bound"] is True
    assert found.details["largest_width"] == 4
    ramp = (1 - margins / gamma).clamp(0, 1).mean()
    assert found.details["ramp_risk"] == pytest.approx(float(ramp))


def test_bound_is_not_applicable_without_positive_margin_or_initialisation():
    network = classifier()
    inputs = torch.randn(11, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    wrong = network(inputs).argmin(1)
    for proxy in ("spectral_margin_bound", "inverse_margin"):
        found = gapbench.measure(proxy, network, inputs, wrong)
        assert found.status == "not_applicable"
        assert "not positive" in found.reason
        assert found.value is None
    found = gapbench.measure("spectral_margin_bound", network, inputs, wrong, gamma=1.0, reference="initial")
    assert found.status == "not_applicable"
    assert "initial" in found.reason
    attention = gapbench.build_model("torchvision/vit", 1 / 8, (1, 8, 8), 3, seed=0).eval()
    images, classes = torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 2, 0])
    found = gapbench.measure("spectral_margin_bound", attention, images, classes, gamma=1.0)
    assert found.status == "not_applicable"
