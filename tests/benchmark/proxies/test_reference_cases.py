"""Closed-form and brute-force reference cases, in float64."""

import pytest
import torch
from torch import nn

import gapbench
from gapbench.computation.lipschitz import compose
from oracles import ROOT, reference_cases, reference_network

pytestmark = pytest.mark.oracles
NAMES = sorted(reference_cases()) if (ROOT / "reference" / "cases.json").exists() else []
if not NAMES:
    pytestmark = [pytestmark, pytest.mark.skip(reason="needs the reference cases (GAPBENCH_ORACLES)")]


def radii(case, name):
    """Radius -> expected value, from `S_full` with the case's eps or `S_full@0.2`."""
    found = {}
    for key, value in case["expected"].items():
        base, _, radius = key.partition("@")
        if base == name:
            found[float(radius) if radius else case["data"]["eps"]] = value
    return found


@pytest.fixture(params=NAMES)
def case(request):
    return reference_cases()[request.param]


@pytest.fixture
def network(case):
    built = reference_network(case)
    if built is None:
        pytest.skip("not a network; tested elsewhere")
    return built


def test_trace_and_top_eigenvalue(case, network):
    model, inputs, targets, loss = network
    expected = case["expected"]
    found = gapbench.measure("hessian_trace", model, inputs, targets, loss=loss)
    assert found.value == pytest.approx(expected["trH"], rel=1e-8)
    if "lambda_max_H" in expected:
        top = gapbench.measure("hessian_top_eigenvalue", model, inputs, targets, loss=loss, tolerance=1e-10)
        assert top.value == pytest.approx(expected["lambda_max_H"], rel=1e-8)
    if "loss" in expected:
        value = gapbench.measure("train_loss", model, inputs, targets, loss=loss)
        assert value.value == pytest.approx(expected["loss"], rel=1e-8, abs=1e-15)


@pytest.mark.slow
def test_worst_case_sharpness_with_restarts(case, network):
    model, inputs, targets, loss = network
    for radius, expected in radii(case, "S_full").items():
        found = gapbench.measure(
            "sharpness_full", model, inputs, targets, loss=loss, radius=radius, steps=100, restarts=10
        )
        assert expected * (1 - 1e-5) <= found.value <= expected * (1 + 1e-7)


def test_average_sharpness(case, network):
    model, inputs, targets, loss = network
    closed = radii(case, "A_full")
    sampled, errors = radii(case, "A_full_mc"), radii(case, "A_full_mc_se")
    for radius, expected in (closed | sampled).items():
        found = gapbench.measure(
            "sharpness_average_full", model, inputs, targets, loss=loss, radius=radius, samples=1000
        )
        spread = (found.standard_error**2 + errors.get(radius, 0.0) ** 2) ** 0.5
        assert abs(found.value - expected) < 4 * spread


EXACT = {
    "trPHP": "hessian_trace_quotient",
    "trH_balanced": "hessian_trace_balanced",
    "balanced_trH": "hessian_trace_balanced",
    "balanced_trPHP": "hessian_trace_quotient_balanced",
    "adaptive_trace": "adaptive_trace",
    "trH_per_d": "hessian_trace_per_dimension",
    "trPHP_per_dk": "hessian_trace_quotient_per_dimension",
}
MAXIMA = {
    "S_quot": "sharpness_quotient",
    "S_adaptive_quot": "sharpness_adaptive_quotient",
    "S_geodesic_quot": "sharpness_geodesic",
}


@pytest.mark.slow
def test_quotient_values(case, network):
    model, inputs, targets, loss = network
    expected = case["expected"]
    symmetry = gapbench.symmetry.find(model, inputs)
    if "k" in expected:
        assert symmetry.dimension == expected["k"]
    if "k_with_logit_shift" in expected:
        shifted = gapbench.symmetry.find(model, inputs, logit_shift=True)
        assert shifted.dimension == expected["k_with_logit_shift"]
    for key, proxy in EXACT.items():
        if key in expected:
            found = gapbench.measure(proxy, model, inputs, targets, loss=loss)
            assert found.value == pytest.approx(expected[key], rel=1e-8), key
    if "balanced_sq_norm" in expected:
        norm = sum(float(p.detach().pow(2).sum()) for p in symmetry.balanced().parameters())
        assert norm == pytest.approx(expected["balanced_sq_norm"], rel=1e-8)
    for key, proxy in MAXIMA.items():
        for radius, value in radii(case, key).items():
            found = gapbench.measure(
                proxy, model, inputs, targets, loss=loss, radius=radius, steps=100, restarts=10
            )
            assert value * (1 - 1e-5) <= found.value <= value * (1 + 1e-7), key


