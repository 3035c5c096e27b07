"""Constants of the bound against dense Jacobians, attained differences and other spellings of the same function."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gapbench
from benchmark.computation.constants import (
    Block,
    ByChannel,
    Function,
    Left,
    LeftBatched,
    Normalise,
    Rows,
    Scale,
    composed,
    constant,
    largest_slope,
    matrix_of,
    randomised,
    seeded,
)
from gapbench.computation.lipschitz import compose

PADDINGS = {
    "zero": (nn.ZeroPad2d(1), {"padding": 1}),
    "zero_by_function": (Function(lambda x: F.pad(x, (1, 1, 1, 1))), {"padding": 1}),
    "constant_of_zero": (nn.ConstantPad2d(1, 0.0), {"padding": 1}),
    "reflect": (nn.ReflectionPad2d(2), {"padding": 2, "padding_mode": "reflect"}),
    "replicate": (nn.ReplicationPad2d(2), {"padding": 2, "padding_mode": "replicate"}),
    "circular": (nn.CircularPad2d(2), {"padding": 2, "padding_mode": "circular"}),
    "circular_function": (
        Function(lambda x: F.pad(x, (2, 2, 2, 2), mode="circular")),
        {"padding": 2, "padding_mode": "circular"},
    ),
    "same": (nn.ZeroPad2d(1), {"padding": "same"}),
    "two_paddings": (nn.Sequential(nn.ZeroPad2d((1, 0, 0, 1)), nn.ZeroPad2d((0, 1, 1, 0))), {"padding": 1}),
}


@pytest.mark.parametrize("name", sorted(PADDINGS))
@pytest.mark.parametrize("groups", [1, 2])
def test_padding_as_a_layer_is_padding_in_the_convolution(name, groups):
    pad, options = PADDINGS[name]
    torch.manual_seed(0)
    inside = nn.Conv2d(2, 4, 3, groups=groups, **options)
    bare = nn.Conv2d(2, 4, 3, groups=groups)
    bare.load_state_dict(inside.state_dict())
    head = nn.Linear(4 * 25 if inside.padding in (1, "same", (1, 1)) else 4 * 7 * 7, 3)
    size = 5
    if options["padding"] == 2 and "padding_mode" in options:
        head = nn.Linear(4 * 7 * 7, 3)
    networks = [nn.Sequential(*a, nn.ReLU(), nn.Flatten(), head).double() for a in ([inside], [pad, bare])]
    x = torch.randn(12, 2, size, size).double()
    assert torch.equal(networks[0](x), networks[1](x))
    y = networks[0](x).argmax(1)
    found = [gapbench.measure("spectral_margin_bound", n, x, y, gamma=0.1) for n in networks]
    assert found[1].value == pytest.approx(found[0].value, rel=1e-9)
    matrix = matrix_of(networks[1][:2], (2, size, size))
    for one in found:
        assert one.details["sigma"][0] == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-8)
        assert one.details["norm_2_1"][0] == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-9)


LAYERS = {
    "reflected_strided": (
        lambda: nn.Sequential(nn.ReflectionPad2d((2, 1, 0, 3)), nn.Conv2d(2, 3, 3, 2)),
        (2, 5, 6),
    ),
    "reflected_dilated": (
        lambda: nn.Conv2d(2, 4, 3, dilation=2, padding=3, padding_mode="reflect", groups=2),
        (2, 6, 5),
    ),
    "even_same": (lambda: nn.Conv2d(2, 3, 4, padding="same"), (2, 5, 5)),
    "even_same_circular": (lambda: nn.Conv2d(2, 3, 2, padding="same", padding_mode="circular"), (2, 4, 4)),
    "line_reflect": (lambda: nn.Conv1d(2, 3, 5, padding=2, padding_mode="reflect"), (2, 6)),
    "line_circular": (lambda: nn.Sequential(nn.CircularPad1d((3, 1)), nn.Conv1d(2, 2, 3)), (2, 4)),
    "volume_replicate": (lambda: nn.Conv3d(1, 2, 3, padding=1, padding_mode="replicate"), (1, 3, 4, 3)),
    "volume_zero": (lambda: nn.Sequential(nn.ConstantPad3d(1, 0.0), nn.Conv3d(2, 2, 2, 2)), (2, 3, 3, 4)),
    "volume_grouped": (lambda: nn.Conv3d(2, 4, 2, groups=2, padding=1, stride=2), (2, 3, 4, 3)),
    "cropped": (lambda: nn.Sequential(nn.ZeroPad2d((-1, 2, 1, -1)), nn.Conv2d(2, 3, 2)), (2, 5, 4)),
    "transposed_line": (lambda: nn.ConvTranspose1d(2, 3, 4, 3, 1, output_padding=1), (2, 5)),
    "transposed_volume": (lambda: nn.ConvTranspose3d(2, 2, 2, 2), (2, 2, 3, 2)),
    "transposed_grouped_normalised": (
        lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 3, 2, groups=2), randomised(nn.BatchNorm2d(6))),
        (4, 3, 3),
    ),
    "padded_transposed": (lambda: nn.Sequential(nn.ZeroPad2d(1), nn.ConvTranspose2d(2, 3, 3, 2)), (2, 3, 3)),
    "padded_normalised": (
        lambda: nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(2, 3, 3), randomised(nn.BatchNorm2d(3))),
        (2, 4, 4),
    ),
    "padded_dense": (lambda: nn.Sequential(Function(lambda x: F.pad(x, (2, 1))), nn.Linear(7, 3)), (4,)),
    "repeated_dense": (
        lambda: nn.Sequential(Function(lambda x: torch.cat([x, x], 1)), nn.Linear(8, 3)),
        (4,),
    ),
    "indexed_dense": (lambda: nn.Sequential(Function(lambda x: x[:, [0, 0, 3]]), nn.Linear(3, 3)), (4,)),
    "idle_between": (
        lambda: nn.Sequential(nn.ReflectionPad2d(1), nn.Identity(), nn.Dropout(), nn.Conv2d(2, 2, 3)),
        (2, 4, 4),
    ),
    "scaled_dense": (lambda: nn.Sequential(Normalise(), nn.Flatten(), nn.Linear(24, 3)), (2, 4, 3)),
    "scaled_padded": (lambda: nn.Sequential(Normalise(), nn.ZeroPad2d(1), nn.Conv2d(2, 3, 3)), (2, 4, 3)),
    "rows_normalised": (lambda: Rows(randomised(nn.BatchNorm1d(3))), (4, 3)),
    "rows_scaled": (lambda: Rows(Scale((3,))), (4, 3)),
    "expanded_scale": (lambda: Scale((1, 2, 4, 3), expand=True), (2, 4, 3)),
    "normed_weight": (
        lambda: torch.nn.utils.parametrizations.weight_norm(nn.Conv2d(2, 3, 3, padding=1)),
        (2, 4, 4),
    ),
    "left": (lambda: Left(), (4, 3)),
    "left_batched": (lambda: LeftBatched(), (4, 3)),
}


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_folded_layers_have_the_norms_of_their_dense_matrix(name):
    build, shape = LAYERS[name]
    network = seeded(build)
    found = composed(network, shape)
    matrix = matrix_of(network, shape)
    (layer,) = found.layers
    assert layer.sigma == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-8)
    assert math.exp(found.log_lipschitz) == pytest.approx(layer.sigma, rel=1e-9)
    assert layer.norm_2_1 == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-9)
    assert (layer.outputs, layer.inputs) == tuple(matrix.shape)
    other = seeded(build)
    for p in other.parameters():
        nn.init.normal_(p)
    example = torch.zeros(2, *shape, dtype=torch.float64)
    difference = (matrix - matrix_of(other, shape)).norm(dim=1).sum()
    assert compose(network, example, other).layers[0].norm_2_1 == pytest.approx(float(difference), rel=1e-9)


FIXED = {
    "reflection": nn.ReflectionPad2d((2, 1, 0, 3)),
    "circular": nn.CircularPad2d((5, 1, 2, 3)),
    "replication": nn.ReplicationPad2d(2),
    "constant": nn.ConstantPad2d(1, 3.0),
    "zero": nn.ZeroPad2d((1, 0, -1, 2)),
    "reflection_then_average": nn.Sequential(nn.ReflectionPad2d(1), nn.AvgPool2d(3, 1)),
    "average_overlapping": nn.AvgPool2d(3, 1, 1),
    "average_ceil": nn.AvgPool2d(2, 2, ceil_mode=True),
    "average_without_padding": nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "average_divisor": nn.AvgPool2d(2, 1, divisor_override=1),
    "adaptive_average": nn.AdaptiveAvgPool2d((3, 4)),
    "adaptive_to_more": nn.AdaptiveAvgPool2d(7),
    "nearest": nn.Upsample(size=(7, 8)),
    "bilinear": nn.Upsample(scale_factor=2, mode="bilinear"),
    "bicubic": nn.Upsample(size=(3, 9), mode="bicubic", align_corners=True),
    "area": Function(lambda x: F.interpolate(x, size=(3, 2), mode="area")),
    "antialiased": Function(lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True)),
    "global_mean": Function(lambda x: x.mean((2, 3))),
    "global_sum": Function(lambda x: x.sum((2, 3))),
    "twice": Function(lambda x: x + x),
    "thrice_less_mean": Function(lambda x: 3 * x - x.mean(1, keepdim=True)),
    "cat_twice": Function(lambda x: torch.cat([x, x], 1)),
    "cat_with_padded": Function(lambda x: torch.cat([x, F.pad(x[:, :, 1:], (0, 0, 1, 0))], 1)),
    "stack": Function(lambda x: torch.stack([x, -2 * x], 1)),
    "index": Function(lambda x: x[:, [0, 0, 1, 0]]),
    "index_select": Function(lambda x: x.index_select(2, torch.tensor([1, 1, 3, 3, 3]))),
    "repeat": Function(lambda x: x.repeat(1, 3, 1, 2)),
    "repeat_interleave": Function(lambda x: x.repeat_interleave(3, 1)),
    "expand": Function(lambda x: x[:, :1].expand(-1, 6, -1, -1)),
    "cumsum": Function(lambda x: x.cumsum(2)),
    "unfold": nn.Unfold(3),
    "windows": Function(lambda x: x.unfold(2, 3, 1)),
    "permuted": Function(lambda x: x.permute(0, 3, 1, 2).flatten(2)),
    "split_and_joined": Function(lambda x: torch.cat(x.chunk(2, 1)[::-1], 1)),
    "pixel_shuffle": nn.Sequential(Function(lambda x: x.repeat(1, 2, 1, 1)), nn.PixelShuffle(2)),
    "normalised": Function(
        lambda x: (x - torch.tensor([0.3, -0.2]).view(2, 1, 1)) / torch.tensor([0.5, 2.0]).view(2, 1, 1)
    ),
    "grey_to_colour": Function(lambda x: x[:, :1] - torch.tensor([0.3, -0.2, 1.0]).view(3, 1, 1)),
    "where": Function(lambda x: torch.where(torch.tensor([True, False]).view(2, 1, 1), x, 3.0 * x)),
    "constant_part": Function(lambda x: torch.cat([x, torch.full_like(x, 7.0), -x], 1)),
    "token": Function(lambda x: torch.stack([x, torch.ones(len(x), 2, 5, 6).double()], 2).mean(2)),
    "doubled_less_one": Function(lambda x: 2 * x - x),
    "rsub": Function(lambda x: 1.0 - 2.0 * x),
    "masked": Function(lambda x: x.masked_fill(torch.tensor([True, False]).view(2, 1, 1), 5.0)),
}


@pytest.mark.parametrize("name", sorted(FIXED))
def test_fixed_linear_operators_have_their_operator_norm(name):
    shape = (2, 5, 6)
    network = nn.Sequential(nn.Conv2d(2, 2, 1, bias=False), FIXED[name]).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.eye(2, dtype=torch.float64)[:, :, None, None])
    true = float(torch.linalg.matrix_norm(matrix_of(FIXED[name], shape), 2))
    assert constant(network, shape) == pytest.approx(true, rel=1e-8)
    assert constant(FIXED[name], shape) == pytest.approx(true, rel=1e-8)


POOLS = {
    "dilated": nn.MaxPool2d(3, 3, dilation=3),
    "dilated_padded": nn.MaxPool2d(3, 2, padding=1, dilation=2),
    "overlapping": nn.MaxPool2d(3, 2),
    "stride_one": nn.MaxPool2d((2, 3), 1),
    "ceil": nn.MaxPool2d(3, 2, 1, ceil_mode=True),
    "line": nn.Sequential(nn.Flatten(2), nn.MaxPool1d(4, 3, dilation=2)),
    "volume": nn.Sequential(
        Function(lambda x: x.reshape(len(x), 1, 4, 5, 8)), nn.MaxPool3d((2, 3, 3), (1, 2, 3), (0, 1, 0))
    ),
    "adaptive": nn.AdaptiveMaxPool2d((4, 3)),
    "adaptive_to_more": nn.AdaptiveMaxPool2d(12),
    "adaptive_volume": nn.Sequential(
        Function(lambda x: x.reshape(len(x), 1, 4, 5, 8)), nn.AdaptiveMaxPool3d((3, 2, 5))
    ),
    "after_replication": nn.Sequential(nn.ReplicationPad2d((2, 0, 0, 1)), nn.MaxPool2d(2, 2)),
    "global": nn.AdaptiveMaxPool2d(1),
    "sorted": Function(lambda x: x.flatten(1).sort(1).values),
    "largest_three": Function(lambda x: x.flatten(1).topk(3, dim=1).values),
    "median": Function(lambda x: x.flatten(1).median(1, keepdim=True).values),
    "amax": Function(lambda x: x.amax((2, 3))),
    "amin": Function(lambda x: x.flatten(1).min(1, keepdim=True).values),
}


@pytest.mark.parametrize("name", sorted(POOLS))
def test_constants_of_max_pooling_are_attained(name):
    shape, pool = (2, 8, 10), POOLS[name]
    claimed = constant(pool, shape)
    point = torch.zeros(1, *shape, dtype=torch.float64)
    attained = 0.0
    sign = -1.0 if name == "amin" else 1.0
    with torch.no_grad():
        for impulse in torch.eye(math.prod(shape), dtype=torch.float64).reshape(-1, 1, *shape):
            attained = max(attained, float((pool(point + sign * impulse) - pool(point)).norm()))
    assert claimed >= largest_slope(pool, shape, 4) * (1 - 1e-12)
    if name not in ("after_replication", "median"):  # copies in one window count; medians ignore impulses
        assert claimed == pytest.approx(attained, rel=1e-12)


def test_layers_are_named_after_their_weights():
    network = seeded(lambda: nn.Sequential(nn.Conv1d(2, 2, 1), Scale((2, 1)), nn.Flatten(), nn.Linear(6, 3)))
    assert [layer.name for layer in composed(network, (2, 3)).layers] == ["0.weight", "1.scale", "3.weight"]


@pytest.mark.parametrize("divide", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (2, 1, 1), (1, 2, 1, 1), (4,), (3, 4), (2, 3, 4), (5, 1, 3, 4)])
def test_learned_factors_broadcast(shape, divide):
    channels = 1 if shape == (5, 1, 3, 4) else 2
    shape = (1, 5, 3, 4) if channels == 1 else shape  # there the activation is broadcast
    network = seeded(lambda: Scale(shape, divide))
    found = composed(network, (channels, 3, 4))
    matrix = matrix_of(network, (channels, 3, 4))
    (layer,) = found.layers
    assert layer.sigma == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-12)
    assert layer.norm_2_1 == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-12)
    assert (layer.outputs, layer.inputs) == tuple(matrix.shape)


def test_input_normalisation_is_a_constant_of_its_own():
    network = seeded(lambda: nn.Sequential(Normalise(), nn.Conv2d(2, 3, 2, bias=False)))
    found = composed(network, (2, 3, 3))
    (layer,) = found.layers
    matrix = matrix_of(network, (2, 3, 3))
    assert layer.sigma == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-9)
    assert layer.norm_2_1 == pytest.approx(float(matrix.norm(dim=1).sum()), rel=1e-9)
    assert math.exp(found.log_lipschitz) == pytest.approx(layer.sigma, rel=1e-12)
    assert found.obstacles
    scaled = seeded(lambda: nn.Conv2d(2, 3, 2, bias=False))
    with torch.no_grad():
        scaled.weight.copy_(network[1].weight / network[0].std)
    same = composed(scaled, (2, 3, 3)).layers[0]
    assert (layer.sigma, layer.norm_2_1) == pytest.approx((same.sigma, same.norm_2_1), rel=1e-9)


@pytest.mark.parametrize("pad", [nn.ZeroPad2d((2, 0, 1, 1)), nn.ReflectionPad2d(1), nn.CircularPad2d(2)])
def test_an_activation_before_or_after_padding_is_the_same(pad):
    layer = seeded(lambda: nn.Conv2d(2, 3, 3))
    first, second = (
        composed(nn.Sequential(nn.Conv2d(2, 2, 1).double().requires_grad_(False), *inner, layer), (2, 4, 4))
        for inner in ([pad, nn.ReLU()], [nn.ReLU(), pad])
    )
    assert first.layers[1].sigma == pytest.approx(second.layers[1].sigma, rel=1e-12)
    assert first.layers[1].norm_2_1 == pytest.approx(second.layers[1].norm_2_1, rel=1e-12)


def random_layers(seed):
    """A network of operators drawn at random, on inputs (2, 6, 6)."""
    generator = torch.Generator().manual_seed(seed)

    def pick(options):
        return options[int(torch.randint(len(options), (1,), generator=generator))]

    layers = []
    for _ in range(3):
        layers.append(
            pick(
                [
                    nn.Identity,
                    lambda: nn.ReflectionPad2d(1),
                    lambda: nn.CircularPad2d((1, 0, 2, 1)),
                    lambda: nn.ZeroPad2d(1),
                    lambda: nn.ReplicationPad2d(1),
                    lambda: nn.ConstantPad2d(1, 2.0),
                ]
            )()
        )
        layers.append(
            pick(
                [
                    lambda: nn.LazyConv2d(3, 3, padding=1, stride=pick([1, 2])),
                    lambda: nn.LazyConv2d(3, 2, padding="same", padding_mode=pick(["circular", "reflect"])),
                    lambda: nn.LazyConvTranspose2d(3, 3, 2, 1),
                    lambda: nn.Sequential(nn.LazyConv2d(3, 1), randomised(nn.BatchNorm2d(3))),
                ]
            )()
        )
        layers.append(
            pick(
                [
                    nn.ReLU,
                    nn.Tanh,
                    nn.GELU,
                    nn.Sigmoid,
                    nn.SELU,
                    nn.Mish,
                    lambda: nn.LeakyReLU(-1.5),
                    lambda: nn.PReLU(3),
                ]
            )()
        )
        layers.append(
            pick(
                [
                    nn.Identity,
                    lambda: nn.MaxPool2d(2, 1),
                    lambda: nn.AvgPool2d(3, 2, 1),
                    lambda: Scale((3, 1, 1)),
                    lambda: nn.MaxPool2d(2, 1, dilation=2, padding=1),
                    ByChannel,
                    lambda: nn.AdaptiveAvgPool2d(4),
                    lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"),
                    lambda: Block(nn.Conv2d(3, 3, 1), join="add"),
                    lambda: Block(nn.ReLU(), join="maximum"),
                ]
            )()
        )
    return nn.Sequential(*layers, Function(lambda x: x.amax(3)), nn.Flatten(), nn.LazyLinear(3))


@pytest.mark.parametrize("seed", range(24))
def test_no_difference_beats_the_constant_of_a_random_network(seed):
    torch.manual_seed(seed)
    network = random_layers(seed).double().eval()
    network(torch.zeros(2, 2, 6, 6, dtype=torch.float64))
    assert largest_slope(network, (2, 6, 6), 12) <= constant(network, (2, 6, 6)) * (1 + 1e-9)


@pytest.mark.parametrize("name", sorted(FIXED | POOLS))
def test_no_difference_beats_the_constant_between_layers(name):
    torch.manual_seed(3)
    inner = (FIXED | POOLS)[name]
    network = nn.Sequential(
        nn.Conv2d(2, 2, 3, padding=1), nn.ReLU(), inner, nn.Tanh(), nn.Flatten(), nn.LazyLinear(4)
    )
    network = network.double().eval()
    shape = (2, 8, 10) if name in POOLS else (2, 5, 6)
    network(torch.zeros(2, *shape, dtype=torch.float64))
    assert largest_slope(network, shape, 8) <= constant(network, shape) * (1 + 1e-9)
