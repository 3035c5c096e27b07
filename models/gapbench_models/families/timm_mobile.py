"""timm's networks of inverted residuals; channels in multiples of 8, rounded by timm."""

from __future__ import annotations

from typing import Any

from timm.models.efficientnet import _gen_efficientnet, _gen_mobilenet_v2
from torch import nn

from gapbench_models.family import family
from gapbench_models.request import BuildRequest
from gapbench_models.resolution import limit_downsampling
from gapbench_models.rules import minimum_map


@family(
    "timm/mobilenetv2",
    description="MobileNetV2: inverted residuals with linear bottlenecks (Sandler et al. 2018)",
    width="all channels, in multiples of 8; the last 1280 are not scaled below width 1",
    activations=("relu6",),
    normalisations=("batch_norm",),
    place=70,
)
def mobilenetv2(request: BuildRequest) -> nn.Module:
    """MobileNetV2; its last 1280 features are not scaled below width 1, as in the paper."""
    net: Any = _gen_mobilenet_v2("mobilenetv2_100", request.width, **_arguments(request))  # type: ignore[no-untyped-call]
    net.conv_stem.stride = (1, 1)
    limit_downsampling(net, request.input_shape, minimum_map(3))
    assert isinstance(net, nn.Module)
    return net


@family(
    "timm/efficientnet_b0",
    description="EfficientNet-B0: inverted residuals with squeeze and excitation (Tan and Le 2019)",
    width="all channels, in multiples of 8",
    activations=("silu", "sigmoid"),
    normalisations=("batch_norm",),
    place=80,
)
def efficientnet_b0(request: BuildRequest) -> nn.Module:
    """EfficientNet-B0: inverted residuals with squeeze and excitation and up to 5 x 5 kernels."""
    net: Any = _gen_efficientnet("efficientnet_b0", request.width, **_arguments(request))  # type: ignore[no-untyped-call]
    net.conv_stem.stride = (1, 1)
    limit_downsampling(net, request.input_shape, minimum_map(5))
    assert isinstance(net, nn.Module)
    return net


def _arguments(request: BuildRequest) -> dict[str, Any]:
    return {"in_chans": request.channels, "num_classes": request.num_classes, "drop_rate": request.dropout}
