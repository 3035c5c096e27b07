"""Proxies as plain functions: the numbers of `gapbench.measure`, and formulas written out."""

import copy
import inspect
import pickle

import pytest
import torch

import gapbench
from gapbench import measures
from gapbench.measures import NotApplicable, ProxyValue


@pytest.fixture(scope="module")
def given():
    generator = torch.Generator().manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).double()
    with torch.no_grad():
        for p in network.parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=p.dtype))
    inputs = torch.randn(20, 3, generator=generator, dtype=torch.float64)
    return network, inputs, (inputs[:, 0] > 0).long()


@pytest.mark.parametrize(
    ("name", "options"),
    [("param_norm", {}), ("sharpness_full", {"radius": 0.3}), ("hessian_trace", {"probes": 8, "seed": 3})],
)
def test_a_function_gives_what_measuring_gives(name, options, given):
    found = getattr(measures, name)(*given, **options)
    expected = gapbench.measure(name, *given, **options)
    assert (float(found), found.standard_error) == (expected.value, expected.standard_error)
    assert dict(found.details) == expected.details


def test_formulas_written_out(given):
    network, inputs, targets = given
    squares = sum(float(p.detach().pow(2).sum()) for p in network.parameters())
    assert measures.param_norm(*given) == pytest.approx(squares, rel=1e-12)
    logits = network(inputs).detach()
    p = logits.softmax(1)
    entropy = float(-(p * p.log()).sum(1).mean())
    assert measures.output_entropy(*given) == pytest.approx(entropy, rel=1e-12)
    error = float((logits.argmax(1) != targets).double().mean())
    assert measures.of_outputs("train_error", logits, targets) == pytest.approx(error, abs=1e-15)
    squared = float((p - torch.nn.functional.one_hot(targets, 2)).pow(2).sum(1).mean())
    assert measures.of_outputs("brier_score", logits, targets) == pytest.approx(squared, rel=1e-12)


@pytest.mark.parametrize("name", measures.OF_OUTPUTS)
def test_measures_of_outputs_are_those_of_the_network_that_gives_them(name, given):
    network, inputs, targets = given
    logits = network(inputs).detach()
    targets = logits.argmax(1)  # so that margins are positive
    expected = getattr(measures, name)(network, inputs, targets)
    assert measures.of_outputs(name, logits, targets) == pytest.approx(float(expected), rel=1e-12, abs=1e-15)


def test_what_depends_on_more_than_outputs_is_refused(given):
    with pytest.raises(gapbench.GapbenchError, match="no proxy of outputs alone"):
        measures.of_outputs("param_norm", given[0](given[1]), given[2])


def test_what_is_not_defined_is_raised(given):
    with pytest.raises(NotApplicable, match="initial weights"):
        measures.distance_from_initialization(*given)
    with pytest.raises(gapbench.GapbenchError, match="radius"):
        measures.sharpness_full(*given, radius=-1.0)
    with pytest.raises(gapbench.GapbenchError, match="no option 'radios'"):
        measures.sharpness_full(*given, radios=1.0)
    with pytest.raises(AttributeError, match="Did you mean 'param_norm'"):
        _ = measures.param_nrm
    with pytest.raises(AttributeError):
        _ = measures._private


def test_every_proxy_is_one_and_says_what_it_takes():
    assert set(gapbench.list_proxies()) < set(dir(measures))
    function = measures.sharpness_full
    assert function.__name__ == "sharpness_full"
    assert "L(theta + delta)" in function.__doc__
    parameters = inspect.signature(function).parameters
    assert list(parameters)[:3] == ["network", "inputs", "targets"]
    assert parameters["radius"].default == 0.1
    for name in gapbench.list_proxies():
        assert inspect.signature(getattr(measures, name)).return_annotation is ProxyValue


def test_a_value_is_a_number_that_keeps_what_belongs_to_it():
    value = ProxyValue(1.5, 0.25, {"steps": 3})
    assert value + 1 == 2.5
    for copied in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert (copied, copied.standard_error, dict(copied.details)) == (1.5, 0.25, {"steps": 3})
