"""timm's networks of inverted residuals; channels in multiples of 8, rounded by timm."""

from __future__ import annotations

from typing import Any

from timm.models.efficientnet import _gen_efficientnet, _gen_mobilenet_v2
from torch import nn

from gapbench_models.request import BuildRequest
from gapbench_models.resolution import limit_downsampling
from gapbench_models.rules import minimum_map


def mobilenetv2(request: BuildRequest) -> nn.Module:
    """MobileNetV2; its last 1280 features are not scaled below width 1, as in the paper."""
    net: Any = _gen_mobilenet_v2("mobilenetv2_100", request.width, **_arguments(request))
    net.conv_stem.stride = (1, 1)
    limit_downsampling(net, request.input_shape, minimum_map(3))
    return net


def efficientnet_b0(request: BuildRequest) -> nn.Module:
    """EfficientNet-B0: inverted residuals with squeeze and excitation and up to 5 x 5 kernels."""
    net: Any = _gen_efficientnet("efficientnet_b0", request.width, **_arguments(request))
    net.conv_stem.stride = (1, 1)
    limit_downsampling(net, request.input_shape, minimum_map(5))
    return net


def _arguments(request: BuildRequest) -> dict[str, Any]:
    return {"in_chans": request.channels, "num_classes": request.num_classes, "drop_rate": request.dropout}
