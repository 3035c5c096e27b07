"""What proxies share is computed once and changes no value."""

import pytest
import torch
from torch import nn

import gapbench
from benchmark.symmetry import zoo
from gapbench.curvature import layer_forms, per_example, squared_gradients
from gapbench.curvature.loss import Landscape
from gapbench.curvature.squared_gradients import gauss_newton_diagonal
from gapbench.curvature.trace import adaptive_gauss_newton_trace, gauss_newton_trace
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.registry import checked_options, proxy_entry
from gapbench_base.errors import NotDefined

CHEAP = {"steps": 3, "samples": 3, "probes": 4}


def _options(entry, options):
    return checked_options(entry, {k: v for k, v in options.items() if k in entry.options})


def _measured(context, name):
    entry = proxy_entry(name)
    found = measure_in(context, entry, _options(entry, CHEAP), 3)
    return found.status, found.value, found.standard_error


@pytest.mark.parametrize("name", ["cnn bn", "vit cls 1", "mobilenet", "flat deep linear"])
def test_values_do_not_depend_on_which_other_proxies_are_measured(name):
    network, x = zoo.build(name), zoo.inputs(name, 8, seed=3)
    y = torch.randint(0, 3, (8,), generator=torch.Generator().manual_seed(7))
    names = list(gapbench.list_proxies())
    forwards, backwards = make_context(network, x, y), make_context(network, x, y)
    together = {n: _measured(forwards, n) for n in names}
    reversed_ = {n: _measured(backwards, n) for n in reversed(names)}
    for n in names:
        assert together[n] == reversed_[n], n
        assert _measured(make_context(network, x, y), n) == together[n], n


def test_quotient_traces_share_their_probes(monkeypatch):
    from gapbench.symmetry import traces

    calls = []
    plain = traces.tangent_trace
    monkeypatch.setattr(traces, "tangent_trace", lambda *a, **k: calls.append(1) or plain(*a, **k))
    context = make_context(zoo.build("vit cls 1"), zoo.inputs("vit cls 1", 8), torch.arange(8) % 3)
    whole, each = (
        _measured(context, n)[1] for n in ("hessian_trace_quotient", "hessian_trace_quotient_per_dimension")
    )
    assert len(calls) == 1
    left = context.landscape.dimension - context.symmetry.dimension
    assert whole / left == pytest.approx(each, rel=1e-12)


class _Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(2, 4, 3, padding=1, groups=2), nn.Conv2d(4, 6, 1)
        self.norm, self.last = nn.BatchNorm2d(4), nn.Linear(6, 5)
        self.layer_norm, self.scale = nn.LayerNorm(5), nn.Parameter(torch.rand(5) + 0.5)

    def forward(self, x):
        x = self.two(torch.relu(self.norm(self.one(x)))).mean((2, 3))
        return self.layer_norm(self.last(x)) * self.scale


