"""Width as a multiplier: the parameter count never falls with it and grows strictly at each doubling."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapbench_models import build_model, describe, parameter_count
from gapbench_models.rules import minimum_map, patch_size, scaled
from models.family_cases import FAMILIES

SCALED = [name for name in FAMILIES if name != "plain/linear"]
DOUBLINGS = [2.0**power for power in range(-3, 4)]
FINE = [0.01, 0.05] + [0.125 * 2 ** (step / 2.4) for step in range(15)]


@pytest.mark.parametrize("num_classes", [2, 10])
@pytest.mark.parametrize("name", SCALED)
def test_the_parameter_count_grows_strictly_at_each_doubling(name: str, num_classes: int) -> None:
    depth = 1 if num_classes == 10 and describe(name).supports_depth else None
    counts = [parameter_count(name, width, (3, 16, 16), num_classes, depth) for width in DOUBLINGS]
    assert all(low < high for low, high in pairwise(counts)), counts


@pytest.mark.parametrize("name", SCALED)
def test_the_parameter_count_never_falls_with_width(name: str) -> None:
    depth = 1 if describe(name).supports_depth else None
    counts = [parameter_count(name, width, (1, 8, 8), 2, depth) for width in FINE]
    assert all(low <= high for low, high in pairwise(counts)), list(zip(FINE, counts))


def test_the_rounding_of_the_libraries_never_falls_with_width() -> None:
    """Their channel counts make the parameter counts of the mobile families; here on a much finer grid."""
    from timm.models._efficientnet_builder import round_channels
    from torchvision.models.mobilenetv3 import InvertedResidualConfig

    widths = [0.01 * 1.003**step for step in range(2300)]
    for base in (16, 24, 32, 40, 72, 112, 144, 320, 1280):
        for counts in (
            [round_channels(base, width) for width in widths],
            [InvertedResidualConfig.adjust_channels(base, width) for width in widths],
        ):
            assert counts == sorted(counts)
            assert counts[-1] >= 0.9 * base * widths[-1]


def test_the_linear_family_ignores_width() -> None:
    assert {parameter_count("plain/linear", width, (3, 16, 16), 10) for width in (0.01, 0.5, 1, 8)} == {7680}


@pytest.mark.parametrize("name", FAMILIES)
def test_counting_agrees_with_building(name: str) -> None:
    net = build_model(name, 0.125, (1, 16, 16), 5)
    assert parameter_count(name, 0.125, (1, 16, 16), 5) == sum(
        parameter.numel() for parameter in net.parameters()
    )


# Millions of parameters at 32 x 32 with 10 classes, widths 1/4, 1/2, 1, 2, of the libraries' own code.
PUBLISHED = {
    "timm/resnet18": (0.70, 2.80, 11.20, 44.77),
    "timm/resnetv2_18": (0.70, 2.80, 11.17, 44.66),
    "timm/efficientnet_b0": (0.33, 1.08, 4.02, 15.59),
    "timm/mobilenetv2": (0.25, 0.70, 2.24, 8.72),
    "timm/densenet121": (0.45, 1.76, 6.96, 27.63),
    "timm/vit_tiny": (0.35, 1.35, 5.36, 21.34),
    "timm/mixer": (1.13, 4.36, 17.11, 67.77),
    "timm/convmixer": (0.05, 0.17, 0.59, 2.24),
    "torchvision/resnet18": (0.70, 2.80, 11.17, 44.66),
    "torchvision/vgg11_bn": (0.58, 2.31, 9.23, 36.89),
    "torchvision/mobilenet_v2": (0.25, 0.70, 2.24, 8.72),
    "torchvision/mobilenet_v3_small": (0.12, 0.41, 1.53, 5.92),
    "torchvision/densenet121": (0.45, 1.76, 6.96, 27.63),
    "torchvision/vit": (0.18, 0.68, 2.69, 10.70),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_those_measured_with_the_libraries(name: str) -> None:
    counts = [parameter_count(name, width) / 1e6 for width in (0.25, 0.5, 1, 2)]
    assert counts == pytest.approx(PUBLISHED[name], abs=0.0051)


# Closed forms from the papers: kernels, two numbers per normalised channel, biases.
def _resnet18(stem: list[tuple[int, int]], channels: int, classes: int) -> int:
    total = sum(9 * fan_in * fan_out + 2 * fan_out for fan_in, fan_out in stem)
    before = channels
    for stage in (1, 2, 4, 8):
        out = stage * channels
        total += 9 * before * out + 3 * 9 * out * out + 4 * 2 * out
        total += before * out + 2 * out if before != out else 0
        before = out
    return total + before * classes + classes


@pytest.mark.parametrize("channels", [8, 16, 64])
def test_resnet18_has_the_parameters_of_its_paper(channels: int) -> None:
    width, half = channels / 64, channels // 2
    assert parameter_count("torchvision/resnet18", width) == _resnet18([(3, channels)], channels, 10)
    deep = [(3, half), (half, half), (half, channels)]
    assert parameter_count("timm/resnet18", width) == _resnet18(deep, channels, 10)


def test_vgg11_has_the_parameters_of_its_paper() -> None:
    channels = [3, 64, 128, 256, 256, 512, 512, 512, 512]
    convolutions = sum(9 * fan_in * fan_out + 3 * fan_out for fan_in, fan_out in pairwise(channels))
    assert parameter_count("torchvision/vgg11_bn") == convolutions + 512 * 10 + 10


def test_plain_families_have_the_parameters_of_their_formulas() -> None:
    d, h, classes = 64, 16, 3
    assert (
        parameter_count("plain/mlp", 0.25, (1, 8, 8), classes, depth=1) == d * h + h + h * classes + classes
    )
    assert parameter_count("plain/mlp", 0.25, (1, 8, 8), classes, depth=3) == (
        d * h + h + 2 * (h * h + h) + h * classes + classes
    )
    assert (
        parameter_count("plain/deep_linear", 0.25, (1, 8, 8), classes, depth=2) == d * h + h * h + h * classes
    )
    assert parameter_count("plain/linear", 0.25, (1, 8, 8), classes) == d * classes
    assert parameter_count("plain/cnn", 0.25, (1, 8, 8), classes, depth=2) == (
        9 * 4 + 4 + 9 * 4 * 8 + 8 + 8 * classes + classes
    )


def test_the_mixer_has_the_parameters_of_its_paper() -> None:
    dim, tokens, blocks = 64, 64, 8
    token_mlp = tokens * dim // 2 + dim // 2 + dim // 2 * tokens + tokens
    channel_mlp = 8 * dim * dim + 4 * dim + dim
    total = 16 * 3 * dim + dim + blocks * (token_mlp + channel_mlp + 4 * dim) + 2 * dim + 10 * dim + 10
    assert parameter_count("timm/mixer", 1 / 8) == total


def test_the_convmixer_has_the_parameters_of_its_paper() -> None:
    dim = 32
    block = 25 * dim + dim + dim * dim + dim + 2 * 2 * dim
    assert parameter_count("timm/convmixer", 1 / 8) == 4 * 3 * dim + dim + 2 * dim + 8 * block + 10 * dim + 10


@given(
    base=st.integers(1, 2048), divisor=st.integers(1, 16), widths=st.lists(st.floats(0.001, 64), min_size=2)
)
def test_scaled_channels_are_a_step_function_of_the_width(
    base: int, divisor: int, widths: list[float]
) -> None:
    channels = [scaled(base, width, divisor) for width in sorted(widths)]
    assert channels == sorted(channels)
    assert all(count % divisor == 0 and count >= divisor for count in channels)
    for width, count in zip(sorted(widths), channels):
        assert count == divisor or abs(count - base * width) <= divisor / 2 + 1e-9


@given(height=st.integers(4, 64), width=st.integers(4, 64), preferred=st.integers(1, 8))
def test_patches_tile_the_image(height: int, width: int, preferred: int) -> None:
    side = patch_size((height, width), preferred)
    assert 1 <= side <= preferred
    assert height % side == 0
    assert width % side == 0
    assert min(height // side, width // side) >= 4


def test_every_tap_of_a_kernel_meets_a_pixel_on_the_smallest_map_only_from_there_on() -> None:
    for kernel in (1, 3, 5, 7, 9):
        pad, side = kernel // 2, minimum_map(kernel)

        def met(side: int, kernel: int = kernel, pad: int = pad) -> int:
            return len({tap for out in range(side) for tap in range(kernel) if 0 <= out + tap - pad < side})

        assert met(side) == kernel
        assert side == 1 or met(side - 1) < kernel
