"""timm's patch-based networks: vision transformer, mixers and ConvNeXt.

Classifiers that the library starts at zero are drawn as torch draws linear layers, U(-1/sqrt(n), 1/sqrt(n))
for n features: behind a zero classifier the rest of the network has no gradient and no curvature at
initialisation. Class tokens are drawn like position embeddings, N(0, 0.02^2).
"""

from __future__ import annotations

from typing import Any

from timm.models.convmixer import ConvMixer
from timm.models.convnext import ConvNeXt
from timm.models.mlp_mixer import MlpMixer
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from gapbench_models.family import family
from gapbench_models.request import BuildRequest
from gapbench_models.resolution import limit_downsampling
from gapbench_models.rules import INITIAL_LAYER_SCALE, minimum_map, patch_size, scaled


@family(
    "timm/vit_tiny",
    description="ViT-Tiny with class token and patches of up to 4 x 4 pixels (Dosovitskiy et al. 2021)",
    width="3 heads of 64 features each; MLP 4 times as wide",
    activations=("gelu", "softmax"),
    normalisations=("layer_norm",),
    depth="transformer blocks",
    default_depth=12,
    dropout="after embedding, projections and MLPs, and before the classifier",
    place=110,
)
def vit_tiny(request: BuildRequest) -> nn.Module:
    """ViT-Ti with 3 heads of 64 features each; `depth` blocks on patches of up to 4 x 4 pixels."""
    dim = 3 * scaled(64, request.width, minimum=2)
    net: Any = VisionTransformer(
        img_size=request.size,
        patch_size=patch_size(request.size, preferred=4),
        embed_dim=dim,
        depth=request.depth or 12,
        num_heads=3,
        in_chans=request.channels,
        num_classes=request.num_classes,
        drop_rate=request.dropout,
        pos_drop_rate=request.dropout,
        proj_drop_rate=request.dropout,
    )
    nn.init.normal_(net.cls_token, std=0.02)
    assert isinstance(net, nn.Module)
    return net


@family(
    "timm/mixer",
    description="MLP-Mixer-S with patches of up to 4 x 4 pixels (Tolstikhin et al. 2021)",
    width="512 hidden features; token MLP 1/2, channel MLP 4 times as wide",
    activations=("gelu",),
    normalisations=("layer_norm",),
    depth="mixer blocks",
    default_depth=8,
    dropout="in the MLPs and before the classifier",
    place=120,
)
def mixer(request: BuildRequest) -> nn.Module:
    """MLP-Mixer: `depth` blocks on patches of up to 4 x 4 pixels."""
    arguments: dict[str, Any] = {"img_size": request.size}
    net: Any = MlpMixer(
        **arguments,
        patch_size=patch_size(request.size, preferred=4),
        in_chans=request.channels,
        num_classes=request.num_classes,
        num_blocks=request.depth or 8,
        embed_dim=scaled(512, request.width, minimum=4),
        drop_rate=request.dropout,
        proj_drop_rate=request.dropout,
    )
    net.head.reset_parameters()
    assert isinstance(net, nn.Module)
    return net


@family(
    "timm/convmixer",
    description="ConvMixer-256/8 with 5 x 5 kernels and patches of up to 2 x 2 pixels (Trockman and Kolter 2022)",
    width="256 channels",
    activations=("gelu",),
    normalisations=("batch_norm",),
    depth="mixer blocks",
    default_depth=8,
    place=140,
)
def convmixer(request: BuildRequest) -> nn.Module:
    """ConvMixer: `depth` blocks with 5 x 5 kernels on patches of up to 2 x 2 pixels."""
    return ConvMixer(
        dim=scaled(256, request.width),
        depth=request.depth or 8,
        kernel_size=5,
        patch_size=patch_size(request.size, preferred=2),
        in_chans=request.channels,
        num_classes=request.num_classes,
        drop_rate=request.dropout,
    )


@family(
    "timm/convnext_atto",
    description="ConvNeXt-Atto with patches of up to 2 x 2 pixels and layer scale from 0.1 (Liu et al. 2022)",
    width="stages of 40, 80, 160, 320 channels",
    activations=("gelu",),
    normalisations=("layer_norm",),
    depth="blocks in the first, second and fourth stage; three times as many in the third",
    default_depth=2,
    place=100,
)
def convnext_atto(request: BuildRequest) -> nn.Module:
    """ConvNeXt with `depth` blocks in three stages and three times as many in the third; 7 x 7 kernels."""
    # With patches of 2 x 2 pixels timm lets the first stage halve the map once more.
    channels, depth = scaled(40, request.width, minimum=4), request.depth or 2
    net = ConvNeXt(
        in_chans=request.channels,
        num_classes=request.num_classes,
        depths=(depth, depth, 3 * depth, depth),
        dims=(channels, 2 * channels, 4 * channels, 8 * channels),
        patch_size=patch_size(request.size, preferred=2),
        conv_mlp=True,
        ls_init_value=INITIAL_LAYER_SCALE,
        drop_rate=request.dropout,
    )
    limit_downsampling(net, request.input_shape, minimum_map(7))
    return net
