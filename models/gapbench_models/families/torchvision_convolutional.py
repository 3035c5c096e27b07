"""torchvision's ResNet, VGG and DenseNet."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.densenet import DenseNet
from torchvision.models.resnet import BasicBlock, ResNet
from torchvision.models.vgg import VGG

from gapbench_models.family import family
from gapbench_models.request import BuildRequest
from gapbench_models.resolution import limit_downsampling, stem_convolution
from gapbench_models.rules import FEWEST_STRIDED_CHANNELS, minimum_map, scaled


class OutOfPlaceTorchvisionBlock(BasicBlock):  # type: ignore[misc]
    """torchvision's basic block; the sum does not overwrite what a hook has seen."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps (n, c, h, w) to maps."""
        residual = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        shortcut = x if self.downsample is None else self.downsample(x)
        output: torch.Tensor = self.relu(residual + shortcut)
        return output


class ScaledResNet(ResNet):  # type: ignore[misc]
    """torchvision's ResNet of basic blocks with any number of channels and a 3 x 3 stem."""

    def __init__(
        self, channels: int, in_channels: int, blocks: int, num_classes: int, dropout: float
    ) -> None:
        with torch.device("meta"):  # the base class fixes 64 channels; all its layers are replaced here
            super().__init__(OutOfPlaceTorchvisionBlock, [1, 1, 1, 1], num_classes)
        self.inplanes = channels
        self.conv1 = stem_convolution(in_channels, channels)
        self.bn1 = nn.BatchNorm2d(channels)
        self.maxpool = nn.Identity()
        for index in range(4):
            stage = self._make_layer(
                OutOfPlaceTorchvisionBlock, channels * 2**index, blocks, stride=1 if index == 0 else 2
            )
            setattr(self, f"layer{index + 1}", stage)
        self.fc = nn.Linear(8 * channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        mean = nn.AdaptiveAvgPool2d(1)
        self.avgpool: nn.Module = nn.Sequential(mean, nn.Dropout(dropout)) if dropout else mean


@family(
    "torchvision/resnet18",
    description="ResNet-18 with a stem of one 3 x 3 convolution (He et al. 2016)",
    width="stages of 64, 128, 256, 512 channels, the first at least 8; stem of 64",
    activations=("relu",),
    normalisations=("batch_norm",),
    depth="basic blocks in each of the four stages",
    default_depth=2,
    place=150,
)
def resnet18(request: BuildRequest) -> nn.Module:
    """Stem of one 3 x 3 convolution without pooling; four stages of `depth` basic blocks."""
    channels = scaled(64, request.width, minimum=FEWEST_STRIDED_CHANNELS)
    net = ScaledResNet(channels, request.channels, request.depth or 2, request.num_classes, request.dropout)
    limit_downsampling(net, request.input_shape, minimum_map(3))
    return net


_VGG11 = (
    (64, True),
    (128, True),
    (256, False),
    (256, True),
    (512, False),
    (512, True),
    (512, False),
    (512, True),
)  # channels of each convolution, and whether a pooling layer follows


@family(
    "torchvision/vgg11_bn",
    description="VGG-11 with batch normalisation, mean pooling and one linear layer (Simonyan and Zisserman 2015)",
    width="64, 128, 256, 256, 512, 512, 512, 512 channels",
    activations=("relu",),
    normalisations=("batch_norm",),
    place=160,
)
def vgg11_bn(request: BuildRequest) -> nn.Module:
    """VGG-11 with batch normalisation; mean pooling and one linear layer replace the three wide layers."""
    layers: list[nn.Module] = []
    channels = request.channels
    for base, pool in _VGG11:
        out_channels = scaled(base, request.width)
        layers += [nn.Conv2d(channels, out_channels, 3, padding=1), nn.BatchNorm2d(out_channels), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if pool else []
        channels = out_channels
    with torch.device(
        "meta"
    ):  # the base class makes a classifier of 120 million weights, which is replaced here
        net: Any = VGG(nn.Sequential(), num_classes=request.num_classes, init_weights=False)
    net.features = nn.Sequential(*layers)
    net.avgpool = nn.AdaptiveAvgPool2d(1)
    net.classifier = nn.Sequential(nn.Dropout(request.dropout), nn.Linear(channels, request.num_classes))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            assert module.bias is not None
            nn.init.zeros_(module.bias)
    limit_downsampling(net, request.input_shape, minimum_map(3))
    assert isinstance(net, nn.Module)
    return net


class OutOfPlaceDenseNet(DenseNet):  # type: ignore[misc]
    """torchvision's DenseNet whose last ReLU does not overwrite what a hook has seen."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images (n, c, h, w) to logits (n, classes)."""
        features = F.relu(self.features(x))
        logits: torch.Tensor = self.classifier(F.adaptive_avg_pool2d(features, 1).flatten(1))
        return logits


@family(
    "torchvision/densenet121",
    description="DenseNet-BC-121 with a 3 x 3 stem (Huang et al. 2017)",
    width="growth rate 32, stem of 64; at least 4 and 8",
    activations=("relu",),
    normalisations=("batch_norm",),
    depth="dense layers in each of the four blocks (6, 12, 24, 16 by default)",
    dropout="after every dense layer",
    place=190,
)
def densenet121(request: BuildRequest) -> nn.Module:
    """DenseNet-BC of growth rate 32, at least 4, with a 3 x 3 stem; four dense blocks of `depth` layers."""
    growth = scaled(32, request.width, minimum=4)
    layers = request.depth
    net: Any = OutOfPlaceDenseNet(
        growth_rate=growth,
        block_config=(layers, layers, layers, layers) if layers else (6, 12, 24, 16),
        num_init_features=2 * growth,
        drop_rate=request.dropout,
        num_classes=request.num_classes,
    )
    net.features.conv0 = stem_convolution(request.channels, 2 * growth)
    net.features.pool0 = nn.Identity()
    limit_downsampling(net, request.input_shape, minimum_map(3))
    assert isinstance(net, nn.Module)
    return net