def test_average_quotient_sharpness(case, network):
    model, inputs, targets, loss = network
    closed = radii(case, "A_quot")
    sampled, errors = radii(case, "A_quot_mc"), radii(case, "A_quot_mc_se")
    for radius, expected in (closed | sampled).items():
        found = gapbench.measure(
            "sharpness_average_quotient", model, inputs, targets, loss=loss, radius=radius, samples=1000
        )
        spread = (found.standard_error**2 + errors.get(radius, 0.0) ** 2) ** 0.5
        assert abs(found.value - expected) <= max(4 * spread, 1e-10 * expected)


def test_spectral_complexity_and_bound():
    if "spectral_complexity_mlp" not in NAMES:
        pytest.skip("no such case")
    case = reference_cases()["spectral_complexity_mlp"]
    expected, given = case["expected"], case["data"]

    def build(matrices):
        layers = [nn.Linear(len(m[0]), len(m), bias=False).double() for m in matrices]
        for layer, matrix in zip(layers, matrices):
            layer.weight.data = torch.tensor(matrix, dtype=torch.float64)
        return nn.Sequential(layers[0], nn.ReLU(), layers[1]).eval()

    flat = torch.tensor(case["theta"], dtype=torch.float64).flatten()
    sizes = [a * b for a, b in case["shapes"]]
    model = build([p.reshape(s).tolist() for p, s in zip(flat.split(sizes), case["shapes"])])
    initial = build(given["M"])
    inputs, targets = torch.tensor(given["X"], dtype=torch.float64), torch.tensor(given["y"])
    options = {"initial": initial, "gamma": given["gamma"]}
    found = gapbench.measure("spectral_margin_bound", model, inputs, targets, **options)
    details = found.details
    assert found.value == pytest.approx(expected["bound_term"], rel=1e-8)
    assert details["sigma"] == pytest.approx(expected["sigma"], rel=1e-8)
    assert details["norm_2_1"] == pytest.approx(expected["norm21"], rel=1e-8)
    assert details["spectral_complexity"] == pytest.approx(expected["R_A"], rel=1e-8)
    assert details["margins"] == pytest.approx(expected["margins"], rel=1e-8)
    assert details["normalised_margins"] == pytest.approx(expected["normalized_margins"], rel=1e-8)
    assert details["ramp_risk"] == pytest.approx(expected["ramp_risk"], rel=1e-8)
    assert details["input_norm"] == pytest.approx(expected["X_frobenius"], rel=1e-8)
    assert details["largest_width"] == expected["max_width"]
    found = gapbench.measure("spectral_margin_bound", model, inputs, targets, reference="initial", **options)
    assert found.details["spectral_complexity"] == pytest.approx(expected["R_A_ref"], rel=1e-8)
    assert found.details["norm_2_1"] == pytest.approx(expected["norm21_ref"], rel=1e-8)
    with torch.no_grad():
        model[0].weight[0] *= 3
        model[2].weight[:, 0] /= 3
    moved = gapbench.measure("spectral_margin_bound", model, inputs, targets, **options)
    assert moved.details["spectral_complexity"] == pytest.approx(
        expected["R_A_after_rescaling_unit0_by_3"], rel=1e-8
    )


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("conv_sigma")])
def test_convolution_norms(name):
    case = reference_cases()[name]
    expected, given = case["expected"], case["data"]
    shape = case["shapes"][0]
    layer = nn.Conv2d(
        shape[1], shape[0], shape[2:], stride=given["stride"], padding=given["padding"], bias=False
    ).double()
    layer.weight.data = torch.tensor(case["theta"], dtype=torch.float64).reshape(shape)
    size = given["input_hw"]
    found = compose(layer, torch.zeros(2, shape[1], size, size, dtype=torch.float64)).layers[0]
    assert found.sigma == pytest.approx(expected["sigma"], rel=1e-8)
    assert found.norm_2_1 == pytest.approx(expected["rows21"], rel=1e-8)
