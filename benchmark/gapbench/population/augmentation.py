"""Training augmentation: what happens to the examples of a mini-batch before a step, drawn anew for each.

The kinds of single images draw for each image by itself. `rot4` and `rotate` are groups that the loss of an input
is averaged over. `mixup` is of a whole mini-batch and its targets.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gapbench_base.errors import GapbenchError
from gapbench_tasks.rotation import rotate, rotate_quarters

CROP_SHARE = 8
"""A crop shifts an image by at most this part of its side."""


def augment(
    inputs: Tensor,
    kind: str,
    black: Tensor,
    generator: torch.Generator,
    strength: float = 1.0,
    upright: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Each input (n, c, h, w) of a batch, with probability `strength`, changed at random.

    * `none`: as it is.
    * `rot4`: turned by a multiple of 90 degrees; `rotate`: by any angle, uniformly.
    * `flip`: mirrored left to right, with probability 1/2.
    * `crop`: shifted by whole pixels, uniformly up to an eighth of each side in both directions.
    * `flip_crop`: both.
    * `cutout`: a square of half the (shorter) side is black; its centre is a pixel drawn uniformly, and what would
      lie outside of the image is cut off (DeVries and Taylor 2017).

    `black` (c,) is the preprocessed value of a zero pixel, which fills what is uncovered. `generator` lives on the
    CPU. `upright` has, for inputs that are turned images, the images (n, c, h, w) and by how many degrees (n,) they
    are turned: `rotate` then turns the images once, by both angles, so that they are interpolated once.

    Returns:
        Inputs of the same shape.

    Raises:
        GapbenchError: for an unknown `kind`, `rot4` on images that are not square, and images too small to be
            cropped or cut.
    """
    if kind == "none":
        return inputs
    touched = torch.rand(len(inputs), generator=generator) < strength if strength < 1 else None
    changed = (
        _turned(inputs, black, generator, upright)
        if kind == "rotate"
        else _changed(inputs, kind, black, generator)
    )
    if touched is None:
        return changed
    return torch.where(touched.to(inputs.device).reshape(-1, 1, 1, 1), changed, inputs)


def _changed(inputs: Tensor, kind: str, black: Tensor, generator: torch.Generator) -> Tensor:
    if kind == "rot4":
        if inputs.shape[-1] != inputs.shape[-2]:
            raise GapbenchError(f"Augmentation rot4 needs square inputs, not {tuple(inputs.shape[-2:])}.")
        quarters = torch.randint(0, 4, (len(inputs),), generator=generator)
        return rotate_quarters(inputs, quarters.to(inputs.device))
    if kind == "flip":
        return _flipped(inputs, generator)
    if kind == "crop":
        return _shifted(inputs, black, generator)
    if kind == "flip_crop":
        return _shifted(_flipped(inputs, generator), black, generator)
    if kind == "cutout":
        return _cut(inputs, black, generator)
    raise GapbenchError(f"There is no augmentation {kind!r}.")


def _turned(
    inputs: Tensor, black: Tensor, generator: torch.Generator, upright: tuple[Tensor, Tensor] | None
) -> Tensor:
    degrees = (torch.rand(len(inputs), generator=generator) * 360.0).to(inputs.device)
    if upright is not None:
        inputs, degrees = upright[0], upright[1] + degrees
    level = black.reshape(1, -1, 1, 1)
    return rotate(inputs - level, degrees) + level


def _flipped(inputs: Tensor, generator: torch.Generator) -> Tensor:
    mirrored = torch.randint(0, 2, (len(inputs),), generator=generator).bool().to(inputs.device)
    return torch.where(mirrored.reshape(-1, 1, 1, 1), inputs.flip(-1), inputs)


def _shifted(inputs: Tensor, black: Tensor, generator: torch.Generator) -> Tensor:
    count, _, height, width = inputs.shape
    if min(height, width) < CROP_SHARE:
        raise GapbenchError(
            f"Augmentation crop shifts by up to 1/{CROP_SHARE} of a side: inputs of {height} x {width} are too "
            f"small for it, each side must have at least {CROP_SHARE} pixels."
        )
    level = black.to(inputs.dtype).reshape(1, -1, 1, 1)
    found, inside = inputs, None
    for dimension, side in ((2, height), (3, width)):
        most = side // CROP_SHARE
        shift = torch.randint(-most, most + 1, (count, 1), generator=generator)
        source = (torch.arange(side) - shift).to(
            inputs.device
        )  # (n, side): where each row or column comes from
        shape = (count, 1, side, 1) if dimension == 2 else (count, 1, 1, side)
        visible = ((source >= 0) & (source < side)).reshape(shape)
        inside = visible if inside is None else inside & visible
        index = source.clamp(0, side - 1).reshape(shape).expand_as(found)
        found = found.gather(dimension, index)
    assert inside is not None
    return torch.where(inside, found, level)


def _cut(inputs: Tensor, black: Tensor, generator: torch.Generator) -> Tensor:
    count, _, height, width = inputs.shape
    size = min(height, width) // 2
    if not size:
        raise GapbenchError(
            f"Augmentation cutout blackens a square of half the side: inputs of {height} x {width} are too "
            "small for it, each side must have at least 2 pixels."
        )
    covered = []
    for side in (height, width):
        start = torch.randint(0, side, (count, 1), generator=generator) - size // 2
        place = torch.arange(side)
        covered.append(((place >= start) & (place < start + size)).to(inputs.device))
    square = covered[0].reshape(count, 1, height, 1) & covered[1].reshape(count, 1, 1, width)
    return torch.where(square, black.to(inputs.dtype).reshape(1, -1, 1, 1), inputs)


def mixup(
    inputs: Tensor, targets: Tensor, generator: np.random.Generator, alpha: float = 1.0, strength: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Mixup (Zhang et al. 2018): each example of a batch with another, all by one lambda ~ Beta(alpha, alpha).

    The cross-entropy is linear in the targets' probabilities, so that with mixed ones it is lambda CE(y) +
    (1 - lambda) CE(y'). With probability 1 - `strength` the batch stays as it is.

    Args:
        inputs: (n, ...).
        targets: probabilities (n, classes).
        generator: of the draws.
        alpha: of the distribution of lambda.
        strength: probability with which the batch is mixed.

    Returns:
        Inputs lambda x + (1 - lambda) x' and targets lambda q + (1 - lambda) q', x' and q' being those of a
        permutation of the batch.
    """
    share = float(generator.beta(alpha, alpha))
    order = torch.from_numpy(generator.permutation(len(inputs))).to(inputs.device)
    if strength < 1 and generator.random() >= strength:
        return inputs, targets
    return (
        share * inputs + (1.0 - share) * inputs[order],
        share * targets + (1.0 - share) * targets[order],
    )
