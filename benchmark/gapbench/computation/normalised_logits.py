"""A network whose logits have mean 0 and norm 1 in every example."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class NormalisedLogits(nn.Module):
    """f -> (f - mean f) / |f - mean f|_2 over the classes of each example."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """Normalised logits (n, C)."""
        logits = self.network(x)
        centred = logits - logits.mean(dim=1, keepdim=True)
        normalised: Tensor = centred / torch.linalg.vector_norm(centred, dim=1, keepdim=True)
        return normalised
