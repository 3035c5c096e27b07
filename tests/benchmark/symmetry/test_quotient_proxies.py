"""Quotient, adaptive and geodesic proxies against dense derivatives, closed forms and each other."""

import itertools
import math

import pytest
import torch
from torch import nn

import gapbench
from benchmark.symmetry import zoo
from gapbench.invariance import audit_measure
from gapbench.symmetry import find

ASCENTS = [
    n for n in sorted(zoo.zoo()) if n.startswith(("flat", "cnn", "mobilenet", "vit one", "mixer", "group"))
]
TINY = ["flat mlp relu", "flat bottleneck", "flat bn1d", "flat norm linear", "cnn flatten", "flat gated"]


def data(name, count=8):
    y = torch.randint(0, 3, (count,), generator=torch.Generator().manual_seed(7))
    return zoo.inputs(name, count, seed=3), y


def hessian(network, x, y):
    from gapbench.curvature.loss import Landscape

    landscape = Landscape(network, x, y, "cross_entropy")
    identity = torch.eye(landscape.dimension, dtype=torch.float64)
    return torch.stack([landscape.hessian_product(row) for row in identity])


@pytest.mark.parametrize("name", TINY)
def test_quotient_trace_is_the_trace_of_php(name):
    network, (x, y) = zoo.build(name), data(name)
    symmetry = find(network, x)
    h = hessian(network, x, y)
    p = torch.stack([symmetry.project(row) for row in torch.eye(len(h), dtype=torch.float64)])
    found = gapbench.measure("hessian_trace_quotient", network, x, y, exact_below=2000)
    assert found.value == pytest.approx(float((p @ h @ p).trace()), rel=1e-8)
    assert found.details["k"] == symmetry.dimension
    theta = symmetry.bound.theta
    adaptive = gapbench.measure("adaptive_trace", network, x, y, exact_below=2000)
    assert adaptive.value == pytest.approx(float((theta.pow(2) * h.diagonal()).sum()), rel=1e-8)
    per_dimension = gapbench.measure("hessian_trace_quotient_per_dimension", network, x, y, exact_below=2000)
    assert per_dimension.value == pytest.approx(found.value / (len(h) - symmetry.dimension), rel=1e-12)


def test_the_tangent_trace_by_probes_agrees_with_the_exact_one(monkeypatch):
    from gapbench.symmetry import traces

    name = "cnn bn"
    network, (x, y) = zoo.build(name), data(name)
    exact = gapbench.measure("hessian_trace_quotient", network, x, y)
    assert exact.details["along_orbit_method"] == "identity"
    monkeypatch.setattr(traces, "_by_identity", lambda *_: None)
    basis = gapbench.measure("hessian_trace_quotient", network, x, y, probes=400)
    assert basis.details["along_orbit_method"] == "basis"
    assert basis.value == pytest.approx(exact.value, rel=1e-9)
    monkeypatch.setattr(traces, "EXACT_SIZE", 0)
    sampled = gapbench.measure("hessian_trace_quotient", network, x, y, probes=400)
    assert sampled.details["along_orbit_method"] == "probes"
    assert sampled.standard_error > 0
    assert abs(sampled.value - exact.value) <= 4 * sampled.standard_error


@pytest.mark.slow
@pytest.mark.parametrize("name", ASCENTS)
def test_quotient_sharpness_is_never_larger_than_full_sharpness(name):
    network, (x, y) = zoo.build(name), data(name)
    if name == "flat tied":  # where no symmetry is found because a layer is used twice
        found = gapbench.measure("sharpness_quotient", network, x, y)
        assert found.status == "not_applicable"
        assert "shared by several operations" in found.reason
        return
    for options in ({"radius": 0.3, "steps": 4}, {"radius": 0.05, "steps": 3, "restarts": 2}):
        full = gapbench.measure("sharpness_full", network, x, y, **options).value
        quotient = gapbench.measure("sharpness_quotient", network, x, y, **options).value
        assert 0 <= quotient <= full
    full = gapbench.measure("sharpness_adaptive", network, x, y, steps=4).value
    quotient = gapbench.measure("sharpness_adaptive_quotient", network, x, y, steps=4).value
    assert 0 <= quotient <= full


def test_average_ratio_at_small_radius_is_that_of_the_traces():
    name = "flat mlp gelu"
    network, (x, y) = zoo.build("flat bottleneck"), data(name)
    options = {"radius": 1e-3, "samples": 600}
    average = gapbench.measure("sharpness_average_quotient", network, x, y, **options)
    per_dimension = gapbench.measure("hessian_trace_quotient_per_dimension", network, x, y)
    assert abs(average.value - 1e-6 / 2 * per_dimension.value) <= 4 * average.standard_error


