"""timm's residual networks, DenseNet and RegNet.

The last normalisation of a residual block starts at one: timm's default of zero would make the inner layers
of the block invisible at initialisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from timm.layers.create_conv2d import create_conv2d
from timm.layers.norm_act import BatchNormAct2d
from timm.models.densenet import DenseNet
from timm.models.regnet import RegNet, RegNetCfg
from timm.models.resnet import BasicBlock, ResNet
from timm.models.resnetv2 import ResNetV2
from torch import nn

from gapbench_models.family import family
from gapbench_models.request import BuildRequest
from gapbench_models.resolution import limit_downsampling, stem_convolution
from gapbench_models.rules import FEWEST_STRIDED_CHANNELS, minimum_map, scaled


class OutOfPlaceTimmBlock(BasicBlock):
    """timm's basic block without dropping and attention; the sum does not overwrite what a hook has seen."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps (n, c, h, w) to maps."""
        residual = self.bn2(self.conv2(self.act1(self.bn1(self.conv1(x)))))
        shortcut = x if self.downsample is None else self.downsample(x)
        output: torch.Tensor = self.act2(residual + shortcut)
        return output


@family(
    "timm/resnet18",
    description="ResNet-18 with a stem of three 3 x 3 convolutions (He et al. 2016; stem of He et al. 2019)",
    width="stages of 64, 128, 256, 512 channels, the first at least 8; stem of 32, 32, 64",
    activations=("relu",),
    normalisations=("batch_norm",),
    depth="basic blocks in each of the four stages",
    default_depth=2,
    place=50,
)
def resnet18(request: BuildRequest) -> nn.Module:
    """Stem of three 3 x 3 convolutions at stride 1 without pooling; four stages of `depth` basic blocks."""
    stem = scaled(32, request.width, minimum=FEWEST_STRIDED_CHANNELS // 2)
    arguments: dict[str, Any] = {"block": OutOfPlaceTimmBlock, "layers": (request.depth or 2,) * 4}
    net: Any = ResNet(
        **arguments,
        channels=(2 * stem, 4 * stem, 8 * stem, 16 * stem),
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
    assert isinstance(net, nn.Module)
    return net


@family(
    "timm/resnetv2_18",
    description="pre-activation ResNet-18 with a 3 x 3 stem (He et al. 2016b)",
    width="stages of 64, 128, 256, 512 channels, in multiples of 8",
    activations=("relu",),
    normalisations=("batch_norm",),
    depth="basic blocks in each of the four stages",
    default_depth=2,
    place=60,
)
def resnetv2_18(request: BuildRequest) -> nn.Module:
    """Pre-activation ResNet with a 3 x 3 stem; stages of `depth` basic blocks; channels in multiples of 8."""
    channels = scaled(64, request.width, divisor=8)
    net: Any = ResNetV2(
        layers=[request.depth or 2] * 4,
        channels=(channels, 2 * channels, 4 * channels, 8 * channels),
        stem_chs=channels,
        basic=True,
        bottle_ratio=1.0,
        conv_layer=create_conv2d,
        norm_layer=BatchNormAct2d,
        in_chans=request.channels,
        num_classes=request.num_classes,
        drop_rate=request.dropout,
        zero_init_last=False,
    )
    net.stem.conv = stem_convolution(request.channels, channels)
    net.stem.pool = nn.Identity()
    limit_downsampling(net, request.input_shape, minimum_map(3))
    assert isinstance(net, nn.Module)
    return net


@family(
    "timm/densenet121",
    description="DenseNet-BC-121 with a 3 x 3 stem (Huang et al. 2017)",
    width="growth rate 32, stem of 64; at least 4 and 8",
    activations=("relu",),
    normalisations=("batch_norm",),
    depth="dense layers in each of the four blocks (6, 12, 24, 16 by default)",
    dropout="after every dense layer",
    place=90,
)
def densenet121(request: BuildRequest) -> nn.Module:
    """DenseNet-BC of growth rate 32, at least 4, with a 3 x 3 stem; four dense blocks of `depth` layers."""
    growth = scaled(32, request.width, minimum=4)
    net: Any = DenseNet(
        growth_rate=growth,
        block_config=(request.depth,) * 4 if request.depth else (6, 12, 24, 16),
        in_chans=request.channels,
        num_classes=request.num_classes,
        proj_drop_rate=request.dropout,
    )
    net.features.conv0 = stem_convolution(request.channels, 2 * growth)
    net.features.pool0 = nn.Identity()
    limit_downsampling(net, request.input_shape, minimum_map(3))
    assert isinstance(net, nn.Module)
    return net


@dataclass
class ScaledRegNetCfg(RegNetCfg):
    """A RegNet design at width 1 and the factor on the channels of its stages."""

    width: float = 1.0


class ScaledRegNet(RegNet):
    """timm's RegNet whose stages keep their number and depth while their channels follow the width.

    Scaling the design's own parameters instead would merge stages at small widths.
    """

    def _get_stage_args(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.device("cpu"):  # older versions of timm compute the channels with tensors, also on "meta"
            stages, common = super()._get_stage_args(cfg, *args, **kwargs)
        for stage in stages:
            stage["out_chs"] = scaled(stage["out_chs"], cfg.width, divisor=cfg.group_size)
        return stages, common


@family(
    "timm/regnetx_002",
    description="RegNetX-200MF: grouped convolutions, groups of 8 channels (Radosavovic et al. 2020)",
    width="stages of 24, 56, 152, 368 channels, in multiples of 8; stem of 32, at least 8",
    activations=("relu",),
    normalisations=("batch_norm",),
    place=130,
)
def regnetx_002(request: BuildRequest) -> nn.Module:
    """RegNetX of 200 MF: 1, 1, 4, 7 blocks of grouped convolutions, groups of 8 channels at every width."""
    width = request.width
    stem = scaled(32, width, minimum=FEWEST_STRIDED_CHANNELS)
    design = ScaledRegNetCfg(w0=24, wa=36.44, wm=2.49, group_size=8, depth=13, stem_width=stem, width=width)
    net: Any = ScaledRegNet(
        design,
        in_chans=request.channels,
        num_classes=request.num_classes,
        drop_rate=request.dropout,
        zero_init_last=False,
    )
    net.stem.conv.stride = (1, 1)
    limit_downsampling(net, request.input_shape, minimum_map(3))
    assert isinstance(net, nn.Module)
    return net
