"""The loss in coordinates relative to each parameter: theta_i (1 + xi_i)."""

from __future__ import annotations

import torch
from torch import Tensor

from gapbench.curvature.loss import Landscape


class ElementwiseLandscape:
    """xi (d,) -> L(theta + |theta| xi): Euclidean balls in xi are those of adaptive sharpness."""

    def __init__(self, landscape: Landscape):
        self.landscape = landscape
        self.origin = landscape.theta()
        self.sizes = self.origin.abs()
        self.dtype = landscape.dtype

    def theta(self) -> Tensor:
        """The network's own parameters: xi = 0."""
        return torch.zeros_like(self.origin)

    def value(self, theta: Tensor | None = None) -> float:
        """L at theta_0 + |theta_0| xi, xi = `theta` (d,)."""
        xi = self.theta() if theta is None else theta
        return self.landscape.value(self.origin + self.sizes * xi)

    def value_and_gradient(self, theta: Tensor | None = None) -> tuple[float, Tensor]:
        """L there and its gradient (d,) in xi."""
        xi = self.theta() if theta is None else theta
        value, gradient = self.landscape.value_and_gradient(self.origin + self.sizes * xi)
        return value, self.sizes * gradient


class ScaledLandscape(ElementwiseLandscape):
    """xi (d,) -> L(theta + scale xi): the unit ball of the maximum norm in xi is the box |delta_i| <= scale_i."""

    def __init__(self, landscape: Landscape, scale: Tensor):
        super().__init__(landscape)
        self.sizes = scale
