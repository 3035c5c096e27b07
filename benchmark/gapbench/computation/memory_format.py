"""In which order the numbers of images lie in memory while a network is trained or differentiated.

Channels last suits the kernels of convolutions; how much it saves depends on the network, and below a certain size
of its maps it costs. The choice follows from the network and the number of examples alone, not from a clock, so
that a network comes out the same whenever and wherever on one kind of machine it is trained.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gapbench_models.rules import FEWEST_STRIDED_CHANNELS

OWN = ("gapbench_models", "timm", "torchvision", "torch")
"""Packages whose layers take images in any order; those of others may ask for views that there are none of."""
OUR_WRAPPERS = ("gapbench.computation.normalised_logits",)
"""Modules of this package whose networks hand images on as they are."""
LEAST_OUTPUTS = 0.5
"""Outputs of convolutions in a mini-batch, for each of their weights, from which on it is faster on CPUs."""
LEAST_CONVOLUTIONS = 2
"""Networks with fewer are transformers or mixers, which leave the order of images with their first layer."""


def channels_last_pays(network: nn.Module, inputs: Tensor, batch_size: int) -> bool:
    """Whether a network is trained and differentiated with channels last.

    On GPUs always. On CPUs where it is made of layers of `OWN`, its maps are large enough, and no strided 1 x 1
    convolution reads fewer than `FEWEST_STRIDED_CHANNELS` channels, of which kernels of oneDNN wrote past their
    buffers.

    Args:
        network: on the device where it is.
        inputs: (n, c, h, w) that it takes, one of which is evaluated.
        batch_size: examples that are evaluated together.

    Returns:
        Whether it is.
    """
    if inputs.device.type != "cpu":
        return True
    if inputs.dim() != 4:
        return False
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    if len(convolutions) < LEAST_CONVOLUTIONS or not all(map(_is_own, network.modules())):
        return False
    if any(map(_narrow, convolutions)):
        return False
    weights = sum(m.weight.numel() for m in convolutions)
    return batch_size * _outputs(network, convolutions, inputs[:1]) >= LEAST_OUTPUTS * weights


def channels_last(images: Tensor) -> Tensor:
    """The images (n, c, h, w) with channels last, also where one channel lies alike in both orders."""
    found = images.contiguous(memory_format=torch.channels_last)
    _, channels, height, width = images.shape
    if channels == 1:  # told apart by its stride alone
        return found.as_strided(found.shape, (height * width, 1, width, 1))
    return found


def _is_own(module: nn.Module) -> bool:
    name = type(module).__module__
    return name.partition(".")[0] in OWN or name in OUR_WRAPPERS


def _narrow(layer: nn.Conv2d) -> bool:
    strided = any(stride > 1 for stride in layer.stride)
    pointwise = all(size == 1 for size in layer.kernel_size)
    return strided and pointwise and layer.in_channels // layer.groups < FEWEST_STRIDED_CHANNELS


def _outputs(network: nn.Module, layers: list[nn.Conv2d], inputs: Tensor) -> int:
    """Numbers that the layers give for an example."""
    count = 0

    def add(module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal count
        count += output.numel()

    handles = [layer.register_forward_hook(add) for layer in layers]
    training = network.training
    try:
        with torch.no_grad():
            network.eval()(inputs)
    finally:
        network.train(training)
        for handle in handles:
            handle.remove()
    return count
