"""Of networks of one architecture the first is tested as a whole, others in part; what is wrong is still seen."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from benchmark.tiny_suite import TINY
from gapbench.population import tested
from gapbench.population.facts import task_of
from gapbench.population.network import untrained
from gapbench.population.tested import note_tested, trust_tested
from gapbench.proxies.measuring import make_context, measure
from gapbench.suites.suite import parse_suite

CONFIGURATION = parse_suite(TINY, "t").configurations[0]
SETUP = SimpleNamespace(loss="cross_entropy")


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    monkeypatch.setattr(tested, "_PASSED", {})


def example(seed, model=None):
    task = task_of(CONFIGURATION, "")
    network = untrained(CONFIGURATION, seed, task) if model is None else model
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in network.parameters():  # biases that are 0 put units at their kinks
            p += 0.1 * torch.randn(p.shape, generator=generator)
    counted = []
    next(m for m in network.modules() if isinstance(m, nn.Linear)).register_forward_hook(
        lambda *_: counted.append(1)
    )
    context = make_context(network.eval(), task.train.inputs[:20], task.train.targets[:20])
    counted.clear()
    return context, counted


def gradient_of(context):
    trust_tested(CONFIGURATION, SETUP, context)
    found = context.gradient
    note_tested(CONFIGURATION, SETUP, context)
    return found


def test_the_second_network_of_an_architecture_is_evaluated_less_and_has_the_same_gradient():
    first, cost = example(0)
    gradient_of(first)
    alone, full = example(1)
    plain = alone.gradient
    second, less = example(1)
    assert torch.equal(gradient_of(second), plain)
    assert len(less) < 0.6 * len(full)
    assert len(full) == pytest.approx(len(cost), abs=40)


def test_another_architecture_is_tested_as_a_whole():
    gradient_of(example(0)[0])
    other = replace(CONFIGURATION, width=2 * CONFIGURATION.width)
    context, _ = example(1)
    trust_tested(other, SETUP, context)
    assert "tested before" not in context._cache


class Doubled(torch.autograd.Function):
    """The identity, with twice its derivative."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class Wrong(nn.Module):
    def forward(self, x):
        return Doubled.apply(x)


def test_a_wrong_derivative_is_seen_although_another_network_passed():
    gradient_of(example(0)[0])
    network = untrained(CONFIGURATION, 1, task_of(CONFIGURATION, ""))
    first = next(name for name, m in network.named_modules() if isinstance(m, nn.Linear))
    parent = network.get_submodule(first.rpartition(".")[0])
    own = network.get_submodule(first)
    setattr(parent, first.rpartition(".")[2], nn.Sequential(own, Wrong()))
    context, _ = example(1, network)
    context._cache["tested before"] = next(iter(tested._PASSED.values()))
    assert "not the derivative" in context.landscape.findings.gradient


def test_what_did_not_pass_is_not_remembered():
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 2), Wrong())
    context, _ = example(0, network)
    assert context.landscape.findings.gradient is not None
    note_tested(CONFIGURATION, SETUP, context)
    assert tested._PASSED == {}


def test_families_of_plug_ins_are_tested_as_a_whole(monkeypatch):
    monkeypatch.setattr(tested, "describe", lambda name: SimpleNamespace(builder="blobs.models:net"))
    gradient_of(example(0)[0])
    assert tested._PASSED == {}


def test_proxies_measure_the_same_with_and_without(tmp_path):
    import gapbench

    suite = tmp_path / "tiny.toml"
    suite.write_text(TINY.replace('"random",', '"hessian_trace", "hessian_top_eigenvalue",'))
    together = gapbench.run(suite, tmp_path / "a", device="cpu", workers=0)
    assert tested._PASSED
    from gapbench.population.network import handover_of
    from gapbench.population.stored import open_population

    population = open_population(tmp_path / "a")
    rows = together.measurements.set_index(["cell", "proxy"])
    for member in population.members[:6]:
        given = handover_of(member, population)
        for name in ("hessian_trace", "hessian_top_eigenvalue"):
            alone = measure(name, given.model, given.inputs, given.targets, seed=0)
            assert alone.value == pytest.approx(rows.loc[(member.key, name), "value"], rel=1e-6)
