"""The order of images in memory: which networks are trained in which, and that it changes nothing but rounding."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import torch
from torch import nn

import gapbench
from benchmark.run_cases import rows, weights
from gapbench.computation import memory_format
from gapbench.computation.memory_format import channels_last_pays
from gapbench.population.training import train
from gapbench.proxies.measuring import make_context, measure_in
from gapbench.proxies.registry import checked_options, proxy_entry
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_models.rules import FEWEST_STRIDED_CHANNELS
from gapbench_tasks import Task, load_task

SUITE = """
name = "images"
version = 1
summary = "For tests."

[training]
max_epochs = 4

[measure]
samples = 40
proxies = ["param_norm"]

[[grid]]
task = "digits_rotations"
task_options = { train_size = 60 }
[grid.axes]
family = ["plain/cnn"]
width = [0.25]
seed = [0, 1]
"""


def built(family: str, width: float, shape: tuple[int, int, int]) -> nn.Module:
    return gapbench.build_model(family, width, shape, 10, seed=0)


@pytest.mark.parametrize(
    ("family", "width", "shape", "batch_size", "expected"),
    [
        ("plain/cnn", 1.0, (1, 8, 8), 50, True),
        ("torchvision/resnet18", 0.125, (1, 8, 8), 50, True),
        ("timm/convmixer", 0.25, (1, 28, 28), 50, True),
        ("torchvision/vgg11_bn", 0.125, (3, 32, 32), 50, True),
        ("torchvision/vgg11_bn", 0.5, (1, 8, 8), 50, False),  # maps of one pixel, 2.3 million weights
        ("torchvision/vgg11_bn", 0.125, (3, 32, 32), 1, False),
        ("plain/mlp", 1.0, (1, 8, 8), 50, False),
        ("timm/vit_tiny", 0.125, (3, 32, 32), 50, False),  # one convolution, which makes tokens
        ("timm/mixer", 0.125, (3, 32, 32), 50, False),
    ],
)
def test_large_maps_of_own_convolutions_pay(
    family: str, width: float, shape: tuple[int, int, int], batch_size: int, expected: bool
) -> None:
    network = built(family, width, shape)
    assert channels_last_pays(network, torch.zeros(3, *shape), batch_size) == expected


def test_the_number_of_outputs_is_counted_by_hand() -> None:
    layers = [nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3, stride=2)]  # 6 x 6 x 4 and 2 x 2 x 2
    network = nn.Sequential(*layers)
    inputs = torch.zeros(5, 1, 8, 8)
    assert memory_format._outputs(network, [layers[0], layers[2]], inputs[:1]) == 144 + 8
    size = 36 + 72  # weights; 54 of them are reached by the outputs of no example
    assert channels_last_pays(network, inputs, 1) == (memory_format.LEAST_OUTPUTS * size <= 152)


class Viewing(nn.Module):
    """A stranger's network, which takes for granted how images lie in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(512, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.two(self.one(x).relu()).view(len(x), 512))


def test_networks_of_strangers_and_narrow_strided_shortcuts_stay_as_they_are() -> None:
    inputs = torch.zeros(4, 1, 8, 8)
    assert not channels_last_pays(Viewing(), inputs, 50)
    for channels, expected in ((FEWEST_STRIDED_CHANNELS - 1, False), (FEWEST_STRIDED_CHANNELS, True)):
        shortcut = nn.Sequential(nn.Conv2d(1, channels, 3), nn.Conv2d(channels, 8, 1, stride=2))
        assert channels_last_pays(shortcut, inputs, 50) == expected
    assert channels_last_pays(nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 1)), inputs, 50)


def test_asking_leaves_the_network_and_random_numbers_alone() -> None:
    network = built("torchvision/resnet18", 0.125, (1, 8, 8)).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = torch.get_rng_state()
    assert channels_last_pays(
        network, torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0)), 50
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(module.training for module in network.modules())
    assert not any(module._forward_hooks for module in network.modules())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize("family", ["plain/cnn", "torchvision/resnet18", "timm/convmixer"])
def test_it_changes_rounding_alone(family: str) -> None:
    def doubled(split):
        return split.moved(lambda images: images.double(), torch.device("cpu"))

    task = load_task("digits_rotations", train_size=60)
    task = Task(**{**vars(task), "train": doubled(task.train), "test": doubled(task.test)})
    found = []
    for last in (False, True):
        network = built(family, 0.125, task.input_shape).double()
        values = Hyperparameters(max_epochs=3, batch_size=20, augmentation="rotate", learning_rate=0.02)
        done = train(network, task, values, seed=3, channels_last=last)
        assert all(p.is_contiguous() for p in network.parameters())
        found.append((network.state_dict(), done))
    (one, first), (other, second) = found
    assert first.steps == second.steps == 9
    torch.testing.assert_close(
        torch.tensor(first.history), torch.tensor(second.history), rtol=1e-10, atol=0.0
    )
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=1e-8, atol=1e-10, msg=name)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("family", ["torchvision/resnet18", "plain/cnn", "timm/resnet18"])
def test_traces_and_ascents_are_the_same_in_both_orders(
    family: str, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Piecewise affine networks are seen to be so: their trace is exact."""
    network = built(family, 0.125, (channels, 16, 16)).eval()
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(12, channels, 16, 16, generator=generator)
    targets = torch.randint(0, 10, (12,), generator=generator)
    found = []
    for last in (False, True):
        monkeypatch.setattr(memory_format, "LEAST_OUTPUTS", 0.0 if last else 1e9)
        context = make_context(network, inputs, targets)
        assert context.landscape.inputs.stride(1) == (1 if last else 256)
        assert torch.equal(context.landscape.inputs, inputs)
        with torch.no_grad():
            first = next(m for m in network.modules() if isinstance(m, nn.Conv2d))(context.landscape.inputs)
        assert first.is_contiguous(memory_format=torch.channels_last) == last
        rows = {}
        for name in ("hessian_trace", "adaptive_trace", "sharpness_full", "hessian_trace_balanced"):
            entry = proxy_entry(name)
            rows[name] = measure_in(context, entry, checked_options(entry, {}), 0)
        assert rows["hessian_trace"].details["method"] == "gauss_newton"
        found.append({name: (row.status, row.value, row.standard_error) for name, row in rows.items()})
    one, other = found
    for name, (status, value, error) in one.items():
        assert (status, error) == ("ok", other[name][2])
        assert other[name][1] == pytest.approx(value, rel=2e-3)


def engines(run: gapbench.Run) -> set[str]:
    with sqlite3.connect(run.folder / "run.sqlite") as database:
        return {row[0] for row in database.execute("SELECT engine FROM cells")}


@pytest.mark.parametrize(("pays", "engine"), [(True, "loop, channels last"), (False, "loop")])
def test_damaged_weights_are_restored_in_the_order_in_which_they_were_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pays: bool, engine: str
) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_text(SUITE)
    options = {"device": "cpu", "workers": 0, "board": False}
    with monkeypatch.context() as patched:
        patched.setattr(memory_format, "LEAST_OUTPUTS", 0.0 if pays else 1e9)
        run = gapbench.run(suite, tmp_path / "run", **options)
    assert engines(run) == {engine}
    before, kept = weights(run.folder), rows(run.folder, "cells")
    next((run.folder / "weights").iterdir()).write_bytes(b"damaged")
    monkeypatch.setattr(
        memory_format, "LEAST_OUTPUTS", 1e9 if pays else 0.0
    )  # another rule of a later version
    again = gapbench.run(suite, run.folder, **options)
    assert again.problems == ()
    assert weights(again.folder) == before
    assert rows(again.folder, "cells") == kept
