"""The loss on a few of a landscape's examples."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from gapbench.curvature.derivatives import DerivativeDefects
from gapbench.curvature.loss import Landscape
from gapbench_base.errors import NotDefined


class Part(Landscape):
    """L(theta) = mean loss on some of the examples of `whole`, whose tests of derivatives stand for the part."""

    def __init__(self, whole: Landscape, inputs: Tensor, targets: Tensor):
        super().__init__(whole.model, inputs, targets, whole.loss, whole.chunk)
        self.whole = whole

    @property
    def findings(self) -> DerivativeDefects:
        """Those of the whole."""
        return self.whole.findings

    def require_precision(self) -> None:
        """As for the whole."""
        self.whole.require_precision()


def parts_of(landscape: Landscape, size: int) -> Iterator[Part]:
    """The examples in their order, `size` at a time, the last ones fewer.

    Yields:
        The loss on each part.

    Raises:
        NotDefined: examples meet in the network, so that a part has no loss of its own.
    """
    if landscape.mixed is not None:
        raise NotDefined(f"batches have no loss of their own: {landscape.mixed}")
    for x, y in zip(torch.split(landscape.inputs, size), torch.split(landscape.targets, size)):
        yield Part(landscape, x, y)
