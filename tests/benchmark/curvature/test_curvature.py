import math

import pytest
import torch
from torch import nn

import gapbench
from benchmark.small_networks import data, dense_hessian, networks
from gapbench.computation.eigenvalue import largest_eigenvalue
from gapbench.computation.multiaffine import why_not_multiaffine
from gapbench.computation.tracing import trace
from gapbench.curvature import residual
from gapbench.curvature.diagonal import hessian_diagonal
from gapbench.curvature.heads import gauss_newton_scalars, per_example_loss
from gapbench.curvature.loss import Landscape
from gapbench.curvature.per_example import squared_gradient_norms
from gapbench.curvature.residual import Residual, ResidualProbes
from gapbench.curvature.trace import GaussNewtonForm, gauss_newton_trace, hessian_trace

NETWORKS = networks()
MULTIAFFINE = {
    "relu",
    "leaky",
    "prelu",
    "deep_linear",
    "conv_bn",
    "depthwise_residual",
    "scaled",
    "input_norm",
}


@pytest.fixture(params=sorted(NETWORKS))
def name(request):
    return request.param


@pytest.fixture(params=["cross_entropy", "mse"])
def loss(request):
    return request.param


def landscape_of(name, loss, chunk=3):
    network, shape = NETWORKS[name]
    return Landscape(network, *data(shape, loss), loss, chunk=chunk)


def jacobians(network, inputs):
    """Logits (n, c) and their derivatives (n, c, d), one example and one output at a time."""
    parameters = list(network.parameters())
    rows, logits = [], []
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for x in inputs:
            outputs = network(x[None])[0]
            logits.append(outputs.detach())
            for output in outputs:
                parts = torch.autograd.grad(output, parameters, retain_graph=True, materialize_grads=True)
                rows.append(torch.cat([p.reshape(-1) for p in parts]))
    return torch.stack(logits), torch.stack(rows).reshape(len(inputs), len(logits[0]), -1)


def dense_gauss_newton(landscape):
    logits, jacobian = jacobians(landscape.model, landscape.inputs)
    inner = torch.eye(3, dtype=torch.float64).expand(len(logits), 3, 3)
    if landscape.loss == "cross_entropy":
        p = torch.softmax(logits, 1)
        inner = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    return torch.einsum("nci,ncd,ndj->ij", jacobian, inner, jacobian) / len(logits)


def test_gradient_and_hessian_products(name, loss):
    landscape = landscape_of(name, loss)
    dense = dense_hessian(landscape.model, landscape.inputs, landscape.targets, loss)
    generator = torch.Generator().manual_seed(2)
    for _ in range(2):
        v = torch.randn(landscape.dimension, generator=generator, dtype=torch.float64)
        torch.testing.assert_close(landscape.hessian_product(v), dense @ v, rtol=1e-9, atol=1e-10)
    theta = landscape.theta()
    value, gradient = landscape.value_and_gradient()
    assert value == pytest.approx(landscape.value(), rel=1e-14)
    step = 1e-5 * torch.randn(len(theta), generator=generator, dtype=torch.float64)
    change = (landscape.value(theta + step) - landscape.value(theta - step)) / 2
    assert change == pytest.approx(float(gradient @ step), rel=1e-5, abs=1e-10)


def test_per_example_gradient_norms(name):
    network, shape = NETWORKS[name]
    inputs, _ = data(shape, "mse")
    expected = jacobians(network, inputs)[1].pow(2).sum(2)
    found = squared_gradient_norms(network, inputs, lambda outputs: outputs, chunk=3)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


