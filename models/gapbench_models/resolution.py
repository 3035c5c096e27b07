"""Fit a network that was designed for large images to small ones: stems and down-sampling.

The rule is in `gapbench_models.rules`.
"""

from __future__ import annotations

from contextvars import ContextVar

import torch
from torch import nn

POOLS = (nn.AvgPool2d, nn.MaxPool2d)
MAPS_MATTER: ContextVar[bool] = ContextVar("maps_matter", default=False)
"""Whether a network without values is built for the sizes of its maps, and not for its parameters alone."""


def stem_convolution(channels: int, out_channels: int, kernel: int = 3) -> nn.Conv2d:
    """A convolution of stride 1 that keeps the image size, without bias; He et al. (2015), fan-out."""
    convolution = nn.Conv2d(channels, out_channels, kernel, stride=1, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return convolution


def limit_downsampling(net: nn.Module, input_shape: tuple[int, int, int], minimum_map: int) -> None:
    """Take back, in place, every down-sampling that would make a side of the map smaller than `minimum_map`.

    A convolution with padding gets stride 1. A convolution whose kernel equals its stride (a patch merging)
    becomes a 1 x 1 convolution with the weights of its first tap. A pooling layer becomes the identity. The
    sizes are those seen in one forward pass of a zero image in eval mode; a block's convolution and its
    shortcut see the same map, so they are changed together.
    """
    sizes_matter = MAPS_MATTER.get() or any(_is_patch_merging(module) for module in net.modules())
    if next(net.parameters()).is_meta and not sizes_matter:
        return  # only the number of parameters is wanted, and strides and pools have none
    dropped: set[nn.Module] = set()

    def before(module: nn.Module, arguments: tuple[torch.Tensor, ...]) -> None:
        if min(_size_after(module, tuple(arguments[0].shape[-2:]))) >= minimum_map:
            return
        if isinstance(module, POOLS):
            module.kernel_size, module.stride, module.padding = 1, 1, 0
            dropped.add(module)
        elif _is_patch_merging(module):
            assert isinstance(module, nn.Conv2d)
            module.weight = nn.Parameter(module.weight.detach()[:, :, :1, :1].clone())
            module.kernel_size = module.stride = (1, 1)
        elif isinstance(module, nn.Conv2d):
            module.stride = (1, 1)

    handles = [
        module.register_forward_pre_hook(before) for module in net.modules() if _is_downsampling(module)
    ]
    was_training = net.training
    try:
        with torch.no_grad():
            net.eval()(torch.zeros(2, *input_shape))
    finally:
        net.train(was_training)
        for handle in handles:
            handle.remove()
    for parent in list(net.modules()):
        for child_name, child in parent.named_children():
            if child in dropped:
                setattr(parent, child_name, nn.Identity())


def _is_downsampling(module: nn.Module) -> bool:
    if isinstance(module, POOLS):
        return max(_pair(module.stride)) > 1
    return isinstance(module, nn.Conv2d) and max(module.stride) > 1


def _is_patch_merging(module: nn.Module) -> bool:
    return isinstance(module, nn.Conv2d) and max(module.stride) > 1 and module.kernel_size == module.stride


def _size_after(module: nn.Module, size: tuple[int, ...]) -> list[int]:
    assert isinstance(module, (nn.Conv2d, *POOLS))
    kernels, strides, paddings = _pair(module.kernel_size), _pair(module.stride), _pair(module.padding)
    return [
        (side + 2 * padding - kernel) // stride + 1
        for side, kernel, stride, padding in zip(size, kernels, strides, paddings)
    ]


def _pair(value: object) -> tuple[int, int]:
    if isinstance(value, tuple):
        return int(value[0]), int(value[1])
    assert isinstance(value, int)
    return value, value
