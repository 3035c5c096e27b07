"""What every group can do, and index tensors that they share."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class Group(Protocol):
    """A group of transformations of theta (d,) with `size` coordinates, in float64.

    `tangent(c)` is the derivative along c (size,) of the finite transformation at the identity; `cotangent(z)` is
    its transpose.
    """

    size: int

    def tangent(self, c: Tensor) -> Tensor:
        """T c (d,)."""

    def add_to(self, out: Tensor, c: Tensor) -> None:
        """Add T c to out (d,)."""

    def cotangent(self, z: Tensor) -> Tensor:
        """T' z (size,)."""


def ids(values: np.ndarray, device: torch.device) -> Tensor:
    """Whole numbers, or real ones, as a tensor on `device`."""
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)
