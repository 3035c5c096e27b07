"""The share of misclassified examples as a function of one flat parameter vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gapbench.computation.tracing import plain_kernels
from gapbench.curvature.backward import with_parameters_of
from gapbench.curvature.heads import class_logits
from gapbench.curvature.loss import Landscape


class ErrorRate:
    """theta (d,) -> 0-1 error on a landscape's examples, positions of maps and sequences counted one by one.

    An example counts as wrong where the largest logit is another class's, or a logit is not finite. Targets are
    classes. The network is in the mode in which it is: eval.
    """

    def __init__(self, landscape: Landscape):
        self.landscape = landscape

    @torch.no_grad()
    def __call__(self, theta: Tensor | None = None) -> float:
        """The share of wrong examples at `theta`, by default at the network's own parameters."""
        landscape = self.landscape
        landscape.require_precision()
        parameters = landscape.unflatten(landscape.theta() if theta is None else theta)

        def shares(network: nn.Module) -> list[Tensor]:
            return [self._wrong(network(x.clone()), y) for x, y in landscape.chunks()]

        with plain_kernels(landscape.dtype):
            wrong = torch.cat(with_parameters_of(landscape.model, parameters, shares))
        return float(wrong.double().mean())

    @staticmethod
    def _wrong(outputs: Tensor, targets: Tensor) -> Tensor:
        logits = class_logits(outputs, tuple(targets.shape[1:]))
        found = logits.argmax(dim=2) != targets.reshape(len(targets), -1)
        return (found | ~logits.isfinite().all(dim=2)).reshape(-1)
