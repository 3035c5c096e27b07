"""Values at the balanced representative do not depend on where on its orbit a network is."""

import pytest
import torch

import gapbench
from benchmark.symmetry import zoo
from gapbench.symmetry import find
from gapbench.symmetry.orbit import kinds

SMALL = ["flat mlp relu", "flat bottleneck", "flat bn1d", "flat norm linear", "cnn bn", "vit one head"]
NAMES = [n for n in zoo.zoo() if n != "flat tied"]
DETERMINISTIC = [
    "hessian_trace_balanced",
    "hessian_trace_quotient_balanced",
    "hessian_trace_per_dimension_balanced",
    "hessian_trace_quotient_per_dimension_balanced",
    "hessian_top_eigenvalue_balanced",
]


def data(name, count=8):
    y = torch.randint(0, 3, (count,), generator=torch.Generator().manual_seed(7))
    return zoo.inputs(name, count, seed=3), y


def squared_norm(network):
    return float(sum(p.detach().pow(2).sum() for p in network.parameters()))


@pytest.mark.parametrize("name", NAMES)
def test_the_function_and_the_representative_are_the_same_all_along_the_orbit(name):
    network = zoo.build(name)
    x = zoo.inputs(name, 6)
    symmetry = find(network, x)
    here = symmetry.balanced()
    with torch.no_grad():
        assert (here(x) - network(x)).abs().max() <= 1e-11 * network(x).abs().max()
    for kind in [None, *(kinds(symmetry) if name in SMALL else [])]:
        moved = symmetry.transform(1, 0.6, None if kind is None else [kind])
        there = find(moved, x).balanced()
        assert squared_norm(there) == pytest.approx(squared_norm(here), rel=1e-9)
        a, b = (zoo.jacobian(n, zoo.inputs(name, 15)) for n in (here, there))
        # The tangent kernel is an invariant of isometries.
        assert (a @ a.T - b @ b.T).abs().max() <= 1e-8 * (a @ a.T).abs().max()


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_deterministic_values(name):
    network, (x, y) = zoo.build(name), data(name, 5)
    moved = find(network, x).transform(2, 0.6)
    for proxy in DETERMINISTIC:
        options = {"tolerance": 1e-11} if "eigenvalue" in proxy else {"exact_below": 2000}
        values = [gapbench.measure(proxy, n, x, y, **options).value for n in (network, moved)]
        assert values[0] == pytest.approx(values[1], rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flat mlp relu", "flat bottleneck", "cnn flatten"])
def test_maxima_and_averages(name):
    network, (x, y) = zoo.build(name), data(name)
    moved = find(network, x).transform(2, 0.6)
    for proxy in ("sharpness_full_balanced", "sharpness_quotient_balanced"):
        options = {"radius": 0.1, "steps": 100, "restarts": 4}
        values = [gapbench.measure(proxy, n, x, y, **options).value for n in (network, moved)]
        assert values[0] == pytest.approx(values[1], rel=1e-5)
    for proxy in ("sharpness_average_full_balanced", "sharpness_average_quotient_balanced"):
        a, b = (gapbench.measure(proxy, n, x, y, samples=200, seed=s) for s, n in ((0, network), (1, moved)))
        assert abs(a.value - b.value) <= 4 * (a.standard_error**2 + b.standard_error**2) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flat mlp relu", "flat bottleneck", "cnn flatten", "vit one head"])
def test_euclidean_values_do_change(name):
    network, (x, y) = zoo.build(name), data(name)
    moved = find(network, x).transform(2, 1.0)
    for proxy in ("hessian_trace", "hessian_trace_quotient", "sharpness_quotient"):
        values = [gapbench.measure(proxy, n, x, y).value for n in (network, moved)]
        assert abs(values[0] - values[1]) > 1e-3 * abs(values[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flat mlp relu", "flat mlp leaky", "cnn flatten", "flat layer norm"])
def test_adaptive_values_are_unchanged_by_diagonal_rescalings_only(name):
    network, (x, y) = zoo.build(name), data(name)
    symmetry = find(network, x)
    diagonal = [k for k in kinds(symmetry) if k in ("rescaling of units", "output scale of normalisations")]
    moved = symmetry.transform(2, 0.8, diagonal)
    for proxy, options, tolerance in (
        ("adaptive_trace", {"exact_below": 2000}, 1e-8),
        ("sharpness_adaptive", {"steps": 100, "restarts": 3}, 1e-5),
        # A gradient that is zero but for rounding has either sign, which in this norm moves a parameter.
        ("sharpness_adaptive", {"steps": 60, "norm": "linf"}, 1e-4),
        ("sharpness_adaptive_quotient", {"steps": 100, "restarts": 3}, 1e-5),
        ("sharpness_average_adaptive", {}, 1e-8),
        ("sharpness_geodesic", {"steps": 60}, 1e-5),
    ):
        values = [gapbench.measure(proxy, n, x, y, **options).value for n in (network, moved)]
        assert values[0] == pytest.approx(values[1], rel=tolerance), proxy


def test_adaptive_values_change_under_mixing():
    name = "flat bottleneck"
    network, (x, y) = zoo.build(name), data(name)
    moved = find(network, x).transform(2, 1.0, ["mixing of linear channels"])
    values = [gapbench.measure("adaptive_trace", n, x, y, exact_below=2000).value for n in (network, moved)]
    assert abs(values[0] - values[1]) > 1e-3 * abs(values[0])


def test_relative_radius_is_a_fraction_of_an_invariant_norm():
    name = "flat mlp relu"
    network, (x, y) = zoo.build(name), data(name)
    moved = find(network, x).transform(2, 1.0)
    radii = [
        gapbench.measure("sharpness_average_full", n, x, y, relative_radius=0.1).details["radius"]
        for n in (network, moved)
    ]
    assert radii[0] == pytest.approx(radii[1], rel=1e-10)
    assert radii[0] == pytest.approx(0.1 * squared_norm(find(network, x).balanced()) ** 0.5, rel=1e-10)