@pytest.mark.parametrize("a", [0.5, 1.0, 3.0])
def test_closed_forms_of_the_product_of_two_numbers(a):
    class Product(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (nn.Linear(1, 1, bias=False).double() for _ in range(2))
            self.first.weight.data[:] = a
            self.second.weight.data[:] = 1 / a

        def forward(self, x):
            return self.second(self.first(x))

    network, one = Product().double(), torch.ones(1, 1, dtype=torch.float64)
    rho, options = 0.2, {"steps": 60, "restarts": 4, "loss": "mse"}

    def value(proxy, **more):
        return gapbench.measure(proxy, network, one, one, **(options | more)).value

    r2 = a**2 + a**-2
    assert value("sharpness_quotient", radius=rho) == pytest.approx(
        (rho * math.sqrt(r2) + rho**2 / r2) ** 2 / 2, rel=1e-8
    )
    assert value("sharpness_geodesic", radius=rho) == pytest.approx(
        (math.exp(math.sqrt(2) * rho) - 1) ** 2 / 2, rel=1e-8
    )
    assert value("sharpness_geodesic", radius=rho, metric="mix") == pytest.approx(rho**2, rel=1e-8)
    assert value("sharpness_adaptive_quotient", radius=rho) == pytest.approx(
        ((1 + rho / math.sqrt(2)) ** 2 - 1) ** 2 / 2, rel=1e-8
    )
    trace = gapbench.measure("hessian_trace_balanced", network, one, one, loss="mse").value
    assert trace == pytest.approx(2.0, rel=1e-10)


@pytest.mark.parametrize("metric", ["inv", "mix"])
def test_geodesic_surface(metric):
    """Metric, horizontality and second-order geodesics of a matrix pair, against brute force."""
    from gapbench.curvature.loss import Landscape
    from gapbench.symmetry.geodesic import GeodesicSurface

    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(5, 3, bias=False), nn.Linear(3, 4, bias=False)).double()
    x, y = torch.randn(6, 5, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    symmetry = find(network, x)
    surface = GeodesicSurface(Landscape(network, x, y, "mse"), symmetry, metric)
    assert len(surface.pairs) == 1
    d = len(surface.origin)
    identity = torch.eye(d, dtype=torch.float64)
    p = torch.stack([surface.project(row) for row in identity])
    assert (p - p.T).abs().max() < 1e-10  # orthogonal in the metric
    assert (p @ p - p).abs().max() < 1e-10
    assert float(p.trace()) == pytest.approx(d - symmetry.dimension, abs=1e-8)
    # Vertical directions are projected to zero: a tangent in orthonormal coordinates.
    differential = torch.autograd.functional.jacobian(surface.end, torch.zeros(d, dtype=torch.float64))
    coordinates = torch.linalg.solve(differential, symmetry.projector.columns())
    assert (p @ coordinates).abs().max() < 1e-8 * coordinates.abs().max()
    # The whole surface is carried along the orbit: the maximum is an invariant.
    moved = symmetry.transform(1, 1.0)
    values = [
        gapbench.measure(
            "sharpness_geodesic", n, x, y, loss="mse", radius=0.1, metric=metric, steps=80, restarts=3
        ).value
        for n in (network, moved)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_audit_tells_invariants_from_others():
    network = zoo.build("flat mlp relu")
    x, y = data("flat mlp relu")

    def audit(proxy, **options):
        results = audit_measure(lambda n: gapbench.measure(proxy, n, x, y, **options), network, x, seed=1)
        return {r.kind: r for r in results}

    norm = audit("param_norm")
    assert norm["unit rescaling"].verdict == "not invariant"
    assert norm["unit rescaling"].relative_change > 1e-2
    assert norm["permutation"].verdict == "invariant"
    assert norm["mixing of heads"].verdict == "not applicable"
    trace = audit("hessian_trace")
    assert trace["logit shift"].verdict == "invariant"
    assert trace["logit scale"].verdict == "not invariant"
    assert trace["logit scale"].reason == "changes the loss"
    assert audit("hessian_trace_balanced")["unit rescaling"].verdict == "invariant"
    assert audit("train_loss")["unit rescaling"].verdict == "invariant"
    assert {r.verdict for r in audit("distance_from_initialization").values()} == {"not applicable"}


@pytest.mark.parametrize("name", ["cnn bn", "resnet", "depthwise", "densenet", "cnn flatten"])
def test_permutations_of_units_leave_the_function_alone(name):
    from gapbench.invariance.transformations import Transformer

    network, x = zoo.build(name), zoo.inputs(name, 4)
    moved = Transformer.of(network, x).apply("permutation", 0.0, 3)
    with torch.no_grad():
        assert (moved(x) - network(x)).abs().max() <= 1e-12 * network(x).abs().max()
    assert any(not torch.equal(p, q) for p, q in zip(moved.parameters(), network.parameters()))


def test_shared_work_is_charged_to_every_proxy_that_asks_for_it_once(monkeypatch):
    """With a clock that only `work` moves: whatever is asked first, the same is charged."""
    from gapbench.proxies import context as module
    from gapbench.proxies.measuring import make_context

    network, (x, y) = zoo.build("cnn bn"), data("cnn bn")
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])

    def work(seconds, *asked):
        def compute():
            now[0] += seconds
            return sum(ask() for ask in asked)

        return compute

    def asks(context):
        inner = lambda: context.shared("inner", work(50.0))  # noqa: E731
        outer = lambda: context.shared("outer", work(7.0, inner, inner))  # noqa: E731
        other = lambda: context.shared("other", work(3.0, outer, inner))  # noqa: E731
        return {"inner": inner, "outer": outer, "other": other}

    expected = {"inner": 50.0, "outer": 57.0, "other": 60.0}
    for order in itertools.permutations(expected):
        context = make_context(network, x, y)
        for name in order:
            context.begin()
            started = now[0]
            asks(context)[name]()
            asks(context)[name]()
            assert now[0] - started + context._cache["charged"] == expected[name], (order, name)
    context = make_context(network, x, y)
    context.begin()
    started = now[0]
    for ask in asks(context).values():
        ask()
    assert now[0] - started + context._cache["charged"] == 60.0
    context.begin()
    context.charge(2.0)
    context.shared("borrower", lambda: context.charge(4.0))
    context.begin()
    context.shared("borrower", lambda: None)
    assert context._cache["charged"] == 4.0
