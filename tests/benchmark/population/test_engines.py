"""The trial that decides how networks of one architecture are trained."""

import dataclasses

import pytest
import torch
from torch import nn

import gapbench
from gapbench.population import engines
from gapbench.population.engines import Candidates, choose, size_of
from gapbench.population.layer_stack import LayerStack
from gapbench.population.stacking import StackMember
from gapbench.population.vmap_stack import VmapStack
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_tasks import load_task

TASK = load_task("digits_rotations", train_size=46)
CPU = torch.device("cpu")
exact_here = pytest.mark.skipif(
    not torch.backends.mkl.is_available(), reason="other kernels may round otherwise"
)


def candidates(family="plain/mlp", width=0.125, count=4, build=None, **training):
    def make(index):
        model = gapbench.build_model(
            family, width, (1, 8, 8), 10, seed=index, dropout=training.get("dropout", 0)
        )
        values = Hyperparameters(batch_size=16, **training)
        return StackMember(str(index), model if build is None else build(), TASK, values, index)

    return Candidates(make, count)


@pytest.fixture
def clock(monkeypatch):
    """Steps of the plain loop last as long as told, those of a stack a second."""

    def set_to(seconds):
        def round_of(way):
            way.steps()
            return seconds if type(way).__name__ == "_Loop" else 1.0

        monkeypatch.setattr(engines._Way, "round", round_of)
        monkeypatch.setattr(engines, "LONG_STEP", 10.0)

    return set_to


@exact_here
@pytest.mark.parametrize(
    ("seconds", "engine", "size"), [(1.2, "layers", 16), (1.05, "loop", 1), (0.5, "loop", 1)]
)
def test_a_stack_is_taken_where_it_is_faster_by_more_than_a_trial_can_be_wrong(clock, seconds, engine, size):
    clock(seconds)
    found = choose(candidates(), CPU, 1, "exact")
    assert (found.engine, found.exact, found.size) == (engine, True, size)
    assert (found.loop_seconds, found.stack_seconds) == (seconds, 1.0)


def test_only_exact_engines_unless_others_are_asked_for(clock):
    clock(3.0)
    exact = choose(candidates("plain/cnn"), CPU, 1, "exact")
    assert exact.engine == "loop"
    assert "Conv2d" in exact.reason
    assert "would change the last bits" in exact.reason
    found = choose(candidates("plain/cnn"), CPU, 1, "any")
    assert (found.engine, found.exact) == ("vmap", False), found.reason


def test_long_steps_have_nothing_to_save_on_a_cpu(clock):
    clock(11.0)
    found = choose(candidates("plain/cnn"), CPU, 1, "any")
    assert found.engine == "loop"
    assert "11000.0 ms" in found.reason


def test_an_engine_that_computes_something_else_is_refused(clock, monkeypatch):
    clock(3.0)

    class Wrong(LayerStack):
        def gradient(self, inputs, targets):
            losses, gradient = super().gradient(inputs, targets)
            return losses, gradient.mul_(1 + 1e-6)

    class VeryWrong(VmapStack):
        def gradient(self, inputs, targets):
            losses, gradient = super().gradient(inputs, targets)
            return losses, 2 * gradient

    monkeypatch.setattr(engines, "ENGINES", {"layers": Wrong, "vmap": VeryWrong})
    found = choose(candidates(learning_rate=0.5), CPU, 1, "any")
    assert found.engine == "loop"
    assert "last bits" in found.reason
    assert "differ from the plain loop's" in found.reason


@exact_here
def test_an_engine_must_be_exact_for_every_number_of_networks(clock, monkeypatch):
    clock(3.0)

    class Alone(LayerStack):
        def gradient(self, inputs, targets):
            losses, gradient = super().gradient(inputs, targets)
            return losses, gradient.mul_(1 + 1e-6) if len(inputs) == 1 else gradient

    monkeypatch.setattr(engines, "ENGINES", {"layers": Alone})
    assert "with 1 networks left" in choose(candidates(learning_rate=0.5), CPU, 1, "exact").reason


def test_an_engine_that_fails_is_not_taken_and_the_reason_kept(clock):
    clock(3.0)

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(64, 10)

        def forward(self, x):
            return self.output(x.flatten(1)) if float(x.sum()) > 0 else -self.output(x.flatten(1))

    found = choose(candidates(build=Branches), CPU, 1, "any")
    assert found.engine == "loop"
    assert "item" in found.reason or "data-dependent" in found.reason


@exact_here
def test_short_of_memory_a_trial_takes_fewer(clock, monkeypatch):
    clock(3.0)

    def engine(models, inputs):
        if len(models) > 3:
            raise RuntimeError("CUDA out of memory. Tried to allocate")
        return LayerStack(models, inputs)

    monkeypatch.setitem(engines.ENGINES, "layers", engine)
    assert choose(candidates(count=9), CPU, 1, "exact").size == 2  # 16, 8, 4 were too many


def test_stacks_are_as_large_as_the_cache_and_the_memory_allow(monkeypatch):
    small, large = (candidates(width=width).make(0) for width in (0.125, 4.0))
    assert size_of(small, 1, CPU, workers=1) == 16
    values = sum(p.numel() for p in large.model.parameters())
    assert size_of(large, 1, CPU, workers=1) == (6 << 20) // (12 * values + 16 * 64 * 4) == 6
    needed = 8 * 4 * sum(p.numel() for p in small.model.parameters()) + 4 * 16 * 64 * 4
    monkeypatch.setattr(engines, "_memory", lambda device: 4 * 3 * 5 * needed)
    assert size_of(small, 1, CPU, workers=3) == 5
    data = 4 * 64 * (46 + len(TASK.test))
    monkeypatch.setattr(engines, "_memory", lambda device: 4 * 3 * (needed + data))
    assert size_of(small, 2, CPU, workers=1) == 3
    assert size_of(small, 2, CPU, workers=4) == 0
    assert choose(candidates(), CPU, 1000, "exact").reason == "two networks do not fit into the memory"


def test_a_trial_looks_at_the_beginning_and_the_end_of_an_epoch():
    task = dataclasses.replace(TASK)
    member = StackMember("0", candidates().make(0).model, task, Hyperparameters(batch_size=3), 0)
    way = engines._Way([member], CPU)  # 46 examples in 16 parts: fourteen of 3, two of 2
    assert way.chosen == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15]
