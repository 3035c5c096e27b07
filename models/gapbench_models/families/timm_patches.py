"""timm's patch-based networks: vision transformer and mixers.

Classifiers that the library starts at zero are drawn as torch draws linear layers, U(-1/sqrt(n), 1/sqrt(n)) for n
features: behind a zero classifier the rest of the network has no gradient and no curvature at initialisation.
"""

from __future__ import annotations

from timm.models.convmixer import ConvMixer
from timm.models.mlp_mixer import MlpMixer
from torch import nn

from gapbench_models.request import BuildRequest
from gapbench_models.rules import patch_size, scaled


def mixer(request: BuildRequest) -> nn.Module:
    """MLP-Mixer: `depth` blocks on patches of up to 4 x 4 pixels."""
    net = MlpMixer(
        img_size=request.size,
        patch_size=patch_size(request.size, preferred=4),
        in_chans=request.channels,
        num_classes=request.num_classes,
        num_blocks=request.depth or 8,
        embed_dim=scaled(512, request.width, minimum=4),
        drop_rate=request.dropout,
        proj_drop_rate=request.dropout,
    )
    net.head.reset_parameters()
    return net


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
