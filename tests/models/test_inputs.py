"""Sizes, channels, memory formats, precision: every family takes what the tasks feed."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gapbench_models import describe
from gapbench_models.rules import FEWEST_STRIDED_CHANNELS
from models.family_cases import FAMILIES, images, tiny, with_generic_statistics

SHAPES = [(1, 8, 8), (3, 16, 16), (1, 28, 28), (3, 32, 32), (2, 9, 9), (1, 12, 20), (3, 15, 8)]


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_for_every_image_size(name: str) -> None:
    smallest = describe(name).smallest_size
    for shape in [*SHAPES, (1, smallest, smallest)]:
        net = tiny(name, shape, num_classes=2)
        for mode in (True, False):
            logits = net.train(mode)(images(shape, samples=3))
            assert logits.shape == (3, 2), (shape, mode)
            assert torch.isfinite(logits).all(), (shape, mode)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("width", [0.01, 0.3, 0.77])
def test_any_width_builds_and_runs(name: str, width: float) -> None:
    net = tiny(name, (1, 8, 8), width=width).eval()
    first, second = net(images((1, 8, 8), samples=2))
    assert torch.isfinite(first).all()
    assert not torch.equal(first, second)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("side", [8, 16, 28, 32])
def test_every_kernel_tap_is_reached_by_pixels(name: str, side: int) -> None:
    """No weight of a spatial kernel sees only padding: it would be a flat direction by construction."""
    net = with_generic_statistics(tiny(name, (1, side, side))).double().eval()
    kernels = [
        (key, module.weight)
        for key, module in net.named_modules()
        if isinstance(module, nn.Conv2d) and max(module.kernel_size) > 1
    ]
    if not kernels:
        pytest.skip("no spatial kernels")
    reached: list[torch.Tensor] = []
    for seed in range(2):
        logits = net(images((1, side, side), samples=4, seed=seed, dtype=torch.float64))
        gradients = torch.autograd.grad(logits.square().sum(), [weight for _, weight in kernels])
        touched = [gradient.abs().sum(dim=(0, 1)) for gradient in gradients]
        reached = [old + new for old, new in zip(reached, touched)] if reached else touched
    for (key, _), taps in zip(kernels, reached):
        assert taps.min() > 1e-12 * taps.max() > 0, (key, taps)


@pytest.mark.parametrize("name", FAMILIES)
def test_strided_shortcuts_read_enough_channels_for_the_cpu_kernels(name: str) -> None:
    """See `FEWEST_STRIDED_CHANNELS`: with fewer, training in channels_last corrupts memory."""
    for width in (0.01, 1 / 12):
        for module in tiny(name, (1, 32, 32), width=width).modules():
            if isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1) and max(module.stride) > 1:
                assert module.in_channels >= FEWEST_STRIDED_CHANNELS


@pytest.mark.parametrize("name", FAMILIES)
def test_every_input_pixel_matters(name: str) -> None:
    shape = (2, 8, 8)
    net = tiny(name, shape, width=1 / 4).double().eval()
    inputs = images(shape, samples=8, dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(net(inputs).square().sum(), inputs)
    assert gradient.abs().sum(dim=0).min() > 0


@pytest.mark.parametrize("name", FAMILIES)
def test_samples_do_not_mix_in_eval_mode(name: str) -> None:
    shape = (1, 8, 8)
    net = with_generic_statistics(tiny(name, shape)).double().eval()
    inputs = images(shape, samples=3, dtype=torch.float64)
    together = net(inputs)
    for index in range(3):
        torch.testing.assert_close(net(inputs[index : index + 1])[0], together[index], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_channels_last_and_float64_agree_with_float32(name: str) -> None:
    shape = (3, 8, 8)
    net = with_generic_statistics(tiny(name, shape)).eval()
    inputs = images(shape)
    expected = net(inputs)
    last = net.to(memory_format=torch.channels_last)(inputs.to(memory_format=torch.channels_last))
    torch.testing.assert_close(last, expected, rtol=1e-4, atol=1e-5)
    exact = net.double()(inputs.double())
    assert exact.dtype == torch.float64
    torch.testing.assert_close(exact.float(), expected, rtol=1e-4, atol=1e-5)
    net.train()(inputs.double().to(memory_format=torch.channels_last)).sum().backward()
