"""What a suite may have recorded of the course of a training, for proxies that look at more than its end.

Epochs are log-spaced: 1, 2, 3, 4, 6, 8, 11, 16, ... (powers of the root of 2, rounded), and the end. At each of
them the network is looked at as it is judged in the end: a copy in eval mode, batch normalisation re-estimated, the
examples as they are. Nothing of the training depends on it.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gapbench.computation.batch_norm import reestimate_batch_norm
from gapbench.population.evaluation import Evaluation, evaluate
from gapbench.runs.weights import state_of
from gapbench.suites.records import PATH
from gapbench_tasks import Split
from gapbench_tasks.selection import stratified_subset

NOISE_EXAMPLES = 64
"""Training examples that the gradient noise is computed on, at most."""


def recorded_epochs(limit: int) -> list[int]:
    """The epochs up to a limit after which a training is recorded."""
    found: list[int] = []
    power = 0
    while (epoch := round(2 ** (power / 2))) <= limit:
        if not found or epoch > found[-1]:
            found.append(epoch)
        power += 1
    return found


@dataclass(frozen=True)
class Recorded:
    """What was recorded, one entry for each time; the last is of the network as training left it.

    Attributes:
        epochs: at which times, in epochs; the last may be within one.
        losses: cross-entropy on the whole training set (nats).
        errors: fraction of wrong training labels.
        noise: trace of the covariance of the gradient of single examples' losses, on a fixed stratified subset of
            at most `NOISE_EXAMPLES` training examples (unbiased).
        gradient_norms: Euclidean norm of the mean gradient on the same examples.
        states: parameters and buffers by the epoch, where checkpoints are kept, without the last.
    """

    epochs: tuple[float, ...]
    losses: tuple[float, ...]
    errors: tuple[float, ...]
    noise: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    states: dict[int, dict[str, Tensor]] = field(default_factory=dict)

    def as_history(self) -> dict[str, list[float]]:
        """Its numbers, as `Context.history` names them."""
        return {
            "epoch": list(self.epochs),
            "train_loss": list(self.losses),
            "train_error": list(self.errors),
            "gradient_noise": list(self.noise),
            "gradient_norm": list(self.gradient_norms),
        }


class Recorder:
    """Records one training; `kind` is "losses" or "path"."""

    def __init__(self, kind: str, train_split: Split):
        self.kind, self.split = kind, train_split
        labels = train_split.targets.cpu().numpy()
        count = min(NOISE_EXAMPLES, len(labels))
        enough = count < len(labels) and count >= len(set(labels.tolist()))
        chosen = stratified_subset(labels, count, "gradient_noise") if enough else range(count)
        self._examples = torch.as_tensor(list(chosen), device=train_split.targets.device)
        self._rows: list[tuple[float, float, float, float, float]] = []
        self._states: dict[int, dict[str, Tensor]] = {}

    def due(self, epoch: int) -> bool:
        """Whether the network is recorded after an epoch."""
        return recorded_epochs(epoch)[-1] == epoch

    def look(self, model: nn.Module, epoch: int) -> None:
        """Record the network after an epoch."""
        seen = copy.deepcopy(model)
        reestimate_batch_norm(seen, self.split.inputs)
        seen.eval()
        self._add(seen, float(epoch), evaluate(seen, self.split.inputs, self.split.targets))
        if self.kind == PATH:
            self._states[epoch] = state_of(seen)

    def end(self, model: nn.Module, epoch: float, on_train: Evaluation) -> Recorded:
        """Record the network as training leaves it, in eval mode; what was recorded later does not count."""
        self._rows = [row for row in self._rows if row[0] < epoch]
        self._add(model, epoch, on_train)
        states = {at: state for at, state in self._states.items() if at < epoch}
        epochs, losses, errors, noise, norms = zip(*self._rows)
        return Recorded(epochs, losses, errors, noise, norms, states)

    def _add(self, model: nn.Module, epoch: float, on_train: Evaluation) -> None:
        noise, norm = gradient_noise(
            model, self.split.inputs[self._examples], self.split.targets[self._examples]
        )
        self._rows.append((epoch, on_train.cross_entropy, on_train.error, noise, norm))


def gradient_noise(model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[float, float]:
    """Trace of the covariance of the gradient over single examples, and the norm of the mean gradient.

    Cross-entropy, in the mode in which the network is; examples are taken one by one, whatever it is made of.

    Args:
        model: the network, whose gradients are left as they were.
        inputs: (n, ...).
        targets: (n,) labels.

    Returns:
        sum_i |g_i - g|^2 / (n - 1), g the mean of the gradients g_i, and |g|; NaN for the first where n = 1.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    total = torch.zeros(sum(p.numel() for p in parameters), dtype=torch.float64, device=inputs.device)
    squares = 0.0
    for example, target in zip(inputs, targets):
        loss = nn.functional.cross_entropy(model(example[None]), target[None])
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        flat = torch.cat(
            [
                (torch.zeros_like(p) if g is None else g).reshape(-1).double()
                for p, g in zip(parameters, gradients)
            ]
        )
        total += flat
        squares += float(flat @ flat)
    count = len(inputs)
    mean = total / count
    norm = float(mean.norm())
    noise = (squares - count * norm**2) / (count - 1) if count > 1 else math.nan
    return max(0.0, noise) if noise == noise else noise, norm