class _Halves(nn.Module):
    """Layers of which only the weight or only the bias is a parameter, as folding a normalisation leaves them."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(2, 4, 3, bias=False), nn.Conv2d(4, 6, 1)
        self.norm, self.other = nn.BatchNorm2d(4), nn.BatchNorm2d(6)
        self.last, self.layer_norm = nn.Linear(6, 5), nn.LayerNorm(5)
        for layer, name in (
            (self.norm, "weight"),
            (self.other, "bias"),
            (self.two, "bias"),
            (self.last, "weight"),
            (self.layer_norm, "weight"),
        ):
            value = torch.rand_like(layer._parameters[name].detach()) + 0.5
            del layer._parameters[name]
            layer.register_buffer(name, value)

    def forward(self, x):
        x = self.other(self.two(torch.relu(self.norm(self.one(x))))).mean((2, 3))
        return self.layer_norm(self.last(x))


def test_constant_halves_of_layers_leave_the_other_half_to_the_formula():
    torch.manual_seed(0)
    network = _Halves().double().eval()
    x, y = torch.randn(5, 2, 5, 5, dtype=torch.float64), torch.randint(0, 5, (5,))
    landscape = Landscape(network, x, y, "cross_entropy")
    passes = per_example.layer_passes(network, x, landscape.scalars)
    assert passes.names == {name for name, _ in network.named_parameters()}
    assert not passes.copies
    scalars = landscape.scalars(network(x)).reshape(-1)
    single = torch.stack(
        [
            torch.cat(
                [g.reshape(-1) for g in torch.autograd.grad(s, network.parameters(), retain_graph=True)]
            )
            for s in scalars
        ]
    )
    squares = single.pow(2)
    norms = per_example.squared_gradient_norms(network, x, landscape.scalars)
    assert torch.allclose(norms.reshape(-1), squares.sum(1), rtol=1e-10, atol=0.0)
    assert torch.allclose(gauss_newton_diagonal(landscape), squares.sum(0) / 5, rtol=1e-10, atol=1e-18)


def test_a_balanced_residual_network_goes_by_layers():
    """Folded normalisations keep their biases alone, which single examples were differentiated for."""
    network = gapbench.build_model("torchvision/resnet18", 0.125, (1, 8, 8), 10, seed=0, depth=1).eval()
    x, y = torch.randn(4, 1, 8, 8), torch.randint(0, 10, (4,))
    at_balance = make_context(network, x, y).balanced
    passes = per_example.layer_passes(at_balance.model, x, at_balance.landscape.scalars)
    assert passes.names == {name for name, _ in at_balance.model.named_parameters()}


@pytest.mark.parametrize(("held", "together"), [(layer_forms.HELD, per_example.TOGETHER), (1.0, 1.0)])
def test_traces_by_layers_are_those_of_single_gradients(held, together, monkeypatch):
    torch.manual_seed(0)
    network = _Layers().double().eval()
    x, y = torch.randn(6, 2, 5, 5, dtype=torch.float64), torch.randint(0, 5, (6,))
    landscape = Landscape(network, x, y, "cross_entropy")
    parameters = dict(network.named_parameters())
    scalars = landscape.scalars(network(x))
    single = torch.stack(
        [
            torch.cat(
                [g.reshape(-1) for g in torch.autograd.grad(s, network.parameters(), retain_graph=True)]
            )
            for s in scalars.reshape(-1)
        ]
    ).reshape(*scalars.shape, -1)
    squares = single.pow(2)
    slow = per_example._by_vmap(network, parameters, x, landscape.scalars, scalars.shape[1])
    assert torch.allclose(slow, squares.sum(2), rtol=1e-10, atol=0.0)
    monkeypatch.setattr(layer_forms, "HELD", held)
    monkeypatch.setattr(per_example, "TOGETHER", together)
    fast = per_example.squared_gradient_norms(network, x, landscape.scalars, 4)
    assert torch.allclose(fast, squares.sum(2), rtol=1e-10, atol=0.0)
    monkeypatch.setattr(layer_forms, "BLOCK", min(layer_forms.BLOCK, held))
    weighted = squares.sum((0, 1)) @ landscape.theta().pow(2)
    assert adaptive_gauss_newton_trace(landscape) == pytest.approx(float(weighted) / 6, rel=1e-10)
    assert landscape.reused == 0
    assert gauss_newton_trace(landscape) == pytest.approx(float(squares.sum()) / 6, rel=1e-10)
    assert torch.allclose(gauss_newton_diagonal(landscape), squares.sum((0, 1)) / 6, rtol=1e-10, atol=0.0)
    assert landscape.reused > 0


def test_single_gradients_that_two_ways_add_up_differently_are_refused(monkeypatch):
    torch.manual_seed(0)
    network = _Layers().double().eval()
    x, y = torch.randn(6, 2, 5, 5, dtype=torch.float64), torch.randint(0, 5, (6,))
    right = squared_gradients.squared_gradient_norms

    def wrong(*arguments):
        return right(*arguments) * (1.0 + 1e-6)

    monkeypatch.setattr(squared_gradients, "squared_gradient_norms", wrong)
    for asked in (gauss_newton_trace, adaptive_gauss_newton_trace, gauss_newton_diagonal):
        with pytest.raises(NotDefined, match="could not be told apart"):
            asked(Landscape(network, x, y, "cross_entropy"))
