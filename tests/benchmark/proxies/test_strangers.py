"""A right number or a clear refusal on networks of the kinds that people bring."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import gapbench
from benchmark.proxies import strangers
from gapbench.curvature.loss import Landscape
from gapbench_base.errors import GapbenchError

GOOD, MIXING, WRONG = strangers.strangers(), strangers.mixing(), strangers.wrong_gradients()
DERIVED = [
    "hessian_trace",
    "adaptive_trace",
    "hessian_top_eigenvalue",
    "sharpness_full",
    "sharpness_quotient",
]
# Each kind of value once: outputs, derivatives, perturbations, the group, the balanced representative.
KINDS = [
    "train_loss",
    "inverse_margin",
    "hessian_trace_quotient",
    "hessian_top_eigenvalue",
    "adaptive_trace",
    "sharpness_full",
    "sharpness_average_quotient",
    "sharpness_average_adaptive",
    "hessian_trace_balanced",
    "spectral_margin_bound",
]


def measured(proxy, stranger, **options):
    return gapbench.measure(
        proxy, stranger.network, stranger.inputs, stranger.targets, loss=stranger.loss, **options
    )


@pytest.mark.parametrize("name", [*GOOD, *MIXING])
def test_loss_and_traces_are_those_of_differences_of_the_loss(name):
    stranger = strangers.make({**GOOD, **MIXING}[name])
    assert measured("train_loss", stranger).value == pytest.approx(
        float(strangers.loss_of(stranger)()), rel=1e-12
    )
    for proxy, squared in (("hessian_trace", False), ("adaptive_trace", True)):
        found = measured(proxy, stranger)
        assert found.status == "ok"
        assert found.standard_error == 0.0
        expected = strangers.trace_by_differences(stranger, squared=squared)
        assert found.value == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", list(GOOD))
def test_sampled_traces_agree_with_exact_ones(name):
    stranger = strangers.make(GOOD[name])
    exact, sampled = measured("hessian_trace", stranger), measured("hessian_trace", stranger, exact_below=0)
    error = sampled.standard_error
    assert abs(sampled.value - exact.value) <= 5 * error + 1e-6 * abs(exact.value)


@pytest.mark.parametrize("name", list(WRONG))
def test_derivatives_that_are_not_the_derivative_are_refused(name):
    stranger = strangers.make(WRONG[name])
    for proxy in DERIVED:
        found = measured(proxy, stranger)
        assert found.status == "not_applicable"
        assert "not the derivative" in found.reason or "no symmetry" in found.reason
    assert measured("train_loss", stranger).value == pytest.approx(
        float(strangers.loss_of(stranger)()), rel=1e-12
    )


@pytest.mark.parametrize("name", ["once differentiable", "slope saved as a number"])
def test_second_derivatives_come_from_differences_where_they_are_wrong(name):
    stranger = strangers.make(GOOD[name])
    found = measured("hessian_trace", stranger)
    assert "differences of gradients" in found.details["hessian_products"]
    landscape = Landscape(stranger.network, stranger.inputs, stranger.targets, stranger.loss)
    rows = torch.stack([landscape.hessian_product(row) for row in torch.eye(landscape.dimension).double()])
    assert (rows - rows.T).abs().max() <= 1e-6 * rows.abs().max()
    top = measured("hessian_top_eigenvalue", stranger)
    assert top.value == pytest.approx(float(torch.linalg.eigvalsh((rows + rows.T) / 2)[-1]), rel=1e-5)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(
    "proxy", ["sharpness_full", "sharpness_adaptive", "hessian_top_eigenvalue", "sharpness_average_full"]
)
def test_checkpointing_changes_nothing(proxy, reentrant):
    saved = strangers.make(lambda: strangers._checkpointed(reentrant))
    plain = copy.deepcopy(saved.network)
    plain.run = lambda s, x: s.h(torch.tanh(s.b(torch.tanh(s.b2(torch.tanh(s.a(x)))))))
    options = {} if "eigenvalue" in proxy else {"radius": 1.0}
    values = [
        gapbench.measure(proxy, network, saved.inputs, saved.targets, **options).value
        for network in (saved.network, plain)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


SPLIT = ["convolution 1d", "tied", "sequence of logits", "batch centred", "squeezed", "one output"]


@pytest.mark.parametrize(
    ("name", "proxy"),
    [("prelu", proxy) for proxy in gapbench.list_proxies()] + [(n, proxy) for n in SPLIT for proxy in KINDS],
)
def test_values_do_not_depend_on_how_many_examples_are_evaluated_at_once(name, proxy):
    stranger = strangers.make({**GOOD, **MIXING}[name])
    found = [measured(proxy, stranger, batch_size=size) for size in (1, 7, None)]
    assert len({f.status for f in found}) == 1
    if found[0].status == "ok":
        for other in found[1:]:
            assert other.value == pytest.approx(found[0].value, rel=1e-8, abs=1e-12)
        assert ("batch" in found[0].details) == (name in MIXING)


def trained_network(*layers):
    torch.manual_seed(0)
    network = nn.Sequential(*layers)
    x, y = torch.randn(64, 16), torch.randint(0, 4, (64,))
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network.eval(), x, y


HALVES = {
    "mlp": lambda: trained_network(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)),
    "batch norm": lambda: trained_network(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4)),
    "wide": lambda: trained_network(
        nn.Linear(16, 900), nn.GELU(), nn.Linear(900, 32), nn.GELU(), nn.Linear(32, 4)
    ),
}


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", list(HALVES))
def test_half_precision_is_measured_in_copies(name, kind):
    network, x, y = HALVES[name]()
    half, inputs = network.to(kind), x.to(kind)
    exact = copy.deepcopy(half).double()
    weights = {k: v.clone() for k, v in half.state_dict().items()}
    for proxy, options in (
        ("sharpness_average_full", {"radius": 0.1}),
        ("sharpness_full", {"radius": 0.01}),
        ("sharpness_average_adaptive", {"radius": 0.01}),
        ("hessian_top_eigenvalue", {}),
        ("hessian_trace_balanced", {}),
    ):
        a = gapbench.measure(proxy, half, inputs, y, **options)
        b = gapbench.measure(proxy, exact, inputs.double(), y, **options)
        assert a.status == b.status == "ok"
        assert a.value == pytest.approx(b.value, rel=0.05)
        assert a.details["dtype"] == ("float32" if name == "wide" else "float64")
        assert str(kind).removeprefix("torch.") in a.details["precision"]
    assert all(
        v.dtype == weights[k].dtype and torch.equal(v, weights[k]) for k, v in half.state_dict().items()
    )


def test_networks_of_several_types_are_measured_in_the_widest():
    network, x, y = HALVES["batch norm"]()
    expected = gapbench.measure("hessian_trace", copy.deepcopy(network).double(), x.double(), y).value
    network[1].double()
    found = gapbench.measure("hessian_trace", network, x, y)
    assert found.details["dtype"] == "float64"
    assert found.value == pytest.approx(expected, rel=1e-9)


def test_lower_precision_inside_the_network_is_refused():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.inner(x)

    network, x, y = Inside(), torch.randn(20, 16), torch.randint(0, 4, (20,))
    for proxy in ("sharpness_average_full", "sharpness_full", "hessian_trace"):
        found = gapbench.measure(proxy, network, x, y)
        assert found.status == "not_applicable"
        assert "inside" in found.reason


@pytest.mark.parametrize("kind", ["autocast", "half", "all outputs"])
def test_lower_precision_behind_float32_outputs_is_refused(kind):
    def forward(s, x):
        if kind == "half":
            return s.h(torch.relu(s.a(x)).half().float())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = s.a(x)
            z = s.h(torch.relu(z)) if kind == "all outputs" else z
        return z.float() if kind == "all outputs" else s.h(torch.relu(z).float())

    torch.manual_seed(0)
    network = strangers.Function(forward, a=nn.Linear(4, 6), h=nn.Linear(6, 3))
    x, y = torch.randn(20, 4), torch.randint(0, 3, (20,))
    for proxy in ("sharpness_average_full", "sharpness_full", "hessian_trace", "sharpness_average_adaptive"):
        found = gapbench.measure(proxy, network, x, y)
        if kind == "half" and found.status == "ok":  # float16 may round by less than is looked for
            continue
        assert found.status == "not_applicable"
        assert "precision inside" in found.reason


def test_float64_copies_compute_in_float64_whatever_the_network_asks_for():
    """Images as bytes, states made inside: what a float32 network makes in float32, its copy makes in float64."""
    torch.manual_seed(0)
    images = strangers.Function(
        lambda s, x: s.n(x.float() / 255),
        n=nn.Sequential(nn.Flatten(), nn.Linear(36, 5), nn.ReLU(), nn.Linear(5, 3)),
    )
    recurrent = strangers.Function(
        lambda s, x: s.h(s.r(x, torch.zeros(1, len(x), 3))[0][:, -1]),
        r=nn.GRU(4, 3, batch_first=True),
        h=nn.Linear(3, 3),
    )
    y = torch.randint(0, 3, (20,))
    for network, x in (
        (images, torch.randint(0, 255, (20, 1, 6, 6)).to(torch.uint8)),
        (recurrent, torch.randn(20, 5, 4)),
    ):
        double = copy.deepcopy(network).double()
        if network is images:
            double.run = lambda s, x: s.n(x / 255)
        else:
            double.run = lambda s, x: s.h(s.r(x, torch.zeros(1, len(x), 3).double())[0][:, -1])
        exact = gapbench.measure("hessian_trace", double, x.double(), y)
        assert gapbench.measure("hessian_trace", network, x, y).value == pytest.approx(exact.value, rel=1e-4)
        assert gapbench.measure("sharpness_full", network, x, y).status == "ok"


class Unsteady(nn.Module):
    """A linear network that changes, or changes its outputs, whenever it is evaluated."""

    def __init__(self, kind):
        super().__init__()
        self.inner, self.kind, self.count = nn.Linear(4, 3), kind, 0
        self.generator = torch.Generator()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        if self.kind == "dropout":
            return self.inner(F.dropout(x, 0.5, training=True))
        if self.kind == "generator":
            return self.inner(x + 0.1 * torch.randn(x.shape, generator=self.generator))
        if self.kind == "count":
            return self.inner(x) * (1 + 0.01 * self.count)
        if self.kind == "replaced":
            self.calls = self.calls + 1
        else:
            self.calls += 1
        return self.inner(x) * (1 + 0.01 * self.calls if self.kind == "buffer" else 1)


TWICE = "the network gives different outputs for the same inputs: "
CHANGES = "the network does not stay as it is when it is evaluated: "


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("dropout", TWICE + "it draws random numbers in eval mode"),
        ("generator", TWICE + "its forward keeps count of its calls, or draws from a generator of its own"),
        ("count", TWICE + "its forward keeps count of its calls"),
        ("buffer", TWICE + "its forward changes its own buffer calls"),
        ("unused", CHANGES + "its forward changes its own buffer calls"),
        ("replaced", CHANGES + "its forward replaced parameters or buffers of the network"),
    ],
)
def test_a_network_that_is_never_the_same_twice_is_told_so_and_no_proxy_is_blamed(kind, said):
    x, y = torch.randn(20, 4), torch.randint(0, 3, (20,))
    network = Unsteady(kind)
    state = torch.get_rng_state()
    for proxy in ("train_loss", "sharpness_average_full", "hessian_trace", "param_norm"):
        found = gapbench.measure(proxy, network, x, y)
        assert (found.status, found.value) == ("failed", None)
        assert found.reason.startswith(said)
    assert network.calls == 0
    assert torch.equal(torch.get_rng_state(), state)
    table = gapbench.measure_all(network, x, y, ["train_loss", "param_norm"], progress=False)
    assert all(reason.startswith(said) for reason in table["reason"])


def test_a_network_that_is_called_otherwise_is_measured_through_forward():
    class Two(nn.Module):
        def __init__(self, plain):
            super().__init__()
            self.plain = plain

        def forward(self, x, scale, *, extra):
            return {"logits": self.plain(x * scale), "extra": extra}

    x, y = torch.randn(20, 4), torch.randint(0, 3, (20,))
    plain = nn.Linear(4, 3)
    with pytest.raises(
        gapbench.GapbenchError, match=r"forward=lambda network, inputs: network\(inputs, \.\.\.\)"
    ):
        gapbench.measure("train_loss", Two(plain), x, y)

    def call(network, inputs):
        return network(inputs, 2.0, extra=None)["logits"]

    names = ["train_loss", "hessian_trace", "sharpness_full"]
    found = gapbench.measure_all(Two(plain), x, y, names, forward=call, progress=False)
    expected = gapbench.measure_all(plain, 2.0 * x, y, names, progress=False)
    assert (found["status"] == "ok").all()
    assert list(found["value"]) == pytest.approx(list(expected["value"]), rel=1e-4)
    alone = gapbench.measure("hessian_trace", Two(plain), x, y, forward=call)
    assert alone.value == pytest.approx(found.loc["hessian_trace", "value"], rel=1e-6)


def test_a_kink_at_the_parameters_hides_no_wrong_second_derivative():
    """Zero biases and black images: gradients jump at the parameters themselves."""
    torch.manual_seed(0)
    x, y = torch.randn(20, 4).double(), torch.randint(0, 3, (20,))
    x[:6] = 0.0
    parts = {"a": nn.Linear(4, 5), "b": nn.Linear(5, 5), "h": nn.Linear(5, 3)}
    nn.init.zeros_(parts["a"].bias)
    right = strangers.Function(lambda s, x: s.h(F.softplus(s.b(torch.relu(s.a(x))))), **parts).double()
    wrong = strangers.Function(
        lambda s, x: s.h(strangers.Softplus.apply(s.b(torch.relu(s.a(x))))), **copy.deepcopy(parts)
    ).double()
    assert gapbench.measure("hessian_trace", right, x, y).status == "ok"
    found = gapbench.measure("hessian_trace", wrong, x, y)
    assert found.status == "not_applicable"


def test_differences_of_gradients_do_not_step_over_kinks():
    torch.manual_seed(0)
    x, y = torch.randn(1000, 4).double(), torch.randint(0, 3, (1000,))
    parts = {"a": nn.Linear(4, 20), "b": nn.Linear(20, 20), "h": nn.Linear(20, 3)}
    spelled = [
        strangers.Function(lambda s, x: s.h(torch.relu(s.b(F.hardsigmoid(s.a(x))))), **parts).double(),
        strangers.Function(
            lambda s, x: s.h(torch.relu(s.b((s.a(x) / 6 + 0.5).clamp(0, 1)))), **parts
        ).double(),
    ]
    found = [gapbench.measure("hessian_trace", n, x, y) for n in spelled]
    assert found[1].details["method"] == "gauss_newton"
    assert found[0].status == "not_applicable" or found[0].value == pytest.approx(found[1].value, rel=1e-4)


def test_a_module_under_two_names_is_measured_and_left_whole():
    stranger = strangers.make(strangers.strangers()["one module twice"])
    with torch.no_grad():
        before = stranger.network(stranger.inputs)
    for proxy in ("hessian_trace", "sharpness_full", "sharpness_average_full"):
        assert measured(proxy, stranger).status == "ok"
    assert all(isinstance(p, nn.Parameter) and p.is_leaf for p in stranger.network.parameters())
    assert torch.equal(stranger.network(stranger.inputs), before)


def captured(kind):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            a, h = nn.Linear(4, 6), nn.Linear(6, 3)
            self.a, self.h = a, h
            self.go = lambda x: h(torch.relu(a(x)))
            self.plain = [a.weight]

        def forward(self, x):
            if kind == "layers in a function":
                return self.go(x)
            return self.h(torch.relu(F.linear(x, self.plain[0])))

    return Net().double()


@pytest.mark.parametrize("kind", ["layers in a function", "parameters in a list"])
def test_networks_whose_copies_use_other_parameters_are_refused(kind):
    x, y = torch.randn(12, 4).double(), torch.randint(0, 3, (12,))
    network = captured(kind)
    for frozen in (False, True):
        network.a.bias.requires_grad_(not frozen)
        for proxy in ("sharpness_full", "hessian_trace_balanced"):
            with pytest.raises(GapbenchError, match="parameters"):
                gapbench.measure(proxy, network, x, y)
    with pytest.raises(GapbenchError, match="parameters"):
        gapbench.symmetry.find(network, x)


@pytest.mark.timeout(60)
def test_weights_that_are_iterated_take_no_exponential_time():
    def forward(s, x):
        w = s.a.weight / s.a.weight.norm()
        for _ in range(25):
            w = 1.5 * w - 0.5 * w @ w.T @ w
        return s.h(torch.relu(F.linear(x, w)))

    torch.manual_seed(0)
    network = strangers.Function(
        forward, a=nn.Linear(4, 4, bias=False), h=nn.Linear(4, 3, bias=False)
    ).double()
    x = torch.randn(20, 4).double()
    y = network(x).argmax(1)
    for proxy, options in (
        ("spectral_margin_bound", {"gamma": 0.1}),
        ("sharpness_full", {}),
        ("hessian_trace", {}),
    ):
        assert gapbench.measure(proxy, network, x, y, **options).status == "ok"


def test_branches_on_values_keep_their_function_and_have_no_bound():
    network = strangers.Function(
        lambda s, x: (lambda z: s.h(z) if float(z.max()) < 8 else s.g(z))(torch.relu(s.a(x))),
        a=nn.Linear(4, 6),
        h=nn.Linear(6, 3),
        g=nn.Linear(6, 3),
    ).double()
    x = torch.randn(20, 4).double()
    symmetry = gapbench.symmetry.find(network, x)
    assert "values read as numbers" in symmetry.uncovered
    for far in (x, 20 * x):
        for other in (symmetry.transform(0, 0.5), symmetry.balanced()):
            assert (other(far) - network(far)).abs().max() <= 1e-9 * network(far).abs().max()
    found = gapbench.measure("spectral_margin_bound", network, x, network(x).argmax(1), gamma=0.1)
    assert found.status == "not_applicable"
    assert "branch" in found.reason


def spoiled(what, value):
    network = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).double().eval()
    x, y = torch.randn(24, 5).double(), torch.randint(0, 3, (24,))
    with torch.no_grad():
        if what == "weight":
            network[0].weight[0, 0] = value
        elif what == "buffer":
            network[1].running_mean[2] = value
        elif what == "inputs":
            x[3, 1] = value
        else:
            network[3].weight.fill_(1e200)
            network[0].weight.fill_(1e200)
    return network, x, y


@pytest.mark.timeout(180)
@pytest.mark.parametrize("what", ["weight", "buffer", "inputs", "overflow"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_fails_at_once(what, value):
    network, x, y = spoiled(what, value)
    for proxy in gapbench.list_proxies():
        found = gapbench.measure(proxy, network, x, y)
        if what == "overflow" and proxy in ("parameter_count", "random"):
            continue
        assert found.status in ("failed", "not_applicable")
        assert "finite" in found.reason or "NaN" in found.reason or found.status == "not_applicable"
    if what in ("weight", "buffer"):
        with pytest.raises(GapbenchError, match="NaN or infinite"):
            gapbench.symmetry.find(network, x)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_networks_of_equal_weights_are_measured_or_refused_at_once(value):
    """All zero: everything is singular. All one: so are the Gram matrices of equal units."""
    network = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 6), nn.Linear(6, 3)).double()
    with torch.no_grad():
        for p in network.parameters():
            p.fill_(value)
    x, y = torch.randn(24, 5).double(), torch.randint(0, 3, (24,))
    for proxy in gapbench.list_proxies():
        found = gapbench.measure(proxy, network, x, y)
        assert found.status in ("ok", "failed", "not_applicable")
        assert found.value is None or abs(found.value) < 1e6
    if value == 0.0:
        assert gapbench.measure("sharpness_full_balanced", network, x, y).status in ("ok", "not_applicable")


def classifier(outputs=3):
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, outputs)).double()
    return network, torch.randn(12, 4).double(), torch.randint(0, 3, (12,))


def test_one_logit_is_two_classes():
    single, x, _ = classifier(1)
    double = nn.Sequential(single[0], single[1], nn.Linear(6, 2)).double()
    with torch.no_grad():
        double[2].weight.copy_(torch.cat([torch.zeros(1, 6), single[2].weight]))
        double[2].bias.copy_(torch.cat([torch.zeros(1), single[2].bias]))
    y = (single(x)[:, 0] > 0).long()
    for proxy in ("train_loss", "inverse_margin"):
        values = [gapbench.measure(proxy, n, x, y).value for n in (single, double)]
        assert values[0] == pytest.approx(values[1], rel=1e-12)
    assert gapbench.measure("train_loss", single, x, y).value == pytest.approx(
        float(F.binary_cross_entropy_with_logits(single(x)[:, 0], y.double())), rel=1e-12
    )


@pytest.mark.parametrize(
    ("targets", "loss"),
    [
        (torch.randn(12, 2).double(), "mse"),
        (torch.randn(11).double(), "mse"),
        (torch.randn(12).double(), "cross_entropy"),
        (torch.full((12,), 3), "cross_entropy"),
        (torch.full((12,), -100), "cross_entropy"),
        (torch.zeros(12, 5, dtype=torch.int64), "cross_entropy"),
    ],
)
def test_targets_that_do_not_fit_are_refused(targets, loss):
    network, x, _ = classifier()
    with pytest.raises(GapbenchError):
        gapbench.measure("train_loss", network, x, targets, loss=loss)


def test_classes_second_and_last_are_told_apart_or_refused():
    network = strangers.mlp(4, 6, 5).double()
    x, y = torch.randn(6, 5, 4).double(), torch.randint(0, 5, (6, 5))
    with pytest.raises(GapbenchError, match="classes second"):
        gapbench.measure("train_loss", network, x, y)


class Several(nn.Module):
    def __init__(self, network, kind):
        super().__init__()
        self.inner, self.kind = network, kind

    def forward(self, x):
        y = self.inner(x)
        return {"logits": y, "other": 2 * y} if self.kind == "dictionary" else (2 * y, y)


@pytest.mark.parametrize("kind", ["dictionary", "tuple"])
def test_outputs_are_picked_by_an_adapter(kind):
    network, x, y = classifier()
    outer = Several(network, kind)
    pick = (lambda n, z: n(z)["logits"]) if kind == "dictionary" else (lambda n, z: n(z)[1])
    with pytest.raises(GapbenchError, match="forward="):
        gapbench.measure("train_loss", outer, x, y)
    for proxy in ("train_loss", "hessian_trace", "sharpness_quotient", "param_norm"):
        found = gapbench.measure(proxy, outer, x, y, forward=pick)
        assert found.value == pytest.approx(gapbench.measure(proxy, network, x, y).value, rel=1e-9)


def test_wrapped_networks_are_unwrapped_and_scripted_ones_refused():
    network, x, y = classifier()
    expected = gapbench.measure("hessian_trace", network, x, y).value
    assert gapbench.measure("hessian_trace", nn.DataParallel(network), x, y).value == expected
    with pytest.raises(GapbenchError, match="scripted"):
        gapbench.measure("hessian_trace", torch.jit.trace(network, x), x, y)
    scripted = nn.Sequential(torch.jit.trace(network[0], x), network[1], network[2])
    with pytest.raises(GapbenchError, match="scripted"):
        gapbench.measure("hessian_trace", scripted, x, y)


def test_complex_parameters_are_refused():
    network = strangers.Function(
        lambda s, x: s.h((x.to(torch.complex128) @ s.w).abs()),
        w=nn.Parameter(torch.randn(4, 5, dtype=torch.complex128)),
        h=nn.Linear(5, 3).double(),
    )
    x, y = torch.randn(12, 4).double(), torch.randint(0, 3, (12,))
    for proxy in ("hessian_trace", "param_norm", "sharpness_full"):
        with pytest.raises(GapbenchError, match="complex"):
            gapbench.measure(proxy, network, x, y)
    with pytest.raises(GapbenchError, match="complex"):
        gapbench.symmetry.find(network, x)


def test_frozen_parameters_are_left_out_and_said_so():
    network, x, y = classifier()
    for p in network[0].parameters():
        p.requires_grad_(False)
    head = nn.Sequential(network[2])
    features = network[1](network[0](x)).detach()
    for proxy in ("hessian_trace", "param_norm", "parameter_count", "sharpness_full"):
        found = gapbench.measure(proxy, network, x, y)
        alone = gapbench.measure(proxy, head, features, y)
        assert found.value == pytest.approx(alone.value, rel=1e-8)
        assert "30 parameters" in found.details["frozen"]
        whole = gapbench.measure(proxy, network, x, y, frozen="include")
        assert "frozen" not in whole.details
    assert gapbench.measure("parameter_count", network, x, y, frozen="include").value == 51
    for p in network.parameters():
        p.requires_grad_(False)
    assert gapbench.measure("parameter_count", network, x, y).value == 51


def test_initial_networks_are_prepared_alike():
    network, x, y = classifier()
    initial = copy.deepcopy(network)
    with torch.no_grad():
        for p in network.parameters():
            p.add_(1.0)
    for p in network[0].parameters():
        p.requires_grad_(False)
    found = gapbench.measure("distance_from_initialization", network, x, y, initial=initial)
    assert found.value == pytest.approx(21**0.5)
    half = gapbench.measure(
        "distance_from_initialization", network.to(torch.bfloat16), x, y, initial=initial.to(torch.bfloat16)
    )
    assert half.value == pytest.approx(21**0.5, rel=0.01)


def halved_in_a_part(kind):
    """Half a gradient in a part that little of the whole gradient comes from."""
    torch.manual_seed(0)
    if kind == "before a normalisation":
        parts = {"a": nn.Linear(4, 6), "n": nn.LayerNorm(6), "h": nn.Linear(6, 3)}
        with torch.no_grad():
            parts["a"].weight.mul_(1e4)
        right = strangers.Function(lambda s, x: s.h(torch.tanh(s.n(s.a(x)))), **parts)
        wrong = strangers.Function(lambda s, x: s.h(torch.tanh(s.n(strangers.Halved.apply(s.a(x))))), **parts)
    elif kind == "under a zero head":
        parts = {"a": nn.Linear(4, 6), "h": nn.Linear(6, 3)}
        nn.init.zeros_(parts["h"].weight)
        right = strangers.Function(lambda s, x: s.h(torch.tanh(s.a(x))), **parts)
        wrong = strangers.Function(lambda s, x: s.h(torch.tanh(strangers.Halved.apply(s.a(x)))), **parts)
    else:
        parts = {"a": nn.Linear(4, 6), "h": nn.Linear(6, 1), "b": nn.Linear(4, 6), "g": nn.Linear(6, 1)}
        right = strangers.Function(
            lambda s, x: torch.cat([1e5 * s.h(torch.tanh(s.a(x))), s.g(torch.tanh(s.b(x)))], 1), **parts
        )
        wrong = strangers.Function(
            lambda s, x: torch.cat(
                [1e5 * s.h(torch.tanh(s.a(x))), s.g(torch.tanh(strangers.Halved.apply(s.b(x))))], 1
            ),
            **parts,
        )
    return right.double(), wrong.double()


@pytest.mark.parametrize("kind", ["before a normalisation", "under a zero head", "outputs of unlike units"])
def test_a_wrong_gradient_in_a_small_part_is_seen(kind):
    right, wrong = halved_in_a_part(kind)
    x, y = torch.randn(20, 4).double(), torch.randint(0, 2, (20,))
    for proxy in ("hessian_top_eigenvalue", "sharpness_adaptive", "adaptive_trace"):
        assert gapbench.measure(proxy, right, x, y).status == "ok"
        assert gapbench.measure(proxy, wrong, x, y).status == "not_applicable"


def test_nothing_of_the_caller_is_changed():
    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 3)

        def forward(self, x):
            return self.inner(x.float().mul_(2.0).to(x.dtype))

    torch.manual_seed(0)
    network = Writing().double()
    x, y = torch.randn(20, 4).double(), torch.randint(0, 3, (20,))
    before, default = x.clone(), torch.get_default_dtype()
    for proxy in ("train_loss", "hessian_trace", "sharpness_full"):
        gapbench.measure(proxy, network, x, y)
    assert torch.equal(x, before)
    assert torch.get_default_dtype() == default
    plain, initial = nn.Linear(4, 3), nn.Linear(4, 3).double()
    gapbench.measure("distance_from_initialization", plain, x.float(), y, initial=initial)
    assert initial.weight.dtype == torch.float64


def test_inference_mode_is_named():
    x, y = torch.randn(20, 4), torch.randint(0, 3, (20,))
    with torch.inference_mode():
        network = nn.Linear(4, 3)
        with pytest.raises(GapbenchError, match="inference_mode"):
            gapbench.measure("train_loss", nn.Linear(4, 3), x, y)
    with pytest.raises(GapbenchError, match="inference_mode"):
        gapbench.measure("train_loss", network, x, y)


def test_inputs_that_say_nothing_of_the_parameters_are_no_reason_to_refuse():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 5, bias=False), nn.Tanh(), nn.Linear(5, 3, bias=False)).double()
    x, y = torch.randn(20, 4).double(), torch.randint(0, 3, (20,))
    x[:3] = 0.0
    order = torch.arange(20).flip(0)
    values = [gapbench.measure("hessian_trace", network, x[i], y[i]).value for i in (torch.arange(20), order)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_hard_sigmoids_have_second_derivatives():
    torch.manual_seed(0)
    parts = {"a": nn.Linear(4, 6), "h": nn.Linear(6, 3)}
    x, y = torch.randn(20, 4).double(), torch.randint(0, 3, (20,))
    spelled = [
        strangers.Function(lambda s, x: s.h(F.hardsigmoid(s.a(x))), **parts).double(),
        strangers.Function(lambda s, x: s.h(nn.Hardsigmoid(inplace=True)(s.a(x))), **parts).double(),
        strangers.Function(lambda s, x: s.h(F.relu6(s.a(x) + 3) / 6), **parts).double(),
    ]
    values = [gapbench.measure("hessian_trace", n, x, y).value for n in spelled]
    assert values[0] == pytest.approx(values[2], rel=1e-10)
    assert values[1] == pytest.approx(values[2], rel=1e-10)


def test_geodesic_sharpness_without_rescalings_is_the_same_in_both_metrics():
    stranger = strangers.make(lambda: strangers._on_vectors(lambda s, x: s.n(x), n=strangers.mlp(4, 5, 3)))
    values = [measured("sharpness_geodesic", stranger, metric=metric).value for metric in ("inv", "mix")]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
