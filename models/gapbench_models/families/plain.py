"""Small networks written out: no library, no normalisation.

Weights are N(0, gain^2 / fan_in) with gain^2 = 2 before a ReLU (He et al. 2015), and before any nonlinearity in its
place, so that networks that differ in it start from equal weights; gain^2 = 1 otherwise. Biases start at zero.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from torch import nn

from gapbench_models.family import family
from gapbench_models.request import BuildRequest
from gapbench_models.rules import minimum_map, scaled

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "silu": nn.SiLU}


@family(
    "plain/linear",
    description="linear classifier through the origin, without bias: the model of the separable task",
    width="ignored",
    dropout=None,
    smallest_size=1,
    place=10,
)
def linear(request: BuildRequest) -> nn.Module:
    """logits = W x without bias, W of shape (num_classes, c h w): a classifier through the origin."""
    output = _linear(math.prod(request.input_shape), request.num_classes, bias=False)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), output=output))


@family(
    "plain/deep_linear",
    description="linear layers without bias or nonlinearity in between",
    width="64 hidden units",
    depth="hidden layers",
    default_depth=2,
    dropout=None,
    smallest_size=1,
    place=20,
)
def deep_linear(request: BuildRequest) -> nn.Module:
    """logits = W_L ... W_1 x without biases; `depth` hidden layers of 64 width units each."""
    return _dense(request, activation=None, bias=False)


@family(
    "plain/mlp",
    description="fully connected ReLU network with biases, no normalisation",
    width="64 hidden units",
    activations=("relu",),
    activation_choices=("relu", "gelu", "tanh", "silu"),
    depth="hidden layers",
    default_depth=2,
    dropout="after every hidden layer",
    smallest_size=1,
    place=30,
)
def mlp(request: BuildRequest) -> nn.Module:
    """Fully connected network with biases, ReLU by default; `depth` hidden layers of 64 width units each."""
    return _dense(request, activation=request.activation, bias=True)


@family(
    "plain/cnn",
    description="3 x 3 convolutions with ReLU and max pooling, mean pooling at the end, no normalisation",
    width="16, 32, 64, 64, ... channels",
    activations=("relu",),
    activation_choices=("relu", "gelu", "tanh", "silu"),
    depth="convolutional layers",
    default_depth=3,
    smallest_size=2,
    place=40,
)
def cnn(request: BuildRequest) -> nn.Module:
    """`depth` times 3 x 3 convolution, ReLU (or another), pooling while 2 x 2 pixels remain; mean; linear layer."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels, size = request.channels, request.size
    for index in range(request.depth or 3):
        out_channels = scaled(16 * 2 ** min(index, 2), request.width)
        convolution = nn.Conv2d(channels, out_channels, 3, padding=1)
        _initialise(convolution, gain=math.sqrt(2))
        layers[f"convolution{index + 1}"] = convolution
        layers[f"{request.activation}{index + 1}"] = ACTIVATIONS[request.activation]()
        channels = out_channels
        if min(size) // 2 >= minimum_map(3):
            layers[f"pool{index + 1}"] = nn.MaxPool2d(2)
            size = (size[0] // 2, size[1] // 2)
    layers["mean"], layers["flatten"] = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    if request.dropout:
        layers["dropout"] = nn.Dropout(request.dropout)
    layers["output"] = _linear(channels, request.num_classes, bias=True)
    return nn.Sequential(layers)


def _dense(request: BuildRequest, activation: str | None, bias: bool) -> nn.Module:
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    features, hidden = math.prod(request.input_shape), scaled(64, request.width)
    for index in range(1, (request.depth or 2) + 1):
        layers[f"hidden{index}"] = _linear(features, hidden, bias, gain=math.sqrt(2) if activation else 1.0)
        if activation:
            layers[f"{activation}{index}"] = ACTIVATIONS[activation]()
        if request.dropout:
            layers[f"dropout{index}"] = nn.Dropout(request.dropout)
        features = hidden
    layers["output"] = _linear(features, request.num_classes, bias)
    return nn.Sequential(layers)


def _linear(features: int, out_features: int, bias: bool, gain: float = 1.0) -> nn.Linear:
    layer = nn.Linear(features, out_features, bias=bias)
    _initialise(layer, gain)
    return layer


def _initialise(layer: nn.Linear | nn.Conv2d, gain: float) -> None:
    fan_in = layer.weight[0].numel()
    nn.init.normal_(layer.weight, std=gain / math.sqrt(fan_in))
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