def test_gauss_newton(name, loss):
    landscape = landscape_of(name, loss)
    dense = dense_gauss_newton(landscape)
    assert gauss_newton_trace(landscape) == pytest.approx(float(dense.trace()), rel=1e-10)
    v = torch.randn(landscape.dimension, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    assert GaussNewtonForm(landscape)(v) == pytest.approx(float(v @ dense @ v), rel=1e-10)


def test_only_multiaffine_networks_are_recognised_as_such(name):
    network, shape = NETWORKS[name]
    obstacle = why_not_multiaffine(trace(network, data(shape, "mse")[0][:2]))
    assert (obstacle is None) == (name in MULTIAFFINE), obstacle


def test_the_trace_equals_that_of_the_dense_hessian(name, loss):
    landscape = landscape_of(name, loss)
    expected = float(dense_hessian(landscape.model, landscape.inputs, landscape.targets, loss).trace())
    found = hessian_trace(landscape, torch.Generator().manual_seed(0), probes=8, exact_below=512)
    assert found.value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert found.standard_error == 0.0
    assert found.method == ("gauss_newton" if name in MULTIAFFINE else "unit_vectors")


def test_the_diagonal_is_that_of_the_dense_hessian(name, loss):
    landscape = landscape_of(name, loss)
    dense = dense_hessian(landscape.model, landscape.inputs, landscape.targets, loss)
    torch.testing.assert_close(hessian_diagonal(landscape), dense.diagonal(), rtol=1e-9, atol=1e-10)


class Softened(torch.autograd.Function):
    """x -> x^3 / 3, whose backward pass reads a number, which cannot be done for many vectors at once."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3 / 3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x**2 if float(grad.detach().abs().sum()) >= 0 else grad


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.last(Softened.apply(self.first(x)))


class Gained(nn.Module):
    """A parameter that is one number, without an axis."""

    def __init__(self):
        super().__init__()
        self.layer, self.gain = nn.Linear(4, 3), nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return torch.tanh(self.gain * self.layer(x))


def test_the_diagonal_of_a_parameter_without_axes():
    torch.manual_seed(0)
    network = Gained().double()
    inputs, targets = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    expected = dense_hessian(network, inputs, targets, "cross_entropy").diagonal()
    found = hessian_diagonal(Landscape(network, inputs, targets, "cross_entropy"))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


def test_the_diagonal_where_vectors_cannot_be_batched():
    torch.manual_seed(0)
    network = Branching().double()
    inputs, targets = torch.randn(5, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    expected = dense_hessian(network, inputs, targets, "cross_entropy").diagonal()
    found = hessian_diagonal(Landscape(network, inputs, targets, "cross_entropy", chunk=2))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


def test_a_sampled_trace_is_within_its_standard_error(loss):
    for name in sorted(set(NETWORKS) - MULTIAFFINE):
        landscape = landscape_of(name, loss)
        expected = float(dense_hessian(landscape.model, landscape.inputs, landscape.targets, loss).trace())
        found = hessian_trace(landscape, torch.Generator().manual_seed(5), probes=24, exact_below=0)
        assert found.method == "gauss_newton+hutchinson"
        assert found.standard_error > 0
        assert abs(found.value - expected) < 4 * found.standard_error


def test_standard_error_of_the_sampled_trace_is_honest():
    """z-scores of repeated estimates have mean 0 and spread 1."""
    landscape = landscape_of("gelu", "cross_entropy")
    expected = float(
        dense_hessian(landscape.model, landscape.inputs, landscape.targets, "cross_entropy").trace()
    )
    scores = []
    for seed in range(60):
        found = hessian_trace(landscape, torch.Generator().manual_seed(seed), probes=20, exact_below=0)
        scores.append((found.value - expected) / found.standard_error)
    scores = torch.tensor(scores)
    assert abs(float(scores.mean())) < 4 / math.sqrt(60)
    assert 0.7 < float(scores.std()) < 1.4


def test_top_eigenvalue_is_the_largest_algebraic_one(name, loss):
    landscape = landscape_of(name, loss)
    dense = dense_hessian(landscape.model, landscape.inputs, landscape.targets, loss)
    start = torch.randn(landscape.dimension, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    found = largest_eigenvalue(landscape.hessian_product, start, 1e-10, 200)
    values = torch.linalg.eigvalsh(dense)
    assert found.value == pytest.approx(float(values[-1]), rel=1e-8, abs=1e-10)
    assert found.residual <= 1e-9 * float(values.abs().max())


@pytest.mark.parametrize(
    "spectrum", [[-5.0, 1.0, 2.0], [-3.0, -2.0], [0.0, 0.0, 0.0], [4.0], [2.0, 2.0, 2.0]]
)
def test_lanczos_on_given_spectra(spectrum):
    matrix = torch.diag(torch.tensor(spectrum, dtype=torch.float64))
    basis = torch.linalg.qr(
        torch.randn(
            len(spectrum), len(spectrum), generator=torch.Generator().manual_seed(0), dtype=torch.float64
        )
    )[0]
    matrix = basis @ matrix @ basis.T
    found = largest_eigenvalue(
        lambda v: matrix @ v, torch.ones(len(spectrum), dtype=torch.float64), 1e-12, 50
    )
    assert found.value == pytest.approx(max(spectrum), abs=1e-12)


def test_a_capped_lanczos_states_a_residual_that_bounds_the_error():
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(80, 80, generator=generator, dtype=torch.float64)
    matrix = matrix + matrix.T
    start = torch.randn(80, generator=generator, dtype=torch.float64)
    found = largest_eigenvalue(lambda v: matrix @ v, start, 1e-12, 8)
    assert found.products == 8
    assert found.residual > 1e-6
    assert (torch.linalg.eigvalsh(matrix) - found.value).abs().min() <= found.residual


def test_tracing_leaves_the_network_alone_and_sees_every_parameter():
    network, shape = NETWORKS["conv_bn"]
    before = {k: v.clone() for k, v in network.state_dict().items()}
    found = trace(network, data(shape, "mse")[0][:2])
    used = {n.name for n in found.reachable() if n.kind == "parameter"}
    assert used == {name for name, _ in network.named_parameters()}
    assert all(torch.equal(before[k], v) for k, v in network.state_dict().items())


@pytest.mark.parametrize("family", ["timm/convmixer", "torchvision/vgg11_bn", "timm/vit_tiny"])
def test_trace_of_registered_families(family):
    network = gapbench.build_model(family, 1 / 16, (1, 8, 8), 3, seed=0).double().eval()
    inputs, targets = data((1, 8, 8), "cross_entropy", count=4)
    landscape = Landscape(network, inputs, targets, "cross_entropy")
    found = hessian_trace(landscape, torch.Generator().manual_seed(0), probes=6, exact_below=0)
    if found.method == "gauss_newton":
        total, generator = [], torch.Generator().manual_seed(1)
        for _ in range(40):
            z = torch.randint(0, 2, (landscape.dimension,), generator=generator).double() * 2 - 1
            total.append(float(z @ landscape.hessian_product(z)))
        total = torch.tensor(total, dtype=torch.float64)
        assert abs(found.value - float(total.mean())) < 4 * float(total.std()) / math.sqrt(40)
    else:
        assert found.standard_error > 0


def true_trace(network, inputs, targets, loss):
    return float(dense_hessian(network, inputs, targets, loss).trace())


def test_in_place_activations_do_not_disturb_the_exact_trace():
    """All units active in the first chunk of examples, mixed in the others."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 3)).double().eval()
    with torch.no_grad():
        network[0].weight.abs_()
        network[0].bias.abs_()
    inputs = torch.cat([torch.rand(64, 3), torch.randn(40, 3)]).double()
    targets = torch.randint(0, 3, (104,))
    found = gapbench.measure("hessian_trace", network, inputs, targets)
    assert found.details["method"] == "gauss_newton"
    assert found.value == pytest.approx(true_trace(network, inputs, targets, "cross_entropy"), rel=1e-10)


class Masked(nn.Linear):
    def forward(self, x):
        mask = torch.arange(self.weight.numel(), device=x.device).reshape(self.weight.shape) % 2
        return nn.functional.linear(x, self.weight * mask, self.bias)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 1), Masked(4, 2)

    def forward(self, x):
        x = x.flatten(1)
        return torch.cat([self.first(x), self.second(x)], dim=1)


