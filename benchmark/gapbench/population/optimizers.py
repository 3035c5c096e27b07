"""Optimizers by name, and one training step of each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gapbench.suites.hyperparameters import Hyperparameters


def make_optimizer(model: nn.Module, values: Hyperparameters) -> torch.optim.Optimizer:
    """SGD with (heavy-ball) momentum, also the base of SAM; Adam; or AdamW.

    L2 enters the gradient in each but AdamW, which shrinks the parameters beside its step.

    Returns:
        torch's own optimizer.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    if values.optimizer in ("adam", "adamw"):
        kind = torch.optim.Adam if values.optimizer == "adam" else torch.optim.AdamW
        return kind(parameters, lr=values.learning_rate, weight_decay=values.weight_decay)
    return torch.optim.SGD(
        parameters, lr=values.learning_rate, momentum=values.momentum, weight_decay=values.weight_decay
    )


def step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_of_batch: Callable[[], Tensor],
    values: Hyperparameters,
) -> Tensor:
    """One step of the optimizer.

    SAM (Foret et al. 2021, eq. 4): the gradient is taken at theta + rho g / |g|. Batch normalisation updates
    its running statistics in both passes; they are re-estimated after training anyway. A gradient that is clipped
    is the one that the optimizer gets (with SAM that at the moved point), before any weight decay.

    Returns:
        The (detached) batch loss at the point where the step began.
    """
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of_batch()
    loss.backward()
    if values.optimizer == "sam":
        moved = [(p, p.grad.clone(), p.detach().clone()) for p in model.parameters() if p.grad is not None]
        norm = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(gradient) for _, gradient, _ in moved])
        )
        scale = values.sam_rho / (norm + 1e-12)
        with torch.no_grad():
            for parameter, gradient, _ in moved:
                parameter.add_(gradient * scale)
        optimizer.zero_grad(set_to_none=True)
        loss_of_batch().backward()
        with torch.no_grad():
            for parameter, _, before in moved:
                parameter.copy_(before)  # subtracting again would leave a rounding error in every step
    if values.gradient_clip:
        nn.utils.clip_grad_norm_(model.parameters(), values.gradient_clip)
    optimizer.step()
    return loss.detach()
