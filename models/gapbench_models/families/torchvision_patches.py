"""torchvision's patch-based networks: vision transformer and ConvNeXt.

The vision transformer's classifier, zero in the library, is drawn as torch draws linear layers; its class
token, zero too, like the position embeddings, N(0, 0.02^2).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torchvision.models.convnext import CNBlock, CNBlockConfig, ConvNeXt
from torchvision.models.vision_transformer import VisionTransformer

from gapbench_models.family import family
from gapbench_models.request import BuildRequest
from gapbench_models.resolution import limit_downsampling
from gapbench_models.rules import INITIAL_LAYER_SCALE, minimum_map, patch_size, scaled


class RectangularVisionTransformer(VisionTransformer):  # type: ignore[misc]
    """torchvision's vision transformer for images that need not be square."""

    def _process_input(self, x: torch.Tensor) -> torch.Tensor:
        patches: torch.Tensor = self.conv_proj(x)
        return patches.flatten(2).transpose(1, 2)


class OutOfPlaceCNBlock(CNBlock):  # type: ignore[misc]
    """torchvision's ConvNeXt block; the sum does not overwrite what a hook has seen."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Maps (n, c, h, w) to maps."""
        branch: torch.Tensor = self.stochastic_depth(self.layer_scale * self.block(input))
        return branch + input


@family(
    "torchvision/vit",
    description="vision transformer with class token and patches of up to 4 x 4 pixels (Dosovitskiy et al. 2021)",
    width="3 heads of 64 features each; MLP 4 times as wide",
    activations=("gelu", "softmax"),
    normalisations=("layer_norm",),
    depth="encoder layers",
    default_depth=6,
    dropout="after embedding, attention and MLPs",
    place=200,
)
def vit(request: BuildRequest) -> nn.Module:
    """Vision transformer with 3 heads of 64 features; `depth` layers on patches of up to 4 x 4 pixels."""
    side = patch_size(request.size, preferred=4)
    dim = 3 * scaled(64, request.width, minimum=2)
    net: Any = RectangularVisionTransformer(
        image_size=side,
        patch_size=side,
        num_layers=request.depth or 6,
        num_heads=3,
        hidden_dim=dim,
        mlp_dim=4 * dim,
        dropout=request.dropout,
        num_classes=request.num_classes,
    )
    net.conv_proj = nn.Conv2d(request.channels, dim, side, stride=side)
    nn.init.trunc_normal_(net.conv_proj.weight, std=1 / math.sqrt(request.channels * side * side))
    nn.init.zeros_(net.conv_proj.bias)
    height, width = request.size
    net.image_size = height
    net.seq_length = 1 + (height // side) * (width // side)
    net.encoder.pos_embedding = nn.Parameter(torch.empty(1, net.seq_length, dim).normal_(std=0.02))
    nn.init.normal_(net.class_token, std=0.02)
    net.heads.head.reset_parameters()
    assert isinstance(net, nn.Module)
    return net


@family(
    "torchvision/convnext_tiny",
    description="ConvNeXt-Tiny with patches of up to 2 x 2 pixels and layer scale from 0.1 (Liu et al. 2022)",
    width="stages of 96, 192, 384, 768 channels",
    activations=("gelu",),
    normalisations=("layer_norm",),
    depth="blocks in the first, second and fourth stage; three times as many in the third",
    default_depth=3,
    place=210,
)
def convnext_tiny(request: BuildRequest) -> nn.Module:
    """ConvNeXt with `depth` blocks in three stages and three times as many in the third; 7 x 7 kernels."""
    channels, depth = scaled(96, request.width, minimum=4), request.depth or 3
    stages = [
        CNBlockConfig(channels, 2 * channels, depth),
        CNBlockConfig(2 * channels, 4 * channels, depth),
        CNBlockConfig(4 * channels, 8 * channels, 3 * depth),
        CNBlockConfig(8 * channels, None, depth),
    ]
    net: Any = ConvNeXt(
        stages, layer_scale=INITIAL_LAYER_SCALE, num_classes=request.num_classes, block=OutOfPlaceCNBlock
    )
    side = patch_size(request.size, preferred=2)
    net.features[0][0] = nn.Conv2d(request.channels, channels, side, stride=side)
    nn.init.trunc_normal_(net.features[0][0].weight, std=0.02)
    nn.init.zeros_(net.features[0][0].bias)
    if request.dropout:
        net.classifier[1] = nn.Sequential(net.classifier[1], nn.Dropout(request.dropout))
    limit_downsampling(net, request.input_shape, minimum_map(7))
    assert isinstance(net, nn.Module)
    return net