class Switching(nn.Module):
    """Piecewise affine on some inputs only."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        x = x.flatten(1)
        smooth = bool((x[:, 0] > 0).any())
        hidden = self.layer(x)
        return self.head(torch.tanh(hidden) if smooth else torch.relu(hidden))


def trace_by_differences(network, inputs, targets, loss, h=1e-4):
    """tr H from 2 d + 1 values of the loss of a network changed in place."""

    def value():
        return float(per_example_loss(network(inputs), targets, loss).mean())

    total = 0.0
    with torch.no_grad():
        base = value()
        for p in network.parameters():
            for i in range(p.numel()):
                flat, old = p.view(-1), float(p.view(-1)[i])
                flat[i] = old + h
                up = value()
                flat[i] = old - h
                total += (up - 2 * base + value()) / h**2
                flat[i] = old
    return total


def odd_networks():
    torch.manual_seed(1)
    plain = [nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)]
    weight_norm = nn.Sequential(*plain)
    nn.utils.parametrizations.weight_norm(weight_norm[1])
    spectral = nn.Sequential(nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    nn.utils.parametrizations.spectral_norm(spectral[1])
    return {"masked": TwoHeads(), "switching": Switching(), "weight_norm": weight_norm, "spectral": spectral}


@pytest.mark.parametrize("kind", ["masked", "switching", "weight_norm", "spectral"])
def test_traces_of_unusual_networks(kind, loss):
    network = odd_networks()[kind].double().eval()
    inputs, targets = data((1, 2, 2), loss, count=9)
    inputs[:2, 0, 0, 0] = -1.0  # the first examples take the other branch than the rest
    landscape = Landscape(network, inputs, targets, loss)
    expected = trace_by_differences(network, inputs, targets, loss)
    exact = hessian_trace(landscape, torch.Generator().manual_seed(0), probes=4, exact_below=512)
    assert exact.value == pytest.approx(expected, rel=1e-5)
    if kind != "weight_norm":  # whose second derivatives torch itself gets wrong
        assert exact.value == pytest.approx(true_trace(network, inputs, targets, loss), rel=1e-9)
    sampled = hessian_trace(landscape, torch.Generator().manual_seed(0), probes=40, exact_below=0)
    assert abs(sampled.value - expected) <= 4 * sampled.standard_error + 1e-5 * abs(expected)
    assert (exact.method == "gauss_newton") == (kind == "masked")


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("scale", [1.0, 30.0, 900.0])
def test_scalars_of_the_cross_entropy_are_one_fewer_than_classes_and_give_its_second_derivative(
    classes, scale
):
    logits = scale * torch.randn(5, classes, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for row in logits:
        outputs = row[None].clone().requires_grad_()
        scalars = gauss_newton_scalars(outputs, (), "cross_entropy")
        assert scalars.shape == (1, classes - 1)
        parts = torch.stack([torch.autograd.grad(s, outputs, retain_graph=True)[0][0] for s in scalars[0]])
        p = torch.softmax(row, 0)
        expected = torch.diag(p) - p[:, None] * p
        torch.testing.assert_close(parts.T @ parts, expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("name", ["gelu", "relu", "attention", "conv_bn"])
def test_the_residual_is_what_the_gauss_newton_matrix_leaves_out(name, loss, monkeypatch):
    landscape = landscape_of(name, loss)
    dense = dense_hessian(landscape.model, landscape.inputs, landscape.targets, loss)
    rest = dense - dense_gauss_newton(landscape)
    v = torch.randn(landscape.dimension, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    kept = Residual(landscape).product(v)
    torch.testing.assert_close(kept, rest @ v, rtol=1e-8, atol=1e-10)
    monkeypatch.setattr(residual, "KEPT_EXAMPLES", 0)
    assert torch.equal(Residual(landscape).product(v), kept)
    probes = ResidualProbes(landscape, torch.Generator().manual_seed(0), 3)
    first, second = list(probes), list(probes)
    monkeypatch.setattr(residual, "KEPT_NUMBERS", 0)
    third = list(ResidualProbes(landscape, torch.Generator().manual_seed(0), 3))
    for (z, image), again, anew in zip(first, second, third):
        assert set(z.tolist()) == {-1.0, 1.0}
        assert all(torch.equal(z, other[0]) and torch.equal(image, other[1]) for other in (again, anew))


class _Positions(nn.Module):
    """Parameters that broadcast over examples; `kind` says how."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.position, self.token = nn.Parameter(torch.randn(1, 3, 4)), nn.Parameter(torch.randn(1, 1, 4))
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = x.reshape(len(x), 2, 4)
        token = {
            "expand": lambda: self.token.expand(len(x), -1, -1),
            "repeat": lambda: self.token[:1].repeat(len(x), 1, 1),
            "mean": lambda: self.token.mean(0, keepdim=True).expand(len(x), -1, -1),
            "squeeze": lambda: self.token.view(1, 4).expand(len(x), 1, 4),
            "roll": lambda: self.token.expand(len(x), -1, -1).roll(1, 0),
        }[self.kind]()
        return self.head(torch.tanh(torch.cat([token, x], 1) + self.position).mean(1))


@pytest.mark.parametrize("kind", ["expand", "repeat", "mean", "squeeze", "roll"])
def test_parameters_that_broadcast_over_examples_have_gradients_of_single_examples(kind):
    torch.manual_seed(0)
    network = _Positions(kind).double().eval()
    x = torch.randn(6, 8, dtype=torch.float64)
    expected = []
    for row in x:
        outputs = network(row[None])[0]
        rows = [torch.autograd.grad(o, list(network.parameters()), retain_graph=True) for o in outputs]
        expected.append([sum(float(g.pow(2).sum()) for g in parts) for parts in rows])
    for chunk in (1, 2, 4, 6):
        found = squared_gradient_norms(network, x, lambda outputs: outputs, chunk)
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=0.0)
