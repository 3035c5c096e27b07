"""Networks as the sandbox gets them: without family name, width, hyper-parameters, task or place."""

from __future__ import annotations

import io
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Handover:
    """What one measurement sees, as `Context` has it.

    `inputs`, `targets`: the examples to differentiate on; `all_*`: the whole training set where that is larger.
    """

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    initial: nn.Module | None = None
    all_inputs: Tensor | None = None
    all_targets: Tensor | None = None
    loss: str = "cross_entropy"
    history: dict[str, list[float]] | None = None
    checkpoints: tuple[tuple[int, nn.Module], ...] | None = None
    sibling: nn.Module | None = None
    unlabelled: Tensor | None = None

    def packed(self) -> bytes:
        """The content for the other side, made and read by trusted code alone."""
        stream = io.BytesIO()
        content: dict[str, object] = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name != "loss"
        }
        torch.save(content, stream)
        return stream.getvalue()

    def modules(self) -> list[str]:
        """Modules that define the network's classes."""
        return sorted({type(module).__module__ for module in self.model.modules()})
