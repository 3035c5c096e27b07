import pytest
import torch
import torchvision.transforms.functional as functional
from torchvision.transforms import InterpolationMode

from gapbench_tasks.rotation import rotate, rotate_quarters


@pytest.mark.parametrize("shape", [(4, 1, 28, 28), (3, 3, 8, 8), (3, 1, 9, 9), (2, 2, 12, 20)])
def test_agrees_with_torchvision(shape):
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(shape, generator=generator)
    degrees = torch.rand(shape[0], generator=generator) * 360
    expected = [
        functional.rotate(image, float(angle), interpolation=InterpolationMode.BILINEAR)
        for image, angle in zip(images, degrees)
    ]
    torch.testing.assert_close(rotate(images, degrees), torch.stack(expected), atol=2e-5, rtol=0)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4])
def test_quarter_turns_are_exact(turns):
    images = torch.rand(5, 2, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = torch.rot90(images, turns, dims=(-2, -1))
    assert torch.equal(rotate_quarters(images, torch.full((5,), turns)), expected)
    torch.testing.assert_close(rotate(images, torch.full((5,), 90.0 * turns)), expected, atol=1e-12, rtol=0)


def test_mixed_quarter_turns_and_the_input_is_left_alone():
    images = torch.arange(3 * 16, dtype=torch.float64).reshape(3, 1, 4, 4)
    before = images.clone()
    turned = rotate_quarters(images, torch.tensor([0, 1, 3]))
    assert torch.equal(images, before)
    for i, turns in enumerate((0, 1, 3)):
        assert torch.equal(turned[i], torch.rot90(images[i], turns, dims=(-2, -1)))
