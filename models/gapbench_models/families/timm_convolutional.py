"""timm's residual networks and DenseNet.

The last normalisation of a residual block starts at one: timm's default of zero would make the inner layers of the
block invisible at initialisation.
"""

from __future__ import annotations

import torch
from timm.models.resnet import BasicBlock, ResNet
from torch import nn

from gapbench_models.request import BuildRequest
from gapbench_models.resolution import limit_downsampling
from gapbench_models.rules import minimum_map, scaled


class OutOfPlaceBasicBlock(BasicBlock):
    """timm's basic block without dropping and attention; the sum does not overwrite what a hook has seen."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        residual = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        shortcut = x if self.downsample is None else self.downsample(x)
        return self.act2(residual + shortcut)


def resnet18(request: BuildRequest) -> nn.Module:
    """Stem of three 3 x 3 convolutions at stride 1 without pooling; four stages of `depth` basic blocks."""
    stem = scaled(32, request.width)
    net = ResNet(
        block=OutOfPlaceBasicBlock,
        layers=[request.depth or 2] * 4,
        channels=tuple(2 * stem * factor for factor in (1, 2, 4, 8)),
        stem_type="deep",
        stem_width=stem,
        in_chans=request.channels,
        num_classes=request.num_classes,
        drop_rate=request.dropout,
        zero_init_last=False,
    )
    net.conv1[0].stride = (1, 1)
    net.maxpool = nn.Identity()
    limit_downsampling(net, request.input_shape, minimum_map(3))
    return net
