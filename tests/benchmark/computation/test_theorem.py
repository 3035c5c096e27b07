"""Where the spectral margin bound is one, and what its reference is."""

import pytest
import torch
from torch import nn

import gapbench
from benchmark.computation.constants import Block, Function, matrix_of, randomised, seeded


def plain(*layers):
    return seeded(lambda: nn.Sequential(*layers))


IS_BOUND = {
    "chain": (
        lambda: plain(nn.Flatten(), nn.Linear(16, 4, bias=False), nn.ReLU(), nn.Linear(4, 3, bias=False)),
        True,
    ),
    "convolutions": (
        lambda: plain(
            nn.ReflectionPad2d(1),
            nn.Conv2d(1, 2, 3, bias=False),
            nn.GELU(),
            nn.MaxPool2d(3, 2),
            nn.Flatten(),
            nn.Linear(2, 3, bias=False),
        ),
        True,
    ),
    "same_tensor_twice": (
        lambda: plain(nn.Flatten(), Function(lambda x: torch.cat([x, x], 1)), nn.Linear(32, 3, bias=False)),
        True,
    ),
    "zero_bias": (lambda: zeroed(plain(nn.Flatten(), nn.Linear(16, 3))), True),
    "bias": (lambda: plain(nn.Flatten(), nn.Linear(16, 3)), False),
    "sigmoid": (
        lambda: plain(nn.Flatten(), nn.Linear(16, 4, bias=False), nn.Sigmoid(), nn.Linear(4, 3, bias=False)),
        False,
    ),
    "softplus": (
        lambda: plain(nn.Flatten(), nn.Linear(16, 4, bias=False), nn.Softplus(), nn.Linear(4, 3, bias=False)),
        False,
    ),
    "learned_slope": (
        lambda: plain(nn.Flatten(), nn.Linear(16, 4, bias=False), nn.PReLU(), nn.Linear(4, 3, bias=False)),
        False,
    ),
    "shift": (lambda: plain(nn.Flatten(), Function(lambda x: x - 0.5), nn.Linear(16, 3, bias=False)), False),
    "constant_padding": (
        lambda: plain(nn.ConstantPad2d(1, 1.0), nn.Flatten(), nn.Linear(36, 3, bias=False)),
        False,
    ),
    "batch_norm_with_a_shift": (
        lambda: plain(
            nn.Conv2d(1, 2, 3, bias=False),
            randomised(nn.BatchNorm2d(2)),
            nn.Flatten(),
            nn.Linear(8, 3, bias=False),
        ),
        False,
    ),
    "residual": (
        lambda: plain(
            nn.Conv2d(1, 2, 3, bias=False),
            Block(nn.Conv2d(2, 2, 1, bias=False)),
            nn.Flatten(),
            nn.Linear(8, 3, bias=False),
        ),
        False,
    ),
    "concatenation": (
        lambda: plain(
            nn.Conv2d(1, 2, 3, bias=False),
            Block(nn.ReLU(), join="cat"),
            nn.Flatten(),
            nn.Linear(24, 3, bias=False),
        ),
        False,
    ),
}


def zeroed(network):
    for name, p in network.named_parameters():
        if "bias" in name:
            nn.init.zeros_(p)
    return network


@pytest.mark.parametrize("name", sorted(IS_BOUND))
def test_is_bound_only_where_the_theorem_holds(name):
    build, expected = IS_BOUND[name]
    network = build()
    x = torch.randn(9, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = gapbench.measure("spectral_margin_bound", network, x, network(x).argmax(1), gamma=0.1)
    assert found.status == "ok", found.reason
    assert found.details["is_bound"] is expected
    assert bool(found.details["why_not_bound"]) is not expected


def test_the_initial_reference_has_the_statistics_of_the_training_inputs():
    def build(seed):
        torch.manual_seed(seed)
        layers = nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)
        )
        return layers.double().eval()

    model, initial = build(0), build(1)
    randomised(model[1])
    x = 3.0 + 2.0 * torch.randn(40, 1, 4, 4, dtype=torch.float64)
    y = model(x).argmax(1)
    before = {k: v.clone() for k, v in initial.state_dict().items()}
    found = gapbench.measure(
        "spectral_margin_bound", model, x, y, initial=initial, gamma=0.1, reference="initial"
    )
    with torch.no_grad():
        hidden = initial[0](x)
    variance = hidden.transpose(0, 1).flatten(1).var(dim=1, unbiased=True)

    def folded(network, variance):
        scale = network[1].weight.detach() / (variance + 1e-5).sqrt()
        flat = matrix_of(network[0], (1, 4, 4))
        return flat * scale.repeat_interleave(4)[:, None]

    difference = folded(model, model[1].running_var) - folded(initial, variance)
    assert found.details["norm_2_1"][0] == pytest.approx(float(difference.norm(dim=1).sum()), rel=1e-9)
    assert found.details["reference_statistics"] == "training inputs"
    assert all(torch.equal(v, before[k]) for k, v in initial.state_dict().items())
    assert not initial.training


def test_a_network_without_layers_has_no_bound():
    x = torch.randn(5, 3, dtype=torch.float64)
    found = gapbench.measure(
        "spectral_margin_bound", nn.Sequential(nn.PReLU()).double(), x, x.argmax(1), gamma=0.1
    )
    assert found.status == "not_applicable"
    assert "no linear layer" in found.reason
