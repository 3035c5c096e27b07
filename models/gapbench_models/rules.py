"""How width becomes channel counts, and image size becomes patches and down-sampling.

**Width.** A layer of `base` channels has `scaled(base, width)` channels: the nearest multiple of a divisor,
halves rounded up, never below a minimum. That is a non-decreasing step function of the width, and so is every
parameter count made from it. Families whose library brings its own rounding (MobileNet, EfficientNet:
multiples of 8, at most 10 % below the exact value) keep it; it is non-decreasing too.

**Attention.** The number of heads is the architecture's and does not change with width; width scales the size
of a head, so that the hidden size is always divisible by the number of heads.

**Image size.** Stems have stride 1 and no pooling. A later down-sampling is kept as long as both sides of the
map after it are at least `minimum_map(kernel)`; otherwise a strided convolution gets stride 1, a patch
merging becomes a 1 x 1 convolution and a pooling layer is left out. On a smaller map the outer taps of the
largest kernel would only ever see padding: weights that no input can reach, which would count as flat
directions.

**Patches.** Patch embeddings cover the image exactly: see `patch_size`.
"""

from __future__ import annotations

import math

FEWEST_STRIDED_CHANNELS = 8
"""Least number of channels that a strided 1 x 1 convolution (a residual shortcut) may read.

With six or fewer channels in channels_last memory format the weight gradient of oneDNN 3.12 (torch 2.14, CPUs
with AVX2; `jit_avx2_1x1_convolution_bwd_weights_t`) writes past its buffer and corrupts the heap, with a crash
much later or none. Eight channels and more were checked with valgrind.
"""

INITIAL_LAYER_SCALE = 0.1
"""Initial factor on residual branches that carry a layer scale. ConvNeXt's own 1e-6 is meant for hundreds of
epochs and leaves the branches without effect in short trainings; 0.1 is what Touvron et al. (2021, "Going
deeper with image transformers", section 3) use up to 18 blocks."""


def scaled(base: int, width: float, divisor: int = 1, minimum: int | None = None) -> int:
    """Channels of a layer of `base` channels at this width, non-decreasing in width.

    Returns:
        A multiple of `divisor`, at least `minimum` (default: `divisor`) rounded up to one.
    """
    lowest = divisor * math.ceil((divisor if minimum is None else minimum) / divisor)
    return max(lowest, divisor * math.floor(base * width / divisor + 0.5))


def minimum_map(kernel: int) -> int:
    """Smallest side of a map on which every tap of a centred convolution of this kernel meets a pixel."""
    return (kernel + 1) // 2


def patch_size(size: tuple[int, int], preferred: int) -> int:
    """Side of square patches: the largest up to `preferred` that tiles the image into at least 4 x 4 patches.

    Returns:
        It divides height and width, so no pixel is dropped; an image with prime sides has 1 x 1 patches.
    """
    height, width = size
    largest = max(1, min(preferred, height // 4, width // 4))
    return next(side for side in range(largest, 0, -1) if height % side == 0 and width % side == 0)
