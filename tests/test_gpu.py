"""The same numbers on a CUDA card as on the CPU, within the precision of the type."""

import copy

import pytest
import torch

import gapbench
from gapbench.population.training import train
from gapbench.suites.hyperparameters import Hyperparameters
from gapbench_tasks import load_task

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
