"""Slopes of activations, as modules, functions and formulas, by dense maximisation; what has none is refused."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from benchmark.computation.constants import Function, composed, constant
from gapbench.computation.activations import KNOWN
from gapbench.computation.lipschitz import NoLipschitzConstant

ACTIVATIONS = [
    nn.ReLU(),
    nn.ReLU6(),
    nn.LeakyReLU(0.2),
    nn.LeakyReLU(3.0),
    nn.LeakyReLU(-2.0),
    nn.PReLU(init=-1.7),
    nn.RReLU(1.5, 2.5),
    nn.ELU(),
    nn.ELU(0.3),
    nn.ELU(2.5),
    nn.SELU(),
    nn.CELU(0.3),
    nn.CELU(4.0),
    nn.GELU(),
    nn.GELU("tanh"),
    nn.SiLU(),
    nn.Mish(),
    nn.Hardswish(),
    nn.Hardtanh(-2.0, 0.5),
    nn.Hardsigmoid(),
    nn.Sigmoid(),
    nn.Tanh(),
    nn.LogSigmoid(),
    nn.Softplus(),
    nn.Softplus(3.0),
    nn.Softsign(),
    nn.Tanhshrink(),
    nn.Softshrink(0.3),
    nn.Threshold(0.5, 0.5),
    Function(torch.erf),
    Function(torch.sin),
    Function(torch.atan),
    Function(lambda x: x.clamp(-1, 2)),
    Function(lambda x: x.abs()),
    Function(lambda x: -x),
    Function(lambda x: x * torch.sigmoid(x)),
    Function(lambda x: torch.sigmoid(x) * x),
    Function(lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))),
    Function(lambda x: x * (0.5 + 0.5 * torch.erf(x * math.sqrt(0.5)))),
    Function(lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    Function(lambda x: x * torch.tanh(F.softplus(x))),
    Function(lambda x: x * F.relu6(x + 3) / 6),
    Function(lambda x: x / (1 + x.abs())),
    Function(lambda x: x - x.tanh()),
    Function(lambda x: x * torch.sigmoid(1.702 * x)),
    Function(lambda x: x / (1 + torch.exp(-x))),
    Function(lambda x: torch.maximum(x, torch.tensor(0.1).double())),
    Function(lambda x: F.relu_(2 * x)),
]


@pytest.mark.parametrize("index", range(len(ACTIVATIONS)))
def test_slopes_are_the_largest_derivatives(index):
    activation = ACTIVATIONS[index].double().eval()
    grid = torch.linspace(-60.0, 60.0, 1_200_003, dtype=torch.float64, requires_grad=True)
    (derivative,) = torch.autograd.grad(activation(grid.clone()).sum(), grid)
    largest = float(derivative.abs().max())
    claimed = constant(activation, (1,))
    assert largest <= claimed * (1 + 1e-7)  # torch's slope of hardsigmoid is rounded to float32
    assert claimed <= largest * (1 + 1e-5)
    jumps = (activation(grid)[1:] - activation(grid)[:-1]).abs() / (grid[1:] - grid[:-1])
    assert float(jumps.detach().max()) <= claimed * (1 + 1e-8)


@pytest.mark.parametrize("index", range(len(KNOWN)))
def test_constants_of_known_activations_to_full_precision(index):
    function, claimed = KNOWN[index]
    grid = torch.linspace(-8.0, 8.0, 2_000_001, dtype=torch.float64)
    values = function(grid)
    top = int((values[1:] - values[:-1]).argmax())  # of the tops at +x; refined by the derivative around it
    fine = torch.linspace(
        float(grid[top]) - 1e-3, float(grid[top]) + 1e-3, 100_001, dtype=torch.float64, requires_grad=True
    )
    (slopes,) = torch.autograd.grad(function(fine).sum(), fine)
    assert float(slopes.max()) == pytest.approx(
        claimed, rel=1e-5 if function in (F.softsign, F.tanhshrink, F.hardswish) else 1e-9
    )


REFUSED = {
    "glu": Function(lambda x: F.glu(x)),
    "threshold": nn.Threshold(0.1, 20.0),
    "hardshrink": nn.Hardshrink(0.5),
    "softplus_with_a_jump": nn.Softplus(1.0, 1.0),
    "celu": Function(lambda x: F.celu(x, -1.0)),
    "gate": Function(lambda x: x * torch.sigmoid(x.flip(1))),
    "square": Function(lambda x: x * x),
    "power": Function(lambda x: x**2),
    "quotient": Function(lambda x: 1.0 / (2.0 + x)),
    "swish_of_other_scale": Function(lambda x: x * torch.sigmoid(x) ** 2),
    "sort_of_step": Function(lambda x: torch.heaviside(x, x)),
    "rounded": Function(lambda x: x.round()),
    "argmax": Function(lambda x: x.max(1).indices.double()),
    "across_the_batch": Function(lambda x: x - x.mean(0)),
    "noise": Function(lambda x: x + torch.randn_like(x)),
    "in_slices": Function(lambda x: torch.cat([x, x.data.exp()], 1)),
    "to_integers": Function(lambda x: x.long().double()),
    "condition": Function(lambda x: torch.where(x > 0, x + 1, x)),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_has_no_constant_is_refused(name):
    with pytest.raises(NoLipschitzConstant):
        composed(nn.Sequential(REFUSED[name]).double(), (4,))
