"""The loss in coordinates relative to each parameter: theta_i (1 + xi_i)."""

from __future__ import annotations

from collections.abc import Callable

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


class Boxes:
    """Perturbations |delta_i| <= scale_i, or with norm "l2" |delta / scale|_2 <= 1, by a size that sets the scale.

    `scale`: size -> (d,) or (). `known`: the loss and its gradient at the network's own parameters. `measured`:
    theta (d,) -> what rises, the loss by default, and `base` what it is at the network's own.
    """

    def __init__(
        self,
        landscape: Landscape,
        scale: Callable[[float], Tensor],
        norm: str,
        known: tuple[float, Tensor],
        measured: Callable[[Tensor], float],
        base: float,
    ):
        self.landscape, self.scale, self.norm = landscape, scale, norm
        self.known, self.measured, self.base = known, measured, base
        self.theta = landscape.theta()

    def surface(self, size: float) -> ScaledLandscape:
        """The loss in units of the scale."""
        return ScaledLandscape(self.landscape, self.scale(size))

    def origin(self, size: float) -> tuple[float, Tensor]:
        """The loss and its gradient (d,) in these units at the network's own parameters."""
        loss, gradient = self.known
        return loss, self.scale(size) * gradient

    def rise(self, size: float, xi: Tensor) -> float:
        """By how much it has risen at xi (d,) in these units."""
        return self.measured(self.theta + self.scale(size) * xi) - self.base
