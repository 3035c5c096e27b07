"""Rotations of images: bilinear about the centre, zeros outside, exact at multiples of 90 degrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def rotate(images: Tensor, degrees: Tensor) -> Tensor:
    """Rotate each image counter-clockwise about its centre.

    Bilinear, zeros outside, size kept: the same sampling as
    `torchvision.transforms.functional.rotate(..., InterpolationMode.BILINEAR, fill=0)`.

    Args:
        images: (n, c, h, w) floating point.
        degrees: (n,).

    Returns:
        (n, c, h, w).
    """
    import torch

    height, width = images.shape[-2:]
    angle = torch.deg2rad(degrees.to(images.dtype))
    cosine, sine, zero = torch.cos(angle), torch.sin(angle), torch.zeros_like(angle)
    # affine_grid works in coordinates that run from -1 to 1 along each axis: the aspect ratio enters.
    matrix = torch.stack(
        [
            torch.stack([cosine, -sine * (height / width), zero], dim=1),
            torch.stack([sine * (width / height), cosine, zero], dim=1),
        ],
        dim=1,
    )
    grid = torch.nn.functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(
        images, grid, mode="bilinear", padding_mode="zeros", align_corners=False
    )


def rotate_quarters(images: Tensor, quarters: Tensor) -> Tensor:
    """Rotate each square image (n, c, s, s) counter-clockwise by `quarters` (n,) x 90 degrees, exactly."""
    import torch

    result = images.clone()
    for turns in (1, 2, 3):
        chosen = quarters % 4 == turns
        result[chosen] = torch.rot90(images[chosen], turns, dims=(-2, -1))
    return result
