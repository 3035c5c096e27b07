"""Cost classes and groups of proxies: stated, and held against the arithmetic that is counted."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import gapbench
from gapbench import GapbenchError
from gapbench.curvature.error_rate import ErrorRate
from gapbench.curvature.loss import Landscape
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.registry import GROUPS, checked_options, expanded, list_proxies, proxy, proxy_entry

MOST = {"weights": 3.0, "cheap": 20.0, "moderate": 100.0, "dear": 400.0}
"""Gradients that a proxy of the class may take on a small network."""
LEAST = {"moderate": 20.0, "dear": 30.0}


@pytest.fixture(scope="module")
def given():
    task = gapbench.load_task("digits_rotations", train_size=40, seed=0)
    network = gapbench.build_model("plain/mlp", 0.5, (1, 8, 8), 10, seed=0).eval()
    initial = gapbench.build_model("plain/mlp", 0.5, (1, 8, 8), 10, seed=1).eval()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    x, y = task.train.inputs, task.train.targets
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    return network, x, y, initial


def context(given):
    network, x, y, initial = given
    return make_context(network, x, y, all_inputs=x, all_targets=y, initial=initial, loss="cross_entropy")


def arithmetic(work):
    with FlopCounterMode(display=False) as counter:
        result = work()
    return counter.get_total_flops(), result


@pytest.fixture(scope="module")
def gradient(given):
    landscape = context(given).landscape
    landscape.value_and_gradient()
    return arithmetic(landscape.value_and_gradient)[0]


@pytest.mark.parametrize("name", list_proxies())
def test_a_proxy_takes_what_its_cost_class_says(name, given, gradient):
    entry, fresh = proxy_entry(name), context(given)
    assert not fresh.defect  # what every measurement begins with
    assert not fresh.unsteady
    flops, found = arithmetic(lambda: measure_in(fresh, entry, checked_options(entry, {}), 0))
    assert found.status in ("ok", "not_applicable"), found.reason
    assert flops <= MOST[entry.cost] * gradient
    if found.status == "ok":
        assert flops >= LEAST.get(entry.cost, 0.0) * gradient


SEARCHES = {
    "pacbayes_flatness": (90, 0),
    "pacbayes_mag_flatness": (90, 0),
    "radius_of_average_rise": (90, 0),
    "sharpness_flatness": (40, 45),
    "sharpness_mag_flatness": (40, 45),
    "radius_of_rise": (40, 45),
}
"""Evaluations and gradients at most; ten sizes with 20 evaluations or an ascent of ten steps took twice as many."""


def test_searches_for_sizes_take_few_evaluations(monkeypatch):
    task = gapbench.load_task("digits_rotations", train_size=100, seed=0)
    network = gapbench.build_model("plain/cnn", 0.5, (1, 8, 8), 10, seed=0).eval()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    x, y = task.train.inputs, task.train.targets
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x), y).backward()
        optimizer.step()
    fresh, counts = make_context(network, x, y), {"evaluations": 0, "gradients": 0}
    fresh.landscape.value_and_gradient()  # tests of derivatives come once, whatever is measured

    def counted(method, key):
        def call(*args):
            counts[key] += 1
            return method(*args)

        return call

    for owner, method, key in (
        (Landscape, "value", "evaluations"),
        (ErrorRate, "__call__", "evaluations"),
        (Landscape, "raw_gradient", "gradients"),
    ):
        monkeypatch.setattr(owner, method, counted(getattr(owner, method), key))
    for name, most in SEARCHES.items():
        counts.update(evaluations=0, gradients=0)
        entry = proxy_entry(name)
        found = measure_in(fresh, entry, checked_options(entry, {}), 0)
        assert found.status == "ok", found.reason
        assert counts["evaluations"] <= most[0], name
        assert counts["gradients"] <= most[1], name


def test_groups_stand_for_proxies_and_names_for_themselves():
    everything = list_proxies()
    assert expanded(["all"]) == everything
    assert expanded(["random", "all"]) == ["random", *(name for name in everything if name != "random")]
    assert expanded(["nothing", "random", "random"]) == ["nothing", "random"]
    cheap = expanded(["cheap"])
    assert "param_norm" in cheap
    assert "train_loss" in cheap
    assert "sharpness_full" not in cheap
    central = expanded(["central"])
    assert {"param_norm", "sharpness_quotient", "spectral_margin_bound"} <= set(central)
    assert len(central) < len(everything) / 2


def test_a_group_that_was_nearly_right_is_suggested():
    with pytest.raises(GapbenchError, match="Did you mean 'cheap'"):
        proxy_entry("cheep")


def test_costs_and_names_are_checked():
    with pytest.raises(GapbenchError, match="one of weights, cheap, moderate, dear"):
        proxy("mine", cost="free")
    for group in GROUPS:
        with pytest.raises(GapbenchError, match="stands for several"):
            proxy(group)


def test_measure_all_takes_groups(given):
    network, x, y, _ = given
    found = gapbench.measure_all(network, x, y, proxies=["cheap"], samples=20, progress=False)
    assert sorted(found.get("proxy", found.index)) == sorted(expanded(["cheap"]))
