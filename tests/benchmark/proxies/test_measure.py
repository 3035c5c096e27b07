"""What measuring guarantees of every proxy: purity, repeatability, honest status."""

import copy
import math
import random

import numpy as np
import pytest
import torch

import gapbench
from benchmark.small_networks import data, networks
from gapbench import Estimate, GapbenchError, NotApplicable
from gapbench.proxies import registry

NETWORKS = networks()


@pytest.fixture
def temporary():
    """Registers proxies for one test."""
    gapbench.list_proxies()
    before = dict(registry._ENTRIES)
    yield gapbench.proxy
    registry._ENTRIES.clear()
    registry._ENTRIES.update(before)


def case(name="conv_bn"):
    network, shape = NETWORKS[name]
    network = copy.deepcopy(network)
    return network, copy.deepcopy(network), *data(shape, "cross_entropy")


def snapshot(network):
    return (
        {k: v.clone() for k, v in network.state_dict().items()},
        [m.training for m in network.modules()],
        [p.requires_grad for p in network.parameters()],
        [p.grad for p in network.parameters()],
        torch.get_rng_state(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        random.getstate(),
    )


def same(a, b):
    return (
        all(torch.equal(a[0][k], b[0][k]) for k in a[0])
        and a[1:3] == b[1:3]
        and all(x is y for x, y in zip(a[3], b[3]))
        and torch.equal(a[4], b[4])
        and a[5:] == b[5:]
    )


@pytest.mark.parametrize("proxy", gapbench.list_proxies())
@pytest.mark.parametrize("name", ["relu", "conv_bn", "attention"])
def test_every_proxy_is_pure_repeatable_and_typed(proxy, name):
    network, initial, inputs, targets = case(name)
    network.train()
    next(network.parameters()).requires_grad_(False)
    list(network.parameters())[1].grad = torch.ones_like(list(network.parameters())[1])
    before = snapshot(network)
    found = [gapbench.measure(proxy, network, inputs, targets, initial=initial, seed=3) for _ in range(2)]
    assert same(before, snapshot(network))
    assert found[0].status in ("ok", "not_applicable")
    assert found[0].value == found[1].value
    assert found[0].standard_error == found[1].standard_error
    if found[0].status == "ok":
        assert isinstance(found[0].value, float)
        assert found[0].reason == ""
    else:
        assert found[0].value is None
        assert found[0].reason
    eager = gapbench.measure(proxy, network.eval(), inputs, targets, initial=initial, seed=3)
    assert eager.value == found[0].value  # the caller's mode does not matter


def test_seeds_matter_only_for_stochastic_proxies():
    network, initial, inputs, targets = case()
    for proxy in gapbench.list_proxies():
        a, b = (
            gapbench.measure(proxy, network, inputs, targets, initial=initial, seed=s).value for s in (0, 1)
        )
        if proxy == "random" or proxy.startswith(
            ("sharpness_average", "radius_of_average", "mixup_margin", "shift_margin")
        ):
            assert a != b
        elif proxy.startswith("pacbayes"):  # not applicable to networks that are wrong as often as by chance
            assert a != b or a is b is None
        elif proxy == "label_wise_mixup_accuracy":  # a share of few midpoints, some of them the same
            assert a == pytest.approx(b, abs=0.5)
        elif not proxy.startswith("hessian_top_eigenvalue"):  # whose start vector is drawn
            assert a == b, proxy


def test_simple_values_in_closed_form():
    network, initial, inputs, targets = case("relu")
    theta = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    with torch.no_grad():
        for p in initial.parameters():
            p.add_(0.5)
    measured = {
        name: gapbench.measure(name, network, inputs, targets, initial=initial).value
        for name in ("param_norm", "distance_from_initialization", "parameter_count", "train_loss")
    }
    assert measured["param_norm"] == pytest.approx(float(theta @ theta), rel=1e-14)
    assert measured["distance_from_initialization"] == pytest.approx(0.5 * math.sqrt(len(theta)), rel=1e-14)
    assert measured["parameter_count"] == len(theta)
    loss = torch.nn.functional.cross_entropy(network(inputs), targets)
    assert measured["train_loss"] == pytest.approx(float(loss.detach()), rel=1e-14)


def test_inverse_margin_in_closed_form():
    network, _, inputs, _ = case("relu")
    logits = network(inputs).detach()
    targets = logits.argmax(1)
    two = logits.topk(2).values
    gamma = float(torch.quantile(two[:, 0] - two[:, 1], 0.1))
    assert gapbench.measure("inverse_margin", network, inputs, targets).value == pytest.approx(gamma**-2)


def test_shared_parameters_count_once():
    network, _, inputs, targets = case("shared")
    expected = sum(p.numel() for p in {id(p): p for p in network.parameters()}.values())
    assert gapbench.measure("parameter_count", network, inputs, targets).value == expected


def test_missing_initialisation_is_not_applicable():
    network, _, inputs, targets = case()
    found = gapbench.measure("distance_from_initialization", network, inputs, targets)
    assert (found.status, found.value) == ("not_applicable", None)
    assert "initial" in found.reason


def test_float32_networks_are_measured_in_float32():
    network, _, inputs, targets = case()
    double = gapbench.measure("hessian_trace", network, inputs, targets).value
    single = gapbench.measure("hessian_trace", network.float(), inputs, targets).value
    assert single != double
    assert single == pytest.approx(double, rel=1e-4)


BAD = {
    "nan": (lambda c: float("nan"), "not a finite number"),
    "infinite": (lambda c: float("inf"), "not a finite number"),
    "text": (lambda c: "1.0", "type str"),
    "nothing": (lambda c: None, "type NoneType"),
    "truth": (lambda c: True, "type bool"),
    "list": (lambda c: [1.0], "type list"),
    "complex": (lambda c: 1j, "type complex"),
    "vector": (lambda c: torch.ones(3), "shape (3,)"),
    "one_vector": (lambda c: torch.ones(1), "shape (1,)"),
    "negative_error": (lambda c: Estimate(1.0, -1.0), "negative"),
    "infinite_error": (lambda c: Estimate(1.0, math.inf), "not a finite"),
    "raises": (lambda c: 1 / 0, "ZeroDivisionError"),
    "weights": (lambda c: next(c.model.parameters()).data.add_(1) is None or 1.0, "changed the weights"),
    "buffers": (lambda c: c.model[1].running_mean.add_(1) is None or 1.0, "changed the buffer"),
    "train_mode": (lambda c: c.model.train() is None or 1.0, "training mode"),
    "gradients": (lambda c: c.model(c.inputs).sum().backward() or 1.0, "gradients"),
    "frozen": (lambda c: next(c.model.parameters()).requires_grad_(False) is None or 1.0, "requires_grad"),
    "global_torch": (lambda c: float(torch.rand(())), "global random state"),
    "global_numpy": (lambda c: float(np.random.rand()), "global random state"),  # noqa: NPY002
    "global_python": (lambda c: random.random(), "global random state"),
    "replaced": (
        lambda c: setattr(c.model[0], "weight", torch.nn.Parameter(torch.zeros(3, 1, 3, 3))) or 1.0,
        "replaced",
    ),
}


@pytest.mark.parametrize("kind", sorted(BAD))
def test_misbehaviour_is_a_failed_measurement_with_its_reason_and_is_undone(temporary, kind):
    function, word = BAD[kind]
    temporary("bad")(lambda context: function(context))
    network, _, inputs, targets = case()
    before = snapshot(network)
    found = gapbench.measure("bad", network, inputs, targets)
    assert found.status == "failed"
    assert word in found.reason
    assert "\n" not in found.reason
    assert found.value is None
    if kind != "replaced":
        assert same(before, snapshot(network))


def test_values_of_several_number_types_are_taken(temporary):
    network, _, inputs, targets = case()
    for value in (2, 2.0, np.float32(2.0), np.int64(2), torch.tensor(2.0), Estimate(2.0, 0.5)):
        returned = value

        @temporary("fine")
        def fine(context):
            return returned  # noqa: B023

        assert gapbench.measure("fine", network, inputs, targets).value == 2.0


def test_a_proxy_says_where_it_is_not_defined(temporary):
    @temporary("choosy")
    def choosy(context):
        raise NotApplicable("only for the moon")

    network, _, inputs, targets = case()
    found = gapbench.measure("choosy", network, inputs, targets)
    assert (found.status, found.reason) == ("not_applicable", "only for the moon")


def test_wrong_usage_is_an_error_that_helps():
    network, _, inputs, targets = case()
    for arguments, options, word in (
        (("sharpnes_full", network, inputs, targets), {}, "Did you mean 'sharpness_full'"),
        (("sharpness_full", network, inputs, targets), {"radios": 1}, "Did you mean 'radius'"),
        (("param_norm", network, inputs, targets[:3]), {}, "one target"),
        (("param_norm", network, inputs, targets + 5), {}, "classes"),
        (("param_norm", network, inputs, targets.double()), {}, "integer class"),
        (("param_norm", network, inputs[:, :, :3], targets), {}, "cannot be evaluated"),
        (("param_norm", network, inputs.numpy(), targets), {}, r"inputs must be a torch.Tensor, not ndarray"),
        (("param_norm", network, inputs, targets.tolist()), {}, r"targets must be a torch.Tensor, not list"),
        (("param_norm", lambda x: x, inputs, targets), {}, r"network must be a torch.nn.Module"),
        (("param_norm", network, inputs, targets), {"loss": "hinge"}, "loss"),
        (("param_norm", torch.nn.ReLU(), inputs, targets), {}, "no parameters"),
        (("param_norm", torch.nn.LazyLinear(3), inputs, targets), {}, "uninitialised"),
        (("param_norm", network, inputs, targets), {"initial": network[:3]}, "initial network"),
    ):
        with pytest.raises(GapbenchError, match=word):
            gapbench.measure(*arguments, **options)


def test_registering_checks_name_version_direction_and_options(temporary):
    for keywords, word in (
        ({"name": "Bad Name"}, "no name"),
        ({"name": "p", "version": 0}, "version"),
        ({"name": "p", "higher_means": "good"}, "higher_means"),
    ):
        with pytest.raises(GapbenchError, match=word):
            temporary(keywords.pop("name"), **keywords)
    with pytest.raises(GapbenchError, match="keyword-only"):
        temporary("p")(lambda context, radius: 1.0)
    with pytest.raises(GapbenchError, match="already a proxy 'param_norm'"):
        temporary("param_norm")(lambda context: 1.0)
