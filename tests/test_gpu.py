"""The same numbers on a CUDA card as on the CPU, within the precision of the type."""

import copy
import dataclasses

import pytest
import torch

import gapbench
from gapbench.population.engines import ENGINES
from gapbench.population.stacking import StackMember, train_together
from gapbench.population.training import train
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_tasks import Split, load_task

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.mark.parametrize("family", ["plain/cnn", "torchvision/vgg11_bn", "timm/convmixer", "timm/vit_tiny"])
@pytest.mark.parametrize("proxy", gapbench.list_proxies())
def test_proxies_agree_between_devices(family, proxy):
    network = gapbench.build_model(family, 1 / 16, (1, 8, 8), 3, seed=0).double().eval()
    initial = gapbench.build_model(family, 1 / 16, (1, 8, 8), 3, seed=1).double().eval()
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(20, 1, 8, 8, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        targets = network(inputs).argmax(1)
    on_cpu = gapbench.measure(proxy, network, inputs, targets, initial=initial)
    on_card = gapbench.measure(
        proxy, copy.deepcopy(network).cuda(), inputs, targets, initial=copy.deepcopy(initial).cuda()
    )
    assert on_card.status == on_cpu.status
    if on_cpu.status == "ok":
        assert on_card.value == pytest.approx(on_cpu.value, rel=1e-6, abs=1e-12)


def test_training_on_the_card_is_repeatable():
    task = load_task("digits_rotations", train_size=100)
    values = Hyperparameters(max_epochs=3, input_noise=0.1, augmentation="rotate")
    torch.backends.cudnn.deterministic = True
    histories = []
    for _ in range(2):
        network = gapbench.build_model("torchvision/vgg11_bn", 1 / 8, (1, 8, 8), 10, seed=0)
        histories.append(train(network, task, values, seed=0, device="cuda").history)
    assert histories[0] == histories[1]


def test_a_run_on_the_card(tmp_path):
    from benchmark.tiny_suite import TINY

    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    result = gapbench.run(path, tmp_path / "run", device="cuda", workers=2, board=False)
    assert len(result.population) == 12
    assert set(result.population["device"]) == {"cuda"}
    assert not result.failures


@pytest.mark.parametrize("engine", ["layers", "vmap"])
def test_networks_trained_together_on_the_card_get_what_each_gets_alone(engine):
    """In double precision, over a few steps."""
    task = load_task("digits_rotations", train_size=100)
    splits = (Split(s.inputs.double(), s.targets) for s in (task.train, task.test))
    task = dataclasses.replace(task, **dict(zip(("train", "test"), splits)))
    family = "plain/mlp" if engine == "layers" else "torchvision/vgg11_bn"
    group = [
        StackMember(
            str(index),
            gapbench.build_model(family, 1 / 8, (1, 8, 8), 10, seed=index).double(),
            task,
            Hyperparameters(max_epochs=2 + index, learning_rate=0.02 * (1 + index), input_noise=0.1 * index),
            seed=index,
        )
        for index in range(3)
    ]
    found = {}
    train_together(
        copy.deepcopy(group),
        ENGINES[engine],
        "cuda",
        lambda member, result: found.update({member.key: result}),
    )
    for member in group:
        alone = train(member.model, member.task, member.values, member.seed, "cuda")
        assert found[member.key].history == pytest.approx(alone.history, rel=1e-9)
        assert found[member.key].epochs == alone.epochs == 2 + int(member.key)


def test_a_run_of_stacks_on_the_card_is_restored_bit_for_bit(tmp_path):
    from benchmark.tiny_suite import TINY

    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    options = {"device": "cuda", "workers": 2, "board": False, "proxies": ["param_norm"]}
    first = gapbench.run(path, tmp_path / "run", **options)
    files = {file: file.read_bytes() for file in (tmp_path / "run" / "weights").iterdir()}
    for file in list(files)[:2]:
        file.unlink()
    again = gapbench.run(path, tmp_path / "run", **options)
    assert not first.problems
    assert not again.problems
    assert {file: file.read_bytes() for file in files} == files
