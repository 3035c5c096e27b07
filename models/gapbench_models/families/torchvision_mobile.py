"""torchvision's networks of inverted residuals; channels in multiples of 8, rounded by torchvision."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torchvision.models.mobilenetv2 import MobileNetV2
from torchvision.models.mobilenetv3 import InvertedResidual, MobileNetV3, _mobilenet_v3_conf

from gapbench_models.family import family
from gapbench_models.request import BuildRequest
from gapbench_models.resolution import limit_downsampling, stem_convolution
from gapbench_models.rules import minimum_map


class OutOfPlaceInvertedResidual(InvertedResidual):  # type: ignore[misc]
    """torchvision's inverted residual; the sum does not overwrite what a hook has seen."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Maps (n, c, h, w) to maps."""
        output: torch.Tensor = self.block(input)
        return output + input if self.use_res_connect else output


@family(
    "torchvision/mobilenet_v2",
    description="MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al. 2018)",
    width="all channels, in multiples of 8; the last 1280 are not scaled below width 1",
    activations=("relu6",),
    normalisations=("batch_norm",),
    place=170,
)
def mobilenet_v2(request: BuildRequest) -> nn.Module:
    """MobileNetV2; its last 1280 features are not scaled below width 1, as in the paper."""
    net: Any = MobileNetV2(request.num_classes, width_mult=request.width, dropout=request.dropout)
    net.features[0][0] = stem_convolution(request.channels, net.features[0].out_channels)
    limit_downsampling(net, request.input_shape, minimum_map(3))
    assert isinstance(net, nn.Module)
    return net


@family(
    "torchvision/mobilenet_v3_small",
    description="MobileNetV3-Small: inverted residuals with squeeze and excitation (Howard et al. 2019)",
    width="all channels, in multiples of 8",
    activations=("relu", "hardswish", "hardsigmoid"),
    normalisations=("batch_norm",),
    place=180,
)
def mobilenet_v3_small(request: BuildRequest) -> nn.Module:
    """MobileNetV3-Small: inverted residuals with squeeze and excitation and up to 5 x 5 kernels."""
    blocks, last_channels = _mobilenet_v3_conf("mobilenet_v3_small", width_mult=request.width)
    net: Any = MobileNetV3(
        blocks, last_channels, request.num_classes, block=OutOfPlaceInvertedResidual, dropout=request.dropout
    )
    net.features[0][0] = stem_convolution(request.channels, net.features[0].out_channels)
    limit_downsampling(net, request.input_shape, minimum_map(5))
    assert isinstance(net, nn.Module)
    return net
