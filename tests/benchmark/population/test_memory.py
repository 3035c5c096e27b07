"""The memory that jobs ask a cluster for: counted from the plan, and never more than a node has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapbench import GapbenchError
from gapbench.population import memory
from gapbench.population.jobs import MeasureJob, Setup, StackJob, TrainJob, TrialJob
from gapbench.population.memory import MIB, MemoryPlan, Need
from gapbench.population.places import check_engine
from gapbench.population.ray_crew import CARD, resources
from gapbench.suites.configuration import Configuration
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_models import activation_count, parameter_count

OPTIONS = (("shape", (1, 4, 4)), ("test_size", 40), ("train_size", 60))
DATA = (60 + 40 + 1000) * 16 * 4
"""Bytes of the inputs of that task, with those without targets."""
GIB = 1 << 30


def configuration(family: str = "plain/mlp", width: float = 1.0, batch: int = 20) -> Configuration:
    values = Hyperparameters(batch_size=batch).normalised()
    return Configuration("separable", OPTIONS, family, width, values, 0)


def training(own: Configuration) -> TrainJob:
    return TrainJob("c", 0, own, {})


@pytest.fixture
def setup(tmp_path):
    return Setup(tmp_path, None, "cpu", samples=40, loss="cross_entropy", measure_seed=0)


def test_a_job_is_given_copies_of_parameters_and_of_what_is_computed_for_its_examples(setup):
    plan, own = MemoryPlan(setup), configuration()
    parameters = parameter_count("plain/mlp", 1.0, (1, 4, 4), 2)
    activations = activation_count("plain/mlp", 1.0, (1, 4, 4), 2)
    base = 700 * MIB + 2 * DATA
    assert plan.of(training(own)).host == base + 4 * (8 * parameters + 3 * 20 * activations)
    whole = configuration(batch=1000)  # no batch has more examples than there are
    assert plan.of(training(whole)).host == base + 4 * (8 * parameters + 3 * 60 * activations)
    measuring = MeasureJob("c", 0, own, "0", ())
    assert plan.of(measuring).host == base + 4 * (16 * parameters + 6 * 40 * activations)
    one = plan.of(training(own)).host - base
    stack = StackJob((training(own),) * 3, "layers", True, frozenset("c"))
    assert plan.of(stack).host == base + 3 * one
    assert plan.of(TrialJob("a", (training(own),) * 3)).host == base + 6 * one
    assert plan.of(training(configuration(width=8.0))).host > plan.of(training(own)).host
    found = plan.largest([own, configuration(width=8.0)])
    assert found == plan.of(MeasureJob("c", 0, configuration(width=8.0), "0", ()))


def test_on_a_card_examples_and_copies_lie_there(setup):
    own = training(configuration())
    on_host, on_card = MemoryPlan(setup).of(own), MemoryPlan(replace(setup, device="cuda")).of(own)
    assert on_host.card == 0
    assert on_card.card == memory.CONTEXT + DATA + (on_host.host - 700 * MIB - 2 * DATA)


def test_a_network_that_cannot_be_counted_is_no_reason_to_train_nothing(setup, monkeypatch):
    def fails(*_):
        raise RuntimeError("no values")

    monkeypatch.setattr(memory, "activation_count", fails)
    assert MemoryPlan(setup).of(training(configuration())).host == 700 * MIB + 2 * DATA


def test_tasks_ask_for_memory_that_a_node_has_and_a_share_of_a_gpu_by_size():
    small, large, huge = Need(GIB, CARD // 4), Need(6 * GIB, CARD // 2), Need(GIB, CARD)
    assert resources("cpu", small, most=4 * GIB) == {"num_cpus": 1, "memory": GIB}
    assert resources("cpu", large, most=4 * GIB)["memory"] == 4 * GIB  # what no node has would wait forever
    assert "memory" not in resources("cpu", large)  # no node says what it has
    shares = [resources("cuda", need)["num_gpus"] for need in (small, large, huge)]
    assert shares == [0.25, 0.5, 1.0]
    assert resources("cuda", huge, share=0.1)["num_gpus"] == 0.1


def test_a_share_of_a_gpu_is_of_a_cluster_and_of_one():
    with pytest.raises(GapbenchError, match="on one machine --workers share its GPU"):
        check_engine("local", None, 0.5)
    for share in (0.0, 1.5, -1.0):
        with pytest.raises(GapbenchError, match="must be more than 0 and at most 1"):
            check_engine("ray", None, share)
    check_engine("ray", None, 1.0)
