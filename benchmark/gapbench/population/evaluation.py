"""Errors and losses of a network on a fixed split."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

EVALUATION_BATCH = 500


@dataclass(frozen=True)
class Evaluation:
    """Of one split in eval mode: `error` (fraction), `cross_entropy` (nats), `correct` (n,) bool on the CPU."""

    error: float
    cross_entropy: float
    correct: Tensor


@torch.no_grad()
def logits_of(model: nn.Module, inputs: Tensor, batch: int = EVALUATION_BATCH) -> Tensor:
    """Logits (n, classes) in the model's current mode, computed in batches."""
    return torch.cat([model(part) for part in inputs.split(batch)])


@torch.no_grad()
def evaluate(model: nn.Module, inputs: Tensor, targets: Tensor) -> Evaluation:
    """Evaluate in eval mode; the network's mode is restored."""
    training = model.training
    model.eval()
    logits = logits_of(model, inputs).double()
    model.train(training)
    correct = logits.argmax(dim=1) == targets
    # Non-finite logits have an arbitrary argmax; such an example is not classified at all.
    correct &= torch.isfinite(logits).all(dim=1)
    return Evaluation(
        error=1.0 - float(correct.sum()) / len(targets),
        cross_entropy=float(nn.functional.cross_entropy(logits, targets)),
        correct=correct.cpu(),
    )
