"""What of the loss Hessian the Gauss-Newton matrix leaves out: R = sum_i (dL / df_i) d^2 f_i / dtheta^2."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.backward import with_parameters_of
from gapbench.curvature.heads import per_example_loss
from gapbench.curvature.loss import KEPT_EXAMPLES, Landscape
from gapbench_base.errors import NotDefined

KEPT_NUMBERS = 5e7  # of all products together, which are kept up to that


class Residual:
    """v -> R v at the network's parameters, by double backward.

    R is the Hessian of r . f(theta), r = dL / df held fixed. Graphs are built once and kept up to `KEPT_EXAMPLES`
    examples.
    """

    def __init__(self, landscape: Landscape):
        self.landscape = landscape
        keep = len(landscape.inputs) <= KEPT_EXAMPLES
        self._graphs = [self._graph(x, y) for x, y in landscape.chunks()] if keep else None

    def _graph(self, x: Tensor, y: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        landscape = self.landscape
        parameters = [p.detach().clone().requires_grad_() for p in landscape.model.parameters()]

        def gradients(network: nn.Module) -> list[Tensor]:
            outputs = network(x)
            free = outputs.detach().requires_grad_()
            loss = per_example_loss(free, y, landscape.loss).sum() / len(landscape.inputs)
            (slope,) = torch.autograd.grad(loss, free)
            return list(
                torch.autograd.grad(
                    (outputs * slope).sum(),
                    parameters,
                    create_graph=True,
                    allow_unused=True,
                    materialize_grads=True,
                )
            )

        with torch.enable_grad(), plain_kernels(landscape.dtype):
            found: list[Tensor] = with_parameters_of(
                landscape.model, dict(zip(landscape.names, parameters)), gradients
            )
        return parameters, found

    def product(self, vector: Tensor) -> Tensor:
        """R v for v (d,).

        Returns:
            (d,) in the vector's type.

        Raises:
            NotDefined: it is not finite.
        """
        landscape = self.landscape
        result = torch.zeros_like(vector)
        vectors = list(landscape.unflatten(vector).values())
        graphs = self._graphs
        if graphs is None:
            for x, y in landscape.chunks():
                result += landscape.vector_product(*self._graph(x, y), vectors)
        else:
            for parameters, gradients in graphs:
                result += landscape.vector_product(parameters, gradients, vectors)
        if not bool(result.isfinite().all()):
            raise NotDefined("a Hessian product is not finite")
        return result.detach()


class ResidualProbes:
    """Random signs z (d,) and R z, the same each time; products are kept up to `KEPT_NUMBERS` numbers.

    `count` of them, from a seed drawn from `generator`. With `weights` w (d,) products are R (w z), and z is given
    as w z.
    """

    def __init__(
        self, landscape: Landscape, generator: torch.Generator, count: int, weights: Tensor | None = None
    ):
        self.landscape, self.count, self.weights = landscape, count, weights
        self.seed = int(torch.randint(2**62, (1,), generator=generator))
        self._residual: Residual | None = None
        self._kept: list[Tensor] = []

    def signs(self) -> Iterator[Tensor]:
        """The vectors z, or w z, alone."""
        landscape = self.landscape
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(self.count):
            signs = torch.randint(0, 2, (landscape.dimension,), generator=generator) * 2 - 1
            probe = signs.to(device=landscape.device, dtype=landscape.dtype)
            yield probe if self.weights is None else probe * self.weights

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        landscape = self.landscape
        keep = self.count * landscape.dimension <= KEPT_NUMBERS
        for i, probe in enumerate(self.signs()):
            if i < len(self._kept):
                yield probe, self._kept[i]
                continue
            self._residual = self._residual or Residual(landscape)
            product = self._residual.product(probe)
            if keep:
                self._kept.append(product)
            yield probe, product
        self._residual = None  # its graphs are as large as those of the loss
