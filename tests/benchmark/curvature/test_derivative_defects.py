"""Networks whose derivatives are wrong for some examples, somewhere else, or behind a zero: refused, or mended."""

import pytest
import torch
from torch import nn

import gapbench
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.registry import checked_options, proxy_entry


class Halved(torch.autograd.Function):
    """The identity, whose backward pass gives half."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * 0.5


class Clipped(torch.autograd.Function):
    """ReLU, whose backward pass forgets what is above 6."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ((x > 0) & (x < 6)).to(g)


class OnceOnly(torch.autograd.Function):
    """tanh, whose backward pass is right but differentiates to 0."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (1 - x.detach().tanh() ** 2)


class Refusing(torch.autograd.Function):
    """The identity, whose backward pass raises what nobody expects."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        raise ValueError("no backward here")


class Net(nn.Module):
    """Two layers; `kind` says where a function is used, `right` takes the true one in its place."""

    def __init__(self, kind, right):
        super().__init__()
        self.kind, self.right = kind, right
        self.a, self.o = nn.Linear(4, 8), nn.Linear(8, 4)
        with torch.no_grad():
            if kind == "elsewhere":
                self.a.weight.mul_(0.1)
                self.a.bias.mul_(0.1)
                self.o.weight.mul_(100)
            if kind == "kink":
                self.a.weight[0], self.a.bias[0] = 0, 0
            if kind == "pruned":
                self.o.weight[:, 4:] = 0

    def forward(self, x):
        h, right = self.a(x), self.right
        if self.kind == "elsewhere":
            return self.o(torch.relu(h) if right else Clipped.apply(h))
        if self.kind == "pruned":
            b = h[:, 4:]
            return self.o(torch.cat([torch.tanh(h[:, :4]), b if right else Halved.apply(b)], 1))
        some = (x[:, :1] > 2.0).to(h)
        if self.kind == "kink":
            h = torch.relu(h)
            return self.o(some * (h if right else Halved.apply(h)) + (1 - some) * h)
        inner = torch.tanh(3 * h) if right else OnceOnly.apply(3 * h)
        return self.o(some * inner + (1 - some) * torch.tanh(h))


def case(kind, right=False):
    generator = torch.Generator().manual_seed(0)
    n = 40 if kind == "elsewhere" else 200
    x = torch.randn(n, 4, generator=generator, dtype=torch.float64) * (3 if kind == "elsewhere" else 1)
    y = torch.randint(0, 4, (n,), generator=generator)
    x[:, 0] = x[:, 0].clamp(max=1.9) if kind != "elsewhere" else x[:, 0]
    if kind in ("kink", "second"):  # a quarter of the examples, none of the few that are looked at closely
        few = torch.linspace(0, n - 1, 8).long().tolist()
        x[[i for i in range(3, n, 4) if i not in few], 0] = 3.0
    torch.manual_seed(1 if kind == "elsewhere" else 5)
    return Net(kind, right).double(), x, y


@pytest.mark.parametrize(
    ("kind", "proxies"),
    [
        (
            "elsewhere",
            ["hessian_trace_balanced", "hessian_top_eigenvalue_balanced", "sharpness_full_balanced"],
        ),
        ("kink", ["hessian_trace", "adaptive_trace", "hessian_top_eigenvalue", "sharpness_full"]),
        ("pruned", ["hessian_top_eigenvalue", "sharpness_full"]),
    ],
)
def test_wrong_gradients_are_refused(kind, proxies):
    for proxy in proxies:
        found = gapbench.measure(proxy, *case(kind))
        assert found.status == "not_applicable", proxy
        assert "not the derivative of the network's outputs" in found.reason
        assert gapbench.measure(proxy, *case(kind, right=True)).status == "ok"


@pytest.mark.parametrize("proxy", ["hessian_trace", "adaptive_trace", "hessian_top_eigenvalue"])
def test_wrong_second_derivatives_of_some_examples_are_replaced(proxy):
    found, right = (gapbench.measure(proxy, *case("second", right)).value for right in (False, True))
    assert found == pytest.approx(right, rel=1e-6)


def test_a_network_that_is_right_where_it_is_measures_there():
    found, right = (gapbench.measure("hessian_trace", *case("elsewhere", r)).value for r in (False, True))
    assert found == pytest.approx(right, rel=1e-10)


@pytest.mark.parametrize("proxy", ["sharpness_average_full", "sharpness_average_adaptive"])
def test_averages_need_no_derivatives(proxy):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    x, y = torch.randn(20, 4, dtype=torch.float64), torch.randint(0, 3, (20,))
    plain = gapbench.measure(proxy, network, x, y)

    class Guarded(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network

        def forward(self, x):
            return Refusing.apply(self.inner(x))

    found = gapbench.measure(proxy, Guarded(), x, y)
    assert found.status == "ok"
    assert (plain.details["control_variate"], found.details["control_variate"]) == (True, False)
    assert abs(found.value - plain.value) < 4 * (found.standard_error**2 + plain.standard_error**2) ** 0.5


def test_an_ascent_leaves_a_saddle_it_starts_on():
    """Least squares in which the gradient is an eigenvector of the smallest curvature."""
    torch.manual_seed(1000)
    q, _ = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))
    x = torch.stack([q[0], q[1] * 1000**0.5, q[2] * 0.5])
    weight = torch.randn(6, dtype=torch.float64)
    network = nn.Linear(6, 1, bias=False).double()
    with torch.no_grad():
        network.weight.copy_(weight[None])
    y = (x @ weight)[:, None].clone()
    y[0] -= 0.5
    found = gapbench.measure("sharpness_full", network, x, y, loss="mse", radius=1.0)
    # 0.5 / 3 (1000 a^2 + (b + 0.5)^2 - 0.25 + c^2 / 4) over a^2 + b^2 + c^2 <= 1, largest near b = 0.0005.
    b = torch.linspace(0.0, 0.001, 100_001, dtype=torch.float64)
    expected = float((0.5 / 3 * (1000 * (1 - b**2) + (b + 0.5) ** 2 - 0.25)).max())
    assert found.value == pytest.approx(expected, rel=1e-9)


def test_the_error_of_the_quotient_trace_is_that_of_its_own_samples():
    """Both of its terms are averages over the same vectors, whose errors go together."""
    torch.manual_seed(0)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(4, 4, bias=False) for _ in range(3))
            self.o = nn.Linear(4, 3)

        def forward(self, x):
            x = x.reshape(len(x), 3, 4)
            weights = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 2, 2)
            return self.o(torch.tanh(weights @ self.v(x)).mean(1))

    network = Attention().double().eval()
    x, y = torch.randn(16, 12, dtype=torch.float64), torch.randint(0, 3, (16,))
    entry = proxy_entry("hessian_trace_quotient")
    options = checked_options(entry, {"probes": 16, "exact_below": 0})
    errors, values = [], []
    for seed in range(60):
        context = make_context(network, x, y)
        found = measure_in(context, entry, options, seed)
        assert found.details["along_orbit_method"] in ("probes", "basis")
        errors.append(found.standard_error)
        values.append(found.value)
    spread = float(torch.tensor(values, dtype=torch.float64).std())
    assert 0.75 < spread / (sum(e**2 for e in errors) / len(errors)) ** 0.5 < 1.3
